//! A completion queue is polled into completions, not into bytes.
use uroce_verbs::CompletionQueue;

fn poll(cq: &CompletionQueue) -> usize {
    let mut out = [0_u8; 64];
    cq.poll(&mut out)
}

fn main() {}
