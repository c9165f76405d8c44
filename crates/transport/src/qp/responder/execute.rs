//! Executing a request that passed all checks.

use std::net::IpAddr;

use uroce_memory::mutation::mutated;
use uroce_memory::{Access, AtomicError, MemTable, Requirer};
use uroce_wire::{Operation, Packet};

use super::checks::{
    Refusal, check_enabled, check_length, check_rkey, check_sequence, needs_receive,
};
use super::message::{Message, psns_of_request, remote_of};
use super::replay::{Saved, SavedKind};
use super::{Responder, pass_to};
use crate::cause::Cause;
use crate::completion_counter::CountedOps;
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::wc::{WcFlags, WcOpcode};
use crate::wc_status::WcStatus;

impl Responder {
    /// Runs all steps for one request packet with the expected PSN. On success memory has
    /// changed, the expected PSN has moved on, and a completion was reported if one is due.
    pub(super) fn run_request(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        check_sequence(self.message.as_ref(), packet)?;
        check_enabled(config, packet)?;
        // R35, R37: a receive, or a place to remember a READ or atomic.
        if needs_receive(packet) && !self.receives.take(cx) {
            return Err(Refusal::NotReady);
        }
        if is_remembered(packet) && self.replay.is_full() {
            let what = "more READ and atomic requests are open than max_dest_rd_atomic allows";
            return Err(Refusal::invalid(packet, what));
        }
        check_length(config, self.message.as_ref(), self.receives.current().length, packet)?;
        check_rkey(packet, self.receives.requirer(config), cx.mem)?;
        self.execute(config, packet, cx)?;
        self.advance(config, packet);
        self.complete(config, packet, cx);
        Ok(())
    }

    fn execute(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let by = self.receives.requirer(config);
        let answer = match packet.info.operation {
            Operation::Send => return self.execute_send(config, packet, cx),
            Operation::Write => return self.execute_write(config, packet, cx),
            Operation::CompareSwap | Operation::FetchAdd => execute_atomic(packet, by, cx.mem)?,
            Operation::AtomicWrite => execute_atomic_write(packet, by, cx.mem)?,
            Operation::Flush => {
                // Memory of this process is coherent: ordering is all that a flush needs.
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                SavedKind::Placement
            }
            Operation::ReadRequest => execute_read(packet, by)?,
            _ => return Err(Refusal::invalid(packet, "not a request")),
        };
        self.remember(config, packet, answer);
        Ok(())
    }

    fn execute_send(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let at = self.message.map_or(0, |message| message.done);
        let pd = self.receives.buffer_pd(config, cx);
        let sges = &self.receives.current().sges;
        if let Err(error) = cx.mem.scatter(pd, sges, at, packet.payload()) {
            let lkey = sges.get(error.index).map_or(0, |sge| sge.lkey.0);
            let index = error.index as u32;
            let cause = Cause::LocalBuffer { index, lkey, error: error.error };
            return Err(Refusal::local(WcStatus::LocProtErr, cause));
        }
        if let Some(rkey) = packet.ieth() {
            let by = self.receives.requirer(config);
            cx.mem.invalidate(uroce_memory::Rkey(rkey), by.pd, by.qpn, true).map_err(|error| {
                Refusal::Nak {
                    code: uroce_wire::NakCode::RemoteAccess,
                    status: WcStatus::MwBindErr,
                    cause: Cause::Invalidate(error),
                }
            })?;
        }
        self.message.get_or_insert(Message::send()).done += packet.payload().len() as u64;
        Ok(())
    }

    fn execute_write(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        if self.message.is_none() {
            self.message = remote_of(packet).map(|remote| Message::write(&remote));
        }
        let by = self.receives.requirer(config);
        let Some(message) = &mut self.message else {
            return Err(Refusal::invalid(packet, "a WRITE without RETH"));
        };
        let data = packet.payload();
        if !data.is_empty() {
            let va = message.va.wrapping_add(message.done);
            cx.mem
                .write(message.rkey, by, va, data)
                .map_err(|error| Refusal::access(packet, error))?;
        }
        message.done += data.len() as u64;
        Ok(())
    }

    /// R59: keeps what a repetition of this request will need, and queues the answer.
    fn remember(&mut self, config: &QpConfig, packet: &Packet<'_>, kind: SavedKind) {
        let first = packet.bth.psn;
        let last = first.add(psns_of_request(packet, config.attr.path_mtu.bytes()) - 1);
        let msn = (self.msn + 1) & 0xff_ffff;
        let saved = Saved { first, last, msn, kind, answered: false };
        // The peer asks for something new: it has the responses that it asked for before.
        self.repeats.note_progress();
        if let Some(oldest) = self.replay.save(saved) {
            // Its requester would not have sent another without having its answer, so an answer that still waits is a
            // superfluous repetition.
            self.responses.drop_answer(oldest.first);
        }
        self.responses.forget_old(last);
        self.responses.queue_saved(&saved);
    }

    /// Moves on to the next PSN; R50: a finished message counts once.
    fn advance(&mut self, config: &QpConfig, packet: &Packet<'_>) {
        let psns = psns_of_request(packet, config.attr.path_mtu.bytes());
        pass_to(self, packet.bth.psn.add(psns));
        let is_read = packet.info.operation == Operation::ReadRequest;
        if packet.info.ends() && !(is_read && mutated("read-not-counted")) {
            self.msn = (self.msn + 1) & 0xff_ffff;
        }
    }

    /// R40: reports a finished SEND or WRITE with immediate.
    fn complete(&mut self, config: &QpConfig, packet: &Packet<'_>, cx: &mut Context<'_>) {
        if !packet.info.ends() {
            return;
        }
        let message = self.message.take();
        if let Some(op) = remote_op(packet) {
            let asked = packet.reth().map_or(0, |reth| u64::from(reth.length));
            let bytes = message.map_or(asked, |message| message.done);
            match op {
                CountedOps::REMOTE_WRITE => config.completion_counters.note_write(packet, bytes),
                _ => config.completion_counters.note(op, true, bytes),
            }
        }
        match packet.info.operation {
            Operation::Write if !packet.info.has_imm() => cx.counters.rdma_recvs += 1,
            Operation::Write | Operation::Send => {
                let length = message.map_or(0, |message| message.done);
                let peer = config.peer();
                self.report_receive(config, packet, length as u32, peer, cx);
            }
            _ => cx.counters.rdma_recvs += 1,
        }
    }

    /// Completes the receive work request in use with success; `src_ip` sent the message.
    pub(super) fn report_receive(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        byte_len: u32,
        src_ip: Option<IpAddr>,
        cx: &mut Context<'_>,
    ) {
        let wr_id = self.receives.release().unwrap_or_default();
        let mut wc = config.received(wr_id, byte_len, src_ip);
        if packet.info.operation == Operation::Write {
            wc.opcode = WcOpcode::RecvRdmaWithImm;
        }
        (wc.imm, wc.invalidated) = (packet.immdt(), packet.ieth());
        wc.flags.set(WcFlags::WITH_IMM, wc.imm.is_some());
        wc.flags.set(WcFlags::WITH_INV, wc.invalidated.is_some());
        if let Some(deth) = packet.deth() {
            wc.src_qpn = deth.src_qpn.get();
            wc.flags |= WcFlags::GRH;
        }
        self.complete_recv(config, wc, packet.bth.solicited, cx);
    }

    /// Completes the receive work request in use with an error, and returns its cookie; `None` if
    /// none is in use.
    pub(super) fn report_failed_receive(
        &mut self,
        config: &QpConfig,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) -> Option<u64> {
        self.message = None;
        let wr_id = self.receives.release()?;
        self.complete_failed_recv(config, wr_id, status, cause, cx);
        Some(wr_id)
    }
}

/// As what a request of the peer is counted.
pub(super) fn remote_op(packet: &Packet<'_>) -> Option<CountedOps> {
    match packet.info.operation {
        Operation::Write => Some(CountedOps::REMOTE_WRITE),
        Operation::ReadRequest => Some(CountedOps::REMOTE_READ),
        _ => None,
    }
}

fn misplaced(packet: &Packet<'_>, error: AtomicError) -> Refusal {
    Refusal::invalid(
        packet,
        match error {
            AtomicError::Misaligned { .. } => {
                "the memory behind the address is not aligned to 8 bytes"
            }
            AtomicError::OutOfRange(_) => "the memory ends before the 8 bytes of an atomic do",
        },
    )
}

fn execute_atomic(packet: &Packet<'_>, by: Requirer, mem: &MemTable) -> Result<SavedKind, Refusal> {
    let Some(eth) = packet.atomic_eth() else {
        return Err(Refusal::invalid(packet, "an atomic without AtomicETH"));
    };
    let slice = mem
        .check(eth.rkey, by, Access::REMOTE_ATOMIC, eth.va, 8)
        .map_err(|error| Refusal::access(packet, error))?;
    let outcome = match packet.info.operation {
        Operation::CompareSwap => slice.compare_swap(0, eth.compare, eth.swap_add),
        _ => slice.fetch_add(0, eth.swap_add),
    };
    let original = outcome.map_err(|error| misplaced(packet, error))?;
    Ok(SavedKind::Atomic { opcode: packet.bth.opcode, original })
}

fn execute_atomic_write(
    packet: &Packet<'_>,
    by: Requirer,
    mem: &MemTable,
) -> Result<SavedKind, Refusal> {
    let (Some(reth), Ok(bytes)) = (packet.reth(), <[u8; 8]>::try_from(packet.payload())) else {
        return Err(Refusal::invalid(packet, "an ATOMIC WRITE has exactly 8 bytes"));
    };
    let slice = mem
        .check(reth.rkey, by, Access::REMOTE_WRITE, reth.va, 8)
        .map_err(|error| Refusal::access(packet, error))?;
    // The bytes lie in memory as they lie on the wire.
    slice.store_u64(0, u64::from_ne_bytes(bytes)).map_err(|error| misplaced(packet, error))?;
    Ok(SavedKind::Placement)
}

fn execute_read(packet: &Packet<'_>, by: Requirer) -> Result<SavedKind, Refusal> {
    let Some(reth) = packet.reth() else {
        return Err(Refusal::invalid(packet, "a READ without RETH"));
    };
    let length = u64::from(reth.length);
    let pd = by.pd;
    Ok(SavedKind::Read { va: reth.va, rkey: reth.rkey, length, pd })
}

/// A request that a repetition may ask to answer again: any but SEND and WRITE.
pub(super) fn is_remembered(packet: &Packet<'_>) -> bool {
    !matches!(packet.info.operation, Operation::Send | Operation::Write)
}
