//! The target of a WRITE is what a peer told us, not a region of ours.
use uroce_verbs::{MemoryRegion, SendWr};

fn write(mr: &MemoryRegion) {
    let _ = SendWr::write(1, &[], mr);
}

fn main() {}
