//! A packet that came from the NIC under test.

use std::fmt;
use std::time::Duration;

use uroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, NakCode, Opcode, Packet, Psn, Reth,
    SyndromeKind, pretty,
};

use crate::player::Seen;
use crate::verdict::Stop;

/// A packet that came, well formed.
#[derive(Debug, Clone)]
pub struct Came {
    seen: Seen,
    bth: Bth,
    /// Its PSN, counted from the first of its direction.
    pub psn: i32,
}

impl Came {
    /// Reads it; `requests` and `answers` are the first PSNs of what it asks and of what it answers.
    pub(crate) fn read(seen: Seen, requests: Psn, answers: Psn) -> Result<Came, Stop> {
        let bth = match Packet::parse(&seen.packet.bytes) {
            Err(error) => return Err(Stop::Fail(format!("it sent a malformed packet: {error}"))),
            Ok(_) if !seen.packet.icrc_ok => {
                return Err(Stop::Fail("it sent a packet with a wrong ICRC".to_owned()));
            }
            Ok(packet) => packet.bth,
        };
        let is_answer = bth.opcode.info().is_some_and(|info| info.is_response());
        let first = if is_answer { answers } else { requests };
        Ok(Came { seen, bth, psn: bth.psn.since(first) })
    }

    fn header<H>(&self, read: impl FnOnce(&Packet<'_>) -> Option<H>) -> Option<H> {
        read(&Packet::parse(&self.seen.packet.bytes).ok()?)
    }

    /// Its BTH.
    pub fn bth(&self) -> &Bth {
        &self.bth
    }

    /// Its opcode.
    pub fn opcode(&self) -> Opcode {
        self.bth.opcode
    }

    /// Its AETH.
    pub fn aeth(&self) -> Option<Aeth> {
        self.header(|packet| packet.aeth())
    }

    /// Its DETH.
    pub fn deth(&self) -> Option<Deth> {
        self.header(|packet| packet.deth())
    }

    /// Its RETH.
    pub fn reth(&self) -> Option<Reth> {
        self.header(|packet| packet.reth())
    }

    /// Its AtomicETH.
    pub fn atomic(&self) -> Option<AtomicEth> {
        self.header(|packet| packet.atomic_eth())
    }

    /// Its AtomicAckETH.
    pub fn original(&self) -> Option<AtomicAckEth> {
        self.header(|packet| packet.atomic_ack_eth())
    }

    /// The XRC shared receive queue that it names.
    pub fn srqn(&self) -> Option<u32> {
        self.header(|packet| packet.xrceth()).map(|xrc| xrc.srqn)
    }

    /// Its FETH.
    pub fn feth(&self) -> Option<Feth> {
        self.header(|packet| packet.feth())
    }

    /// Its immediate data.
    pub fn imm(&self) -> Option<u32> {
        self.header(|packet| packet.immdt())
    }

    /// The key that it invalidates.
    pub fn invalidates(&self) -> Option<u32> {
        self.header(|packet| packet.ieth())
    }

    /// Its payload.
    pub fn payload(&self) -> Vec<u8> {
        self.header(|packet| Some(packet.payload().to_vec())).unwrap_or_default()
    }

    /// When it came.
    pub fn at(&self) -> Duration {
        self.seen.at
    }

    /// BTH to ICRC.
    pub fn bytes(&self) -> &[u8] {
        &self.seen.packet.bytes
    }

    /// From which UDP port.
    pub fn source_port(&self) -> u16 {
        self.seen.packet.source_port
    }

    /// It is an ACK.
    pub fn is_ack(&self) -> bool {
        matches!(self.kind(), Some(SyndromeKind::Ack { .. }))
    }

    /// It is this NAK.
    pub fn is_nak(&self, code: NakCode) -> bool {
        self.kind() == Some(SyndromeKind::Nak(code))
    }

    /// What its AETH says, if it is an ACK or a NAK.
    pub fn kind(&self) -> Option<SyndromeKind> {
        let is_ack = matches!(self.opcode(), Opcode::RC_ACKNOWLEDGE | Opcode::XRC_ACKNOWLEDGE);
        self.aeth().filter(|_| is_ack).map(|aeth| aeth.syndrome.kind())
    }
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Packet::parse(&self.seen.packet.bytes) {
            Ok(packet) => write!(f, "{} (PSN {:+})", pretty::line(&packet, None), self.psn),
            Err(error) => error.fmt(f),
        }
    }
}
