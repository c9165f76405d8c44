//! Messages of several packets, and what the tester answers as a responder.

use uroce_wire::{AtomicAckEth, NakCode, Opcode, Syndrome};

use crate::position::{position, positioned};
use crate::{Packet, Qp, pattern};

impl Qp<'_, '_> {
    /// All packets of a message of `length` bytes: a SEND, or a WRITE to the start of the region. `only` is the opcode
    /// of its form with one packet. The first has PSN `psn`.
    pub fn message(&self, only: Opcode, length: usize, psn: i32) -> Vec<Packet> {
        let whole = pattern(1, length);
        let pieces = self.pieces(&whole);
        let last = pieces.len() - 1;
        let packet = |(index, piece): (usize, &&[u8])| {
            let opcode = positioned(only, position(index, last));
            self.packet(opcode, 0).data(piece).dma_length(length).psn(psn + index as i32)
        };
        pieces.iter().enumerate().map(packet).collect()
    }

    /// Payloads of packets.
    fn pieces<'d>(&self, bytes: &'d [u8]) -> Vec<&'d [u8]> {
        if bytes.is_empty() { vec![&[]] } else { bytes.chunks(self.mtu()).collect() }
    }

    /// An answer to its request `psn`.
    fn answer(&self, opcode: Opcode, psn: i32, payload: &[u8], msn: u32) -> Packet {
        let opcode = opcode.of_service(self.service());
        Packet::new(opcode, self.qpn, self.peer_first, payload.to_vec()).psn(psn).msn(msn)
    }

    /// ACK of its requests up to `psn`.
    pub fn acks(&self, psn: i32, msn: u32) -> Packet {
        self.answer(Opcode::RC_ACKNOWLEDGE, psn, &[], msn)
    }

    /// NAK of its request `psn`.
    pub fn naks(&self, psn: i32, code: NakCode, msn: u32) -> Packet {
        self.acks(psn, msn).syndrome(Syndrome::nak(code))
    }

    /// RNR NAK of its request `psn`.
    pub fn rnrs(&self, psn: i32, timer: u8, msn: u32) -> Packet {
        self.acks(psn, msn).syndrome(Syndrome::rnr(timer))
    }

    /// The original value for its atomic `psn`.
    pub fn originals(&self, psn: i32, original: u64, msn: u32) -> Packet {
        let mut packet = self.answer(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, &[], msn);
        packet.original = Some(AtomicAckEth { original });
        packet
    }

    /// One packet of the response to its READ.
    pub fn response(&self, opcode: Opcode, psn: i32, payload: &[u8], msn: u32) -> Packet {
        self.answer(opcode, psn, payload, msn)
    }

    /// The whole response of `bytes` to its READ that starts at `psn`.
    pub fn responses(&self, psn: i32, bytes: &[u8], msn: u32) -> Vec<Packet> {
        let pieces = self.pieces(bytes);
        let last = pieces.len() - 1;
        let packet = |(index, piece): (usize, &&[u8])| {
            let opcode = positioned(Opcode::RC_READ_RESPONSE_ONLY, position(index, last));
            self.response(opcode, psn + index as i32, piece, msn)
        };
        pieces.iter().enumerate().map(packet).collect()
    }
}
