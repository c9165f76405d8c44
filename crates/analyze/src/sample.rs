//! Packets for the tests of this crate.

use std::net::SocketAddr;

use uroce_wire::{Aeth, Bth, Opcode, Psn, Qpn, Syndrome};

use crate::{Encapsulation, IcrcStatus, Packet, Timestamp};

/// A packet from 10.0.0.1 to 10.0.0.2.
pub fn packet(opcode: Opcode, qpn: u32, psn: u32) -> Packet {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Packet {
        frame: 1,
        segment: 0,
        time: Timestamp::default(),
        direction: None,
        encapsulation: Encapsulation::RoceV2,
        source: address("10.0.0.1:50000"),
        destination: address("10.0.0.2:4791"),
        traffic_class: 0,
        hop_limit: 64,
        wire_len: 100,
        bth: Bth::new(opcode, Qpn::new(qpn), Psn::new(psn)),
        opcode_info: opcode.info(),
        reth: None,
        aeth: None,
        deth: None,
        atomic_eth: None,
        atomic_ack: None,
        immediate: None,
        invalidate_rkey: None,
        xrc_srqn: None,
        feth: None,
        payload_len: 0,
        is_cut: false,
        icrc: IcrcStatus::Right,
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
