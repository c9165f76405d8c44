//! After deregistration there is nothing to ask for a key.
use uroce_verbs::{MemoryRegion, RemoteSlice};

fn late(mr: MemoryRegion) -> RemoteSlice {
    let _ = mr.deregister();
    mr.remote()
}

fn main() {}
