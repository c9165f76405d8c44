//! A WRITE without an address and a key at the peer.
use uroce_verbs::{MemoryRegion, SendWr};

fn write(mr: &MemoryRegion) {
    let _ = SendWr::write(1, &[mr.sge(..)]);
}

fn main() {}
