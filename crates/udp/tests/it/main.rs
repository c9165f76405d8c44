//! Integration tests of `uroce-udp`, as one program: each is linked once.

mod bind_errors;
mod conformance;
mod datagrams;
mod ends;
mod in_place;
mod slots;
mod sniffer;
mod udp_wire;
mod uring;
