//! Integration tests of `uroce-packet`, as one program: each is linked once.

mod capture_live;
mod conformance;
mod engines;
mod frame_port;
mod groups;
mod packet_wire;
