//! A work request borrows its scatter/gather list until it is posted.
use uroce_verbs::{MemoryRegion, RecvWr};

fn receive(mr: &MemoryRegion) -> RecvWr<'static> {
    let sges = [mr.sge(..)];
    RecvWr::new(1, &sges)
}

fn main() {}
