//! A packet for the tests of this module.

use std::net::SocketAddr;

use uroce_wire::{Bth, Header, Opcode, Psn, Qpn, Reth};

use super::input::{Facts, ViewRow};
use crate::{IcrcStatus, LinkType, Packet, Timestamp};

/// An RDMA WRITE of 64 bytes in an Ethernet frame.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub packet: Packet,
    pub frame: Vec<u8>,
    pub facts: Facts<'static>,
    pub comment: String,
}

impl Sample {
    /// What its payload repeats.
    pub(super) const PAYLOAD: [u8; 4] = [0xca, 0xfe, 0xba, 0xbe];
    const BTH: usize = 42;

    pub(super) fn write() -> Self {
        let bth = Bth::new(Opcode::RC_WRITE_ONLY, Qpn::new(0x11), Psn::new(0x1234));
        let reth = Reth { va: 0x1000, rkey: 0x77, length: 64 };
        let mut frame = vec![0; Self::BTH + 28];
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[23] = 17;
        bth.write(&mut frame[Self::BTH..]).expect("room");
        reth.write(&mut frame[Self::BTH + 12..]).expect("room");
        frame.extend(Self::PAYLOAD.repeat(16));
        frame.extend([1, 2, 3, 4]);
        let facts = Facts { psn: 0x1234, ..Facts::default() };
        Self { packet: packet(bth, reth), frame, facts, comment: String::new() }
    }

    pub(super) fn row(&self) -> ViewRow<'_> {
        ViewRow {
            packet: &self.packet,
            link_type: LinkType::Ethernet,
            frame: &self.frame,
            bth: Self::BTH,
            transport: self.frame.get(Self::BTH..).unwrap_or(&[]),
            comment: &self.comment,
            facts: self.facts,
        }
    }
}

fn packet(bth: Bth, reth: Reth) -> Packet {
    let [source, destination] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 4791)));
    Packet {
        time: Timestamp::from_nanos(1_000_000_000),
        source,
        destination,
        wire_len: 138,
        reth: Some(reth),
        payload_len: 64,
        icrc: IcrcStatus::Right,
        ..Packet::new(bth)
    }
}
