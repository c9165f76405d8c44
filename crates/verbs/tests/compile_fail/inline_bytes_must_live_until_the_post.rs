//! Inline bytes are copied by the post: they must still be there then.
use uroce_verbs::{PostError, QueuePair, SendWr};

fn post(qp: &QueuePair) -> Result<(), PostError> {
    let wr = {
        let bytes = vec![1, 2, 3];
        SendWr::send(1, &[]).inline(&bytes)
    };
    qp.post_send(&[wr])
}

fn main() {}
