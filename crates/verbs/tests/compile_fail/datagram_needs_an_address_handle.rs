//! The destination of a datagram is an address handle, not an address.
use std::net::IpAddr;
use uroce_verbs::{Qpn, SendWr};

fn send(to: IpAddr) {
    let _ = SendWr::send(1, &[]).to(&to, Qpn::new(17), 0x1234);
}

fn main() {}
