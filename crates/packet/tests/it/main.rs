//! Integration tests of `uroce-packet`, as one program: each is linked once.

mod capture_live;
mod conformance;
mod lanes;
mod packet_wire;
