//! Packets for the tests of this crate.

use std::net::SocketAddr;

use uroce_wire::{Aeth, Bth, Opcode, Psn, Qpn, Syndrome};

use crate::{IcrcStatus, Packet};

/// A packet from 10.0.0.1 to 10.0.0.2.
pub fn packet(opcode: Opcode, qpn: u32, psn: u32) -> Packet {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Packet {
        source: address("10.0.0.1:50000"),
        destination: address("10.0.0.2:4791"),
        wire_len: 100,
        icrc: IcrcStatus::Right,
        ..Packet::new(Bth::new(opcode, Qpn::new(qpn), Psn::new(psn)))
    }
}

/// An acknowledgement from 10.0.0.2 to 10.0.0.1.
pub fn answer(qpn: u32, psn: u32, syndrome: Syndrome) -> Packet {
    let request = packet(Opcode::RC_ACKNOWLEDGE, qpn, psn);
    Packet {
        aeth: Some(Aeth { syndrome, msn: 0 }),
        source: request.destination,
        destination: request.source,
        ..request
    }
}
