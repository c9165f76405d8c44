//! Packets as cases write them.

use crc32fast::Hasher;
use uroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Header, HeaderSet, Ieth, ImmDt, Opcode,
    Operation, Position, Psn, Qpn, Reth, Service, Syndrome, XrcEth,
};

/// The UDP source port of packets that do not ask for another one.
pub(crate) const SOURCE_PORT: u16 = 0xc0de;

/// What happens to the ICRC of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Icrc {
    /// It is right.
    Right,
    /// One bit is wrong.
    BitFlipped,
    /// Its bytes stand in the other order.
    Swapped,
    /// It is 0.
    Zero,
    /// It covers the transport headers a second time, behind the payload. Kernel rxe computes that of a FLUSH so.
    HeadersTwice,
}

impl Icrc {
    /// What it makes of the right one of a packet without payload, whose transport headers are given.
    pub fn damage(self) -> fn(u32, &[u8]) -> u32 {
        match self {
            Icrc::Right => |icrc, _| icrc,
            Icrc::BitFlipped => |icrc, _| icrc ^ 0x0010_0000,
            Icrc::Swapped => |icrc, _| icrc.swap_bytes(),
            Icrc::Zero => |icrc, _| if icrc == 0 { 1 } else { 0 },
            Icrc::HeadersTwice => |icrc, headers| {
                let mut crc = Hasher::new_with_initial(icrc);
                crc.update(headers);
                crc.finalize()
            },
        }
    }
}

/// A packet that a case sends. Fresh from [`Qp::packet`](crate::Qp::packet) it is right in every respect; each method
/// changes one thing.
#[derive(Debug, Clone)]
pub struct Packet {
    pub(crate) bth: Bth,
    /// The PSN that counts as 0.
    pub(crate) first: Psn,
    pub(crate) deth: Option<Deth>,
    pub(crate) xrc: Option<XrcEth>,
    pub(crate) feth: Option<Feth>,
    pub(crate) reth: Option<Reth>,
    pub(crate) aeth: Option<Aeth>,
    pub(crate) atomic: Option<AtomicEth>,
    pub(crate) original: Option<AtomicAckEth>,
    pub(crate) imm: Option<u32>,
    pub(crate) invalidate: Option<u32>,
    pub(crate) payload: Vec<u8>,
    pub(crate) pad: Option<u8>,
    pub(crate) pad_byte: u8,
    pub(crate) cut: usize,
    pub(crate) icrc: Icrc,
    pub(crate) traffic_class: u8,
    pub(crate) source_port: Option<u16>,
}

impl Packet {
    /// A packet with the headers that its opcode has.
    pub(crate) fn new(opcode: Opcode, qpn: u32, first: Psn, payload: Vec<u8>) -> Packet {
        let mut bth = Bth::new(opcode, Qpn::new(qpn), first);
        let headers = opcode.info().map_or(HeaderSet::empty(), |info| info.headers);
        bth.ack_req = asks_for_ack(opcode);
        let has = |header| headers.contains(header);
        Packet {
            bth,
            first,
            deth: has(HeaderSet::DETH).then_some(Deth { qkey: 0, src_qpn: Qpn::new(0) }),
            xrc: has(HeaderSet::XRCETH).then_some(XrcEth { srqn: 0 }),
            feth: has(HeaderSet::FETH).then_some(Feth { placement: 1, selectivity: 0 }),
            reth: has(HeaderSet::RETH).then_some(Reth { va: 0, rkey: 0, length: 0 }),
            aeth: has(HeaderSet::AETH)
                .then_some(Aeth { syndrome: Syndrome::ack(Syndrome::ACK_UNLIMITED), msn: 0 }),
            atomic: has(HeaderSet::ATOMIC_ETH).then_some(AtomicEth {
                va: 0,
                rkey: 0,
                swap_add: 0,
                compare: 0,
            }),
            original: has(HeaderSet::ATOMIC_ACK_ETH).then_some(AtomicAckEth { original: 0 }),
            imm: has(HeaderSet::IMMDT).then_some(0x0102_0304),
            invalidate: has(HeaderSet::IETH).then_some(0),
            payload,
            pad: None,
            pad_byte: 0,
            cut: 0,
            icrc: Icrc::Right,
            traffic_class: 0,
            source_port: None,
        }
    }

    /// The PSN, counted from the first of its direction.
    #[must_use]
    pub fn psn(mut self, index: i32) -> Self {
        self.bth.psn = self.first.add(index as u32);
        self
    }

    /// Changes the BTH.
    #[must_use]
    pub fn bth(mut self, change: impl FnOnce(&mut Bth)) -> Self {
        change(&mut self.bth);
        self
    }

    /// Asks for no ACK.
    #[must_use]
    pub fn quiet(self) -> Self {
        self.bth(|bth| bth.ack_req = false)
    }

    /// Asks for an ACK.
    #[must_use]
    pub fn ack_req(self) -> Self {
        self.bth(|bth| bth.ack_req = true)
    }

    /// Other payload.
    #[must_use]
    pub fn data(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Another remote address.
    #[must_use]
    pub fn va(mut self, va: u64) -> Self {
        self.reth = self.reth.map(|reth| Reth { va, ..reth });
        self.atomic = self.atomic.map(|atomic| AtomicEth { va, ..atomic });
        self
    }

    /// Another remote key.
    #[must_use]
    pub fn rkey(mut self, rkey: u32) -> Self {
        self.reth = self.reth.map(|reth| Reth { rkey, ..reth });
        self.atomic = self.atomic.map(|atomic| AtomicEth { rkey, ..atomic });
        self
    }

    /// Another DMA length.
    #[must_use]
    pub fn dma_length(mut self, length: usize) -> Self {
        self.reth = self.reth.map(|reth| Reth { length: length as u32, ..reth });
        self
    }

    /// Other immediate data.
    #[must_use]
    pub fn imm(mut self, imm: u32) -> Self {
        self.imm = Some(imm);
        self
    }

    /// Another message sequence number.
    #[must_use]
    pub fn msn(mut self, msn: u32) -> Self {
        self.aeth = self.aeth.map(|aeth| Aeth { msn, ..aeth });
        self
    }

    /// Another syndrome.
    #[must_use]
    pub fn syndrome(mut self, syndrome: Syndrome) -> Self {
        self.aeth = self.aeth.map(|aeth| Aeth { syndrome, ..aeth });
        self
    }

    /// A pad count that need not fit the payload; the pad bytes are still those that the payload needs.
    #[must_use]
    pub fn pad(mut self, pad: u8) -> Self {
        self.pad = Some(pad);
        self
    }

    /// Pad bytes of another value than 0.
    #[must_use]
    pub fn pad_byte(mut self, byte: u8) -> Self {
        self.pad_byte = byte;
        self
    }

    /// Leaves out bytes before the ICRC.
    #[must_use]
    pub fn cut(mut self, bytes: usize) -> Self {
        self.cut = bytes;
        self
    }

    /// What happens to the ICRC.
    #[must_use]
    pub fn icrc(mut self, icrc: Icrc) -> Self {
        self.icrc = icrc;
        self
    }

    /// IPv4 type of service or IPv6 traffic class.
    #[must_use]
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.traffic_class = class;
        self
    }

    /// Another UDP source port.
    #[must_use]
    pub fn source_port(mut self, port: u16) -> Self {
        self.source_port = Some(port);
        self
    }

    /// Another XRC shared receive queue.
    #[must_use]
    pub fn srqn(mut self, srqn: u32) -> Self {
        self.xrc = self.xrc.map(|_| XrcEth { srqn });
        self
    }

    /// Another placement and selectivity of a FLUSH.
    #[must_use]
    pub fn feth(mut self, placement: u8, selectivity: u8) -> Self {
        self.feth = self.feth.map(|_| Feth { placement, selectivity });
        self
    }

    /// Another queue key.
    #[must_use]
    pub fn qkey(mut self, qkey: u32) -> Self {
        self.deth = self.deth.map(|deth| Deth { qkey, ..deth });
        self
    }

    /// BTH to pad.
    pub(crate) fn covered(&self) -> Vec<u8> {
        let needed = self.payload.len().wrapping_neg() % 4;
        let bth = Bth { pad: self.pad.unwrap_or(needed as u8), ..self.bth };
        let mut bytes = Vec::new();
        put(&mut bytes, &bth);
        put_some(&mut bytes, self.deth);
        put_some(&mut bytes, self.xrc);
        put_some(&mut bytes, self.feth);
        put_some(&mut bytes, self.reth);
        put_some(&mut bytes, self.aeth);
        put_some(&mut bytes, self.atomic);
        put_some(&mut bytes, self.original);
        put_some(&mut bytes, self.imm.map(ImmDt));
        put_some(&mut bytes, self.invalidate.map(Ieth));
        bytes.extend(&self.payload);
        bytes.resize(bytes.len() + needed, self.pad_byte);
        bytes.truncate(bytes.len().saturating_sub(self.cut));
        bytes
    }
}

fn put<H: Header>(bytes: &mut Vec<u8>, header: &H) {
    let at = bytes.len();
    bytes.resize(at + H::LEN, 0);
    // There is exactly the room that it takes.
    let _ = header.write(&mut bytes[at..]);
}

fn put_some<H: Header>(bytes: &mut Vec<u8>, header: Option<H>) {
    if let Some(header) = header {
        put(bytes, &header);
    }
}

/// Requests ask where a message ends, as NICs do.
fn asks_for_ack(opcode: Opcode) -> bool {
    opcode.info().is_some_and(|info| {
        !info.is_response()
            && info.operation != Operation::Cnp
            && info.service != Service::Ud
            && matches!(info.position, Position::Only | Position::Last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_packet_of_every_opcode_is_well_formed() {
        for opcode in (0..=255).map(Opcode) {
            if opcode.info().is_none() {
                continue;
            }
            let covered = Packet::new(opcode, 17, Psn::new(5), vec![7; 5]).covered();
            let whole = [covered.as_slice(), &[0; 4]].concat();
            let parsed = uroce_wire::Packet::parse(&whole).expect("well formed");
            assert_eq!((parsed.bth.opcode, parsed.payload()), (opcode, &[7; 5][..]));
            assert_eq!(parsed.bth.pad, 3);
        }
    }

    #[test]
    fn a_psn_counts_from_the_first_and_wraps() {
        let packet = Packet::new(Opcode::RC_SEND_ONLY, 17, Psn::new(0xff_ffff), vec![]);
        assert_eq!(packet.clone().psn(1).bth.psn, Psn::new(0));
        assert_eq!(packet.psn(-1).bth.psn, Psn::new(0xff_fffe));
    }

    #[test]
    fn every_damage_changes_every_icrc() {
        for icrc in [0, 1, 0x1234_5678, 0xdead_beef] {
            for damage in [Icrc::BitFlipped, Icrc::Zero, Icrc::HeadersTwice] {
                assert_ne!(damage.damage()(icrc, &[1; 32]), icrc);
            }
        }
    }
}
