//! Integration tests of `uroce-datapath`, as one program: each is linked once.

mod bind_errors;
mod capture;
mod capture_live;
mod checks;
mod conformance;
mod lanes;
mod netns;
mod packet_wire;
mod slots;
mod udp_wire;
mod uring;
