//! Making packets: what goes out next, and its bytes.

use std::net::IpAddr;

use uroce_memory::{Access, MwBind, Sge};
use uroce_wire::{
    AtomicEth, Bth, Deth, Feth, HeaderWriter, Ieth, ImmDt, Operation, Position, Psn, Reth, Service,
    opcode_for,
};

use crate::attr::{AddressVector, QpState, QpType};
use crate::cause::Cause;
use crate::context::{Context, Path, Transmit};
use crate::limits;
use crate::qp::QueuePair;
use crate::qp::requester::ReadSlot;
use crate::qp::send_queue::{Payload, SendWqe};
use crate::time::Instant;
use crate::wc::WcStatus;
use crate::wr::{SendFlags, SendOp};

/// Bytes of the ICRC behind every packet.
pub(crate) const ICRC_LEN: usize = 4;

/// Why the oldest request cannot be sent.
type Failure = (WcStatus, Cause);

impl QueuePair {
    /// Writes the next packet into `out`, which offers at least [`limits::MAX_PACKET`] bytes.
    /// `None`: nothing to send now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if out.len() < limits::MAX_PACKET {
            return None;
        }
        let mut sent = self.poll_response(now, out, cx);
        if sent.is_none() && self.awake {
            sent = self.poll_request(now, out, cx);
            self.awake = sent.is_some();
        }
        self.settle(now, cx);
        if let Some(transmit) = &sent {
            cx.counters.sent_pkts += 1;
            cx.counters.sent_bytes += transmit.len as u64;
        }
        sent
    }

    fn poll_request(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        // Each round passes one local operation, so the queue's length bounds the loop.
        for _ in 0..=self.send_queue.len() {
            if !matches!(self.state, QpState::Rts | QpState::Sqd)
                || self.requester.rnr_until.is_some()
            {
                return None;
            }
            let index = self.requester.cursor;
            let wqe = *self.send_queue.get(index)?;
            if !wqe.numbered && self.state == QpState::Sqd {
                return None;
            }
            if wqe.op.is_local() {
                if wqe.done {
                    // Met again after going back: it was done, and is not done twice.
                    self.requester.cursor = index + 1;
                } else {
                    self.run_local(now, index, &wqe, cx)?;
                }
                continue;
            }
            if let Err(failure) = self.check_possible(&wqe) {
                return self.fail_if_oldest(now, index, failure, cx);
            }
            if !self.may_send(&wqe) {
                return None;
            }
            let wqe = self.number(index)?;
            return match self.emit_request(&wqe, out, cx) {
                Ok(transmit) => {
                    self.note_sent(now, index, &wqe, cx);
                    Some(transmit)
                }
                Err(failure) => self.fail_if_oldest(now, index, failure, cx),
            };
        }
        None
    }

    /// R83: a local error shows when all earlier requests have completed.
    fn fail_if_oldest(
        &mut self,
        now: Instant,
        index: usize,
        failure: Failure,
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        if index == 0 {
            cx.counters.send_err += 1;
            self.fail_oldest_send(now, failure.0, failure.1, cx);
        }
        None
    }

    /// Is this an operation that the QP can do at all (B35)?
    fn check_possible(&self, wqe: &SendWqe) -> Result<(), Failure> {
        let qp_type = self.init.qp_type;
        let possible = match wqe.op {
            SendOp::Send | SendOp::SendWithImm(_) => true,
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => qp_type != QpType::Ud,
            _ => qp_type == QpType::Rc,
        };
        if !possible {
            let cause = Cause::NotOnThisQp { qp_type: qp_type.name() };
            return Err((WcStatus::LocQpOpErr, cause));
        }
        let exactly_8 = wqe.op.is_atomic() || matches!(wqe.op, SendOp::AtomicWrite { .. });
        if exactly_8 && wqe.length != 8 {
            return Err((WcStatus::LocLenErr, Cause::AtomicLength { length: wqe.length }));
        }
        if wqe.needs_response() && self.attr.max_rd_atomic == 0 {
            return Err((WcStatus::LocQpOpErr, Cause::NoReadDepth));
        }
        let max = self.init.port_mtu.bytes() as u64;
        if qp_type == QpType::Ud && wqe.length > max {
            // R84: rxe reports success and sends nothing; the user should know.
            return Err((WcStatus::LocLenErr, Cause::TooLong { length: wqe.length, max }));
        }
        Ok(())
    }

    fn mtu(&self) -> u64 {
        match self.init.qp_type {
            QpType::Ud => self.init.port_mtu.bytes() as u64,
            QpType::Rc | QpType::Uc => self.attr.path_mtu.bytes() as u64,
        }
    }

    /// PSNs of one READ REQUEST at most.
    fn read_chunk(&self) -> u32 {
        (limits::READ_CHUNK_BYTES / self.mtu()).max(1) as u32
    }

    /// The last PSN of the READ REQUEST that `psn` of `wqe` belongs to. Chunks lie at fixed places
    /// of the work request, so that a READ sent again stays inside the one it repeats (R58).
    pub(crate) fn read_chunk_last(&self, wqe: &SendWqe, psn: Psn) -> Psn {
        let chunk = self.read_chunk();
        let index = psn.since(wqe.first_psn).max(0) as u32;
        let last = (index / chunk + 1) * chunk - 1;
        wqe.first_psn.add(last.min(wqe.psn_count.saturating_sub(1)))
    }

    /// Fence, read depth and window (R79, R80, R17).
    fn may_send(&self, wqe: &SendWqe) -> bool {
        // A READ in several requests waits for others once, not for its own.
        let starts = !wqe.numbered || self.requester.psn == wqe.first_psn;
        let fenced = starts && wqe.flags.contains(SendFlags::FENCE);
        if fenced && !self.requester.reads.is_empty() {
            return false;
        }
        if self.init.qp_type != QpType::Rc {
            return true;
        }
        if wqe.needs_response()
            && self.requester.reads.len() >= usize::from(self.attr.max_rd_atomic)
        {
            return false;
        }
        let outstanding = self.requester.outstanding();
        let want = if wqe.op.is_read() { self.read_chunk().min(self.psns_of(wqe)) } else { 1 };
        outstanding == 0 || outstanding + want <= self.window()
    }

    fn window(&self) -> u32 {
        let by_bytes = (limits::MAX_WINDOW_BYTES / self.mtu()) as u32;
        self.requester.window.min(by_bytes)
    }

    /// R18, R19: how many PSNs a request takes.
    fn psns_of(&self, wqe: &SendWqe) -> u32 {
        if wqe.op.is_atomic() || wqe.op.is_placement() {
            return 1;
        }
        wqe.length.div_ceil(self.mtu()).max(1) as u32
    }

    /// Gives the request at `index` its PSNs if it has none yet.
    fn number(&mut self, index: usize) -> Option<SendWqe> {
        let count = self.psns_of(self.send_queue.get(index)?);
        let first = self.requester.psn;
        let wqe = self.send_queue.get_mut(index)?;
        if !wqe.numbered {
            debug_assert!(self.requester.psn == self.requester.next_new, "numbered in order");
            wqe.numbered = true;
            wqe.first_psn = first;
            wqe.psn_count = count;
        }
        Some(*wqe)
    }

    /// Writes the packet of `wqe` that carries the requester's current PSN.
    fn emit_request(
        &self,
        wqe: &SendWqe,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<Transmit, Failure> {
        let psn = self.requester.psn;
        let piece = Piece::of(wqe, psn, self.mtu());
        let header_len = self.write_headers(wqe, psn, &piece, out).ok_or((
            WcStatus::LocQpOpErr,
            Cause::NotOnThisQp { qp_type: self.init.qp_type.name() },
        ))?;
        let body = if carries_payload(&wqe.op) { piece.length } else { 0 };
        let end = header_len + body;
        self.gather(wqe, piece.offset, &mut out[header_len..end], cx)?;
        let pad = pad_of(body);
        out[end..end + pad].fill(0);
        Ok(Transmit { len: end + pad + ICRC_LEN, path: self.path_of(wqe) })
    }

    fn write_headers(
        &self,
        wqe: &SendWqe,
        psn: Psn,
        piece: &Piece,
        out: &mut [u8],
    ) -> Option<usize> {
        let service = self.service();
        let (operation, imm, inv) = classify(&wqe.op);
        let with_imm = imm.is_some() && piece.ends();
        let with_inv = inv.is_some() && piece.ends();
        let position = piece.position(operation);
        let opcode = opcode_for(service, operation, position, with_imm, with_inv)?;
        let dest = wqe.ud.filter(|_| service == Service::Ud).map_or(self.peer_qpn(), |ud| ud.qpn);
        let mut bth = Bth::new(opcode, dest, psn);
        let body = if carries_payload(&wqe.op) { piece.length } else { 0 };
        bth.pad = pad_of(body) as u8;
        bth.solicited =
            piece.ends() && wqe.flags.contains(SendFlags::SOLICITED) && takes_receive(&wqe.op);
        bth.ack_req = service == Service::Rc && self.wants_ack(piece);
        let mut writer = HeaderWriter::new(out);
        writer.put(&bth)?;
        if let Some(ud) = wqe.ud.filter(|_| service == Service::Ud) {
            // R7: a privileged Q_Key stands for the QP's own.
            let qkey = if ud.qkey >> 31 == 1 { self.attr.qkey } else { ud.qkey };
            writer.put(&Deth { qkey, src_qpn: self.init.qpn })?;
        }
        self.write_remote(wqe, psn, piece, &mut writer)?;
        if let Some(imm) = imm.filter(|_| with_imm) {
            writer.put(&ImmDt(imm))?;
        }
        if let Some(rkey) = inv.filter(|_| with_inv) {
            writer.put(&Ieth(rkey))?;
        }
        Some(writer.len())
    }

    /// RETH, AtomicETH, FETH: what the request does to the peer's memory.
    fn write_remote(
        &self,
        wqe: &SendWqe,
        psn: Psn,
        piece: &Piece,
        writer: &mut HeaderWriter<'_>,
    ) -> Option<()> {
        match wqe.op {
            SendOp::Write { va, rkey } | SendOp::WriteWithImm { va, rkey, .. }
                if piece.starts() =>
            {
                writer.put(&Reth { va, rkey: rkey.0, length: wqe.length as u32 })?;
            }
            SendOp::Read { va, rkey } => {
                let last = self.read_chunk_last(wqe, psn);
                let end = (last.since(wqe.first_psn) as u64 + 1) * self.mtu();
                let length = (end.min(wqe.length) - piece.offset) as u32;
                writer.put(&Reth { va: va.wrapping_add(piece.offset), rkey: rkey.0, length })?;
            }
            SendOp::CompareSwap { va, rkey, compare, swap } => {
                writer.put(&AtomicEth { va, rkey: rkey.0, swap_add: swap, compare })?;
            }
            SendOp::FetchAdd { va, rkey, add } => {
                writer.put(&AtomicEth { va, rkey: rkey.0, swap_add: add, compare: 0 })?;
            }
            SendOp::AtomicWrite { va, rkey } => {
                writer.put(&Reth { va, rkey: rkey.0, length: 8 })?;
            }
            SendOp::Flush { va, rkey, length, placement, selectivity } => {
                writer.put(&Feth { placement, selectivity })?;
                writer.put(&Reth { va, rkey: rkey.0, length })?;
            }
            _ => {}
        }
        Some(())
    }

    /// R82: the end of a message, a share of the window, or the last packet before it closes.
    fn wants_ack(&self, piece: &Piece) -> bool {
        let window = self.window();
        piece.ends()
            || self.requester.unrequested + 1 >= (window / limits::ACKS_PER_WINDOW).max(1)
            || self.requester.outstanding() + 1 >= window
    }

    /// Copies payload bytes `offset..offset + out.len()` of `wqe` into `out`.
    fn gather(
        &self,
        wqe: &SendWqe,
        offset: u64,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        if out.is_empty() {
            return Ok(());
        }
        match self.send_queue.payload(wqe) {
            Payload::Inline(head, tail) => {
                let bytes = head.iter().chain(tail).skip(offset as usize);
                out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                Ok(())
            }
            payload @ Payload::Sges(..) => with_sges(payload, |sges| {
                cx.mem.gather(self.init.pd, sges, offset, out).map_err(|e| local_buffer(sges, e))
            }),
        }
    }

    /// Writes response bytes to payload bytes from `offset` on of `wqe`.
    pub(crate) fn scatter_response(
        &self,
        wqe: &SendWqe,
        offset: u64,
        data: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        with_sges(self.send_queue.payload(wqe), |sges| {
            cx.mem.scatter(self.init.pd, sges, offset, data).map_err(|e| local_buffer(sges, e))
        })
    }

    fn path_of(&self, wqe: &SendWqe) -> Path {
        match wqe.ud {
            Some(ud) if self.init.qp_type == QpType::Ud => self.path_to(&ud.av),
            _ => self.path(),
        }
    }

    /// The path to the connected peer.
    pub(crate) fn path(&self) -> Path {
        let unspecified = IpAddr::from([0, 0, 0, 0]);
        self.path_to(&self.attr.av.unwrap_or(AddressVector::new(unspecified, unspecified)))
    }

    fn path_to(&self, av: &AddressVector) -> Path {
        Path {
            src: av.local,
            dst: av.remote,
            src_port: self.src_port,
            hop_limit: if av.hop_limit == 0 { 64 } else { av.hop_limit },
            traffic_class: av.traffic_class,
        }
    }

    /// Bookkeeping behind a request packet.
    fn note_sent(&mut self, now: Instant, index: usize, wqe: &SendWqe, cx: &mut Context<'_>) {
        let psn = self.requester.psn;
        let last = if wqe.op.is_read() { self.read_chunk_last(wqe, psn) } else { psn };
        let fresh = psn == self.requester.next_new;
        let asked = self.wants_ack(&Piece::of(wqe, psn, self.mtu()));
        if !fresh {
            cx.counters.retransmitted_pkts += 1;
        } else if psn == wqe.first_psn && !takes_receive_only(&wqe.op) {
            cx.counters.rdma_sends += 1;
        }
        let requester = &mut self.requester;
        if wqe.needs_response() {
            requester.reads.push_back(ReadSlot { first: psn, last });
        }
        requester.unrequested = if asked { 0 } else { requester.unrequested + 1 };
        requester.psn = last.add(1);
        if requester.psn.since(requester.next_new) > 0 {
            requester.next_new = requester.psn;
        }
        if last == wqe.last_psn() {
            requester.cursor = index + 1;
        }
        if self.init.qp_type == QpType::Rc {
            self.arm_ack_timer(now);
        } else if last == wqe.last_psn() {
            self.complete_unacknowledged(index, cx);
        }
    }

    /// UC and UD: a request is done when its last packet has left.
    fn complete_unacknowledged(&mut self, index: usize, cx: &mut Context<'_>) {
        self.requester.una = self.requester.psn;
        if let Some(wqe) = self.send_queue.get_mut(index) {
            wqe.done = true;
        }
        self.retire(cx);
    }

    /// Does an operation that needs no packet. `None`: not yet, or the QP has failed.
    fn run_local(
        &mut self,
        now: Instant,
        index: usize,
        wqe: &SendWqe,
        cx: &mut Context<'_>,
    ) -> Option<()> {
        let fenced = wqe.flags.contains(SendFlags::FENCE) && !self.requester.reads.is_empty();
        // A local invalidate waits until every earlier request completed (R80, section 8.2).
        let invalidates = matches!(wqe.op, SendOp::LocalInvalidate(_));
        if fenced || (invalidates && index != 0) {
            return None;
        }
        if self.init.qp_type == QpType::Ud {
            let cause = Cause::NotOnThisQp { qp_type: self.init.qp_type.name() };
            self.fail_if_oldest(now, index, (WcStatus::LocQpOpErr, cause), cx);
            return None;
        }
        match self.execute_local(&wqe.op, cx) {
            Ok(()) => {
                self.requester.cursor = index + 1;
                self.send_queue.get_mut(index)?.done = true;
                self.retire(cx);
                Some(())
            }
            Err(failure) => {
                self.fail_if_oldest(now, index, failure, cx);
                None
            }
        }
    }

    fn execute_local(&self, op: &SendOp, cx: &mut Context<'_>) -> Result<(), Failure> {
        let qpn = self.init.qpn.get();
        match *op {
            SendOp::LocalInvalidate(rkey) => cx
                .mem
                .invalidate(rkey, self.init.pd, qpn, false)
                .map_err(|e| (WcStatus::LocQpOpErr, Cause::Invalidate(e))),
            SendOp::BindMw { mw, new_rkey, mr, va, length, access } => cx
                .mem
                .bind_mw(&MwBind { mw, mr, new_rkey, va, length, access, pd: self.init.pd, qpn })
                .map(|_| ())
                .map_err(|e| (WcStatus::MwBindErr, Cause::Bind(e))),
            _ => Ok(()),
        }
    }
}

/// The part of a work request that one packet carries.
#[derive(Debug, Clone, Copy)]
struct Piece {
    offset: u64,
    length: usize,
    first: bool,
    last: bool,
    whole: bool,
}

impl Piece {
    fn of(wqe: &SendWqe, psn: Psn, mtu: u64) -> Piece {
        let offset = psn.since(wqe.first_psn).max(0) as u64 * mtu;
        let left = wqe.length.saturating_sub(offset);
        let whole = !carries_payload(&wqe.op);
        Piece {
            offset,
            length: left.min(mtu) as usize,
            first: offset == 0,
            last: left <= mtu,
            whole,
        }
    }

    fn starts(&self) -> bool {
        self.first || self.whole
    }

    fn ends(&self) -> bool {
        self.last || self.whole
    }

    fn position(&self, operation: Operation) -> Position {
        let divisible = matches!(operation, Operation::Send | Operation::Write);
        match (self.starts(), self.ends()) {
            _ if !divisible => Position::Only,
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, false) => Position::Middle,
            (false, true) => Position::Last,
        }
    }
}

/// Bytes that fill `length` up to a multiple of four.
pub(crate) fn pad_of(length: usize) -> usize {
    length.wrapping_neg() & 3
}

fn carries_payload(op: &SendOp) -> bool {
    !op.is_read() && !op.is_atomic() && !matches!(op, SendOp::Flush { .. })
}

/// Only these consume a receive at the peer, so only they can be solicited.
fn takes_receive(op: &SendOp) -> bool {
    takes_receive_only(op) || matches!(op, SendOp::WriteWithImm { .. })
}

fn takes_receive_only(op: &SendOp) -> bool {
    matches!(op, SendOp::Send | SendOp::SendWithImm(_) | SendOp::SendWithInvalidate(_))
}

fn classify(op: &SendOp) -> (Operation, Option<u32>, Option<u32>) {
    match *op {
        SendOp::SendWithImm(imm) => (Operation::Send, Some(imm), None),
        SendOp::SendWithInvalidate(rkey) => (Operation::Send, None, Some(rkey.0)),
        SendOp::Write { .. } => (Operation::Write, None, None),
        SendOp::WriteWithImm { imm, .. } => (Operation::Write, Some(imm), None),
        SendOp::Read { .. } => (Operation::ReadRequest, None, None),
        SendOp::CompareSwap { .. } => (Operation::CompareSwap, None, None),
        SendOp::FetchAdd { .. } => (Operation::FetchAdd, None, None),
        SendOp::AtomicWrite { .. } => (Operation::AtomicWrite, None, None),
        SendOp::Flush { .. } => (Operation::Flush, None, None),
        SendOp::Send | SendOp::LocalInvalidate(_) | SendOp::BindMw { .. } => {
            (Operation::Send, None, None)
        }
    }
}

/// Lends the entries of a payload as one slice; they are copied only where the ring wraps.
fn with_sges<R>(payload: Payload<'_>, run: impl FnOnce(&[Sge]) -> R) -> R {
    match payload {
        Payload::Sges(head, []) => run(head),
        Payload::Sges(head, tail) => {
            let mut joined = [Sge::default(); limits::MAX_SGE as usize];
            let count = (head.len() + tail.len()).min(joined.len());
            for (to, from) in joined.iter_mut().zip(head.iter().chain(tail)) {
                *to = *from;
            }
            run(&joined[..count])
        }
        Payload::Inline(..) => run(&[]),
    }
}

fn local_buffer(sges: &[Sge], error: uroce_memory::SgeError) -> Failure {
    let lkey = sges.get(error.index).map_or(0, |sge| sge.lkey.0);
    let cause = Cause::LocalBuffer { index: error.index as u32, lkey, error: error.error };
    (WcStatus::LocProtErr, cause)
}

/// The rights an operation needs at the peer; used by the responder.
pub(crate) fn remote_right(operation: Operation) -> Access {
    match operation {
        Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
        Operation::ReadRequest => Access::REMOTE_READ,
        Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
        _ => Access::empty(),
    }
}
