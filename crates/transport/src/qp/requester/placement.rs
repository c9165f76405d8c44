//! Where the payload of a response goes: into the buffers of the request that it answers.

use uroce_memory::MemTable;
use uroce_wire::{Operation, Packet, Position};

use super::emit::{Failure, local_buffer, with_sges};
use super::scoreboard::Scoreboard;
use super::send_queue::{SendQueue, SendWqe};
use crate::qp::config::QpConfig;

/// Why a response was not placed.
pub(super) enum Misplaced {
    /// Nothing of its kind was asked for.
    Unexpected,
    /// It is not what was asked for.
    Bad(&'static str),
    /// The buffer cannot be written.
    Local(Failure),
}

/// A request that waits for responses.
pub(super) struct Responded<'a> {
    pub(super) config: &'a QpConfig,
    pub(super) queue: &'a SendQueue,
    pub(super) wqe: &'a SendWqe,
    /// Responses that are asked for again.
    pub(super) missing: &'a Scoreboard,
}

impl Responded<'_> {
    /// Brings what a response carries to its place. All checks come first.
    // Once for each packet of a READ: a call of its own costs as much as its checks.
    #[inline(always)]
    pub(super) fn place(&self, packet: &Packet<'_>, mem: &MemTable) -> Result<(), Misplaced> {
        let wqe = self.wqe;
        let atomic = packet.info.operation == Operation::AtomicAcknowledge;
        if !wqe.needs_response() || wqe.op.is_atomic() != atomic {
            return Err(Misplaced::Unexpected);
        }
        if atomic {
            let answer = packet.atomic_ack_eth().ok_or(Misplaced::Unexpected)?;
            // R34: big-endian on the wire, native in memory.
            return self.scatter(0, &answer.original.to_ne_bytes(), mem).map_err(Misplaced::Local);
        }
        let index = packet.bth.psn.since(wqe.first_psn).max(0) as u64;
        let offset = index * self.config.attr.path_mtu.bytes() as u64;
        let data = packet.payload();
        self.check_read(packet, offset, data.len()).map_err(Misplaced::Bad)?;
        self.scatter(offset, data, mem).map_err(Misplaced::Local)
    }

    /// R48, R69: exactly the bytes asked for, in the right kind of packet. It brings `length` bytes of the READ, from
    /// `offset` on.
    #[inline]
    fn check_read(
        &self,
        packet: &Packet<'_>,
        offset: u64,
        length: usize,
    ) -> Result<(), &'static str> {
        let (psn, wqe) = (packet.bth.psn, self.wqe);
        if wqe.op.is_placement() {
            let empty_only = packet.info.position == Position::Only && length == 0;
            return if empty_only { Ok(()) } else { Err("an empty READ RESPONSE ONLY was due") };
        }
        let mtu = self.config.attr.path_mtu;
        let due = wqe.length.saturating_sub(offset).min(mtu.bytes() as u64);
        if length as u64 != due {
            return Err("it does not have the length that was asked for");
        }
        let ends = wqe.last_of_request(psn) == psn;
        if packet.info.ends() == ends {
            return Ok(());
        }
        // What is asked for again may end anywhere.
        if packet.info.ends() && self.missing.may_be_asked_again(psn) {
            return Ok(());
        }
        Err("FIRST, MIDDLE and LAST are out of order")
    }

    /// Writes response bytes to payload bytes from `offset` on.
    fn scatter(&self, offset: u64, data: &[u8], mem: &MemTable) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        with_sges(self.queue.payload(self.wqe), |sges| {
            mem.scatter(self.config.init.pd, sges, offset, data).map_err(|e| local_buffer(sges, e))
        })
    }
}
