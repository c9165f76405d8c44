//! An lkey is not an rkey, although the numbers may be equal.
use uroce_verbs::{MemoryRegion, RemoteSlice};

fn remote(mr: &MemoryRegion) -> RemoteSlice {
    RemoteSlice::new(mr.addr(), mr.lkey(), 8)
}

fn main() {}
