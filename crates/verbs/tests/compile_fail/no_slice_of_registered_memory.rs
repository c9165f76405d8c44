//! A peer may change the bytes at any time: there is no way to a slice of them.
use uroce_verbs::MemoryRegion;

fn first(mr: &MemoryRegion) -> &[u8] {
    mr.as_slice()
}

fn second(mr: &MemoryRegion) -> u8 {
    mr[0]
}

fn main() {}
