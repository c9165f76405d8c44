//! Who drops a queue pair destroys it: there is no second handle.
use uroce_verbs::QueuePair;

fn twice(qp: &QueuePair) -> (QueuePair, QueuePair) {
    (qp.clone(), qp.clone())
}

fn main() {}
