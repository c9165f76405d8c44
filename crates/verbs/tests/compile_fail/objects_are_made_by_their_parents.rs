//! No queue pair without a protection domain and completion queues.
use uroce_verbs::{Context, QpType, QueuePair};

fn build(context: &Context) -> QueuePair {
    context.qp_builder(QpType::Rc).build().unwrap()
}

fn main() {}
