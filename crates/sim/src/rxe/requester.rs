//! The requester of the model: go-back-N, with timers that tick every few milliseconds.

use std::collections::VecDeque;

use uroce_device::memory::{Rkey, Sge};
use uroce_device::transport::{SendData, SendFlags, SendOp, SendWr, WcOpcode, WcStatus};
use uroce_wire::{
    AtomicEth, ImmDt, NakCode, Operation, Packet, Position, Reth, Service, SyndromeKind,
    opcode_for, rnr_timer_ns,
};

use super::packet::PacketWriter;
use super::{Io, RxeLink, tick};
use crate::monitor::PsnLine;

/// PSNs that may be unacknowledged.
const MAX_UNACKNOWLEDGED: u64 = 128;
/// Packets after which one asks for an acknowledgement, although its message goes on.
const UNASKED: u32 = 64;
/// A retry count that never runs out: of timeouts and sequence NAKs, too, which is a habit of rxe.
const FOR_EVER: u8 = 7;

/// A send work request.
#[derive(Debug)]
struct RxeRequest {
    wr_id: u64,
    op: SendOp,
    sges: Vec<Sge>,
    inline: Option<Vec<u8>>,
    length: usize,
    is_fenced: bool,
    is_signalled: bool,
    /// Its first and last PSN, once it was begun.
    span: Option<(u64, u64)>,
    /// It cannot be sent, and fails when everything before it has completed.
    error: Option<WcStatus>,
}

/// One direction of a connection: what is posted, sent and acknowledged.
#[derive(Debug)]
pub(super) struct RxeRequester {
    line: PsnLine,
    queue: VecDeque<RxeRequest>,
    /// The request that is sent next.
    sending: usize,
    /// The PSN that is sent next.
    next: u64,
    /// The first PSN that no request has.
    end: u64,
    /// Everything before it is acknowledged.
    acknowledged: u64,
    unasked: u32,
    retries: u8,
    rnr_retries: u8,
    /// It has gone back, and nothing was acknowledged since.
    is_repairing: bool,
    rnr_until_ns: Option<u64>,
    deadline_ns: Option<u64>,
}

impl RxeRequest {
    fn new(wr: &SendWr<'_>, signal_all: bool) -> RxeRequest {
        let (sges, inline) = match wr.data {
            SendData::Sges(sges) => (sges.to_vec(), None),
            SendData::Inline(parts) => (vec![], Some(parts.concat())),
        };
        let listed = sges.iter().map(|sge| sge.length as usize).sum();
        RxeRequest {
            wr_id: wr.wr_id,
            op: wr.op,
            length: inline.as_ref().map_or(listed, Vec::len),
            sges,
            inline,
            is_fenced: wr.flags.contains(SendFlags::FENCE),
            is_signalled: signal_all || wr.flags.contains(SendFlags::SIGNALED),
            span: None,
            error: None,
        }
    }

    /// True for what only its own response completes.
    fn needs_response(&self) -> bool {
        use SendOp::{CompareSwap, FetchAdd, Read};
        matches!(self.op, Read { .. } | CompareSwap { .. } | FetchAdd { .. })
    }

    fn is_atomic(&self) -> bool {
        self.needs_response() && !matches!(self.op, SendOp::Read { .. })
    }

    fn packets(&self, mtu: usize) -> u64 {
        if self.is_atomic() { 1 } else { self.length.div_ceil(mtu).max(1) as u64 }
    }

    fn completion(&self) -> WcOpcode {
        match self.op {
            SendOp::Read { .. } => WcOpcode::RdmaRead,
            SendOp::CompareSwap { .. } => WcOpcode::CompSwap,
            SendOp::FetchAdd { .. } => WcOpcode::FetchAdd,
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => WcOpcode::RdmaWrite,
            _ => WcOpcode::Send,
        }
    }

    /// Part of what it carries.
    fn payload(&self, io: &Io<'_>, skip: usize, length: usize) -> Option<Vec<u8>> {
        match &self.inline {
            Some(bytes) => bytes.get(skip..skip + length).map(<[u8]>::to_vec),
            None => io.memory.gather(&self.sges, skip, length),
        }
    }

    /// Its packet with the PSN `psn`. `None`: its memory cannot be read.
    fn write(&self, io: &Io<'_>, psn: u64, asks: bool) -> Option<Vec<u8>> {
        let ((first, last), mtu) = (self.span?, io.link.mtu);
        let skip = (psn - first) as usize * mtu;
        let rest = self.length.saturating_sub(skip);
        let writer = |operation, position, imm: bool| {
            let opcode = opcode_for(Service::Rc, operation, position, imm, false);
            PacketWriter::new(opcode.expect("it exists"), io.link.dest, psn).asking(asks)
        };
        let atomic = |operation, va, Rkey(rkey), swap_add, compare| {
            let header = AtomicEth { va, rkey, swap_add, compare };
            writer(operation, Position::Only, false).with(&header).payload(&[])
        };
        let (operation, target, imm) = match self.op {
            SendOp::Send => (Operation::Send, None, None),
            SendOp::SendWithImm(imm) => (Operation::Send, None, Some(imm)),
            SendOp::Write { va, rkey } => (Operation::Write, Some((va, rkey)), None),
            SendOp::WriteWithImm { va, rkey, imm } => {
                (Operation::Write, Some((va, rkey)), Some(imm))
            }
            SendOp::Read { va, rkey: Rkey(rkey) } => {
                // What is left of it.
                let reth = Reth { va: va.wrapping_add(skip as u64), rkey, length: rest as u32 };
                let writer = writer(Operation::ReadRequest, Position::Only, false);
                return Some(writer.with(&reth).payload(&[]));
            }
            SendOp::FetchAdd { va, rkey, add } => {
                return Some(atomic(Operation::FetchAdd, va, rkey, add, 0));
            }
            SendOp::CompareSwap { va, rkey, compare, swap } => {
                return Some(atomic(Operation::CompareSwap, va, rkey, swap, compare));
            }
            _ => return None,
        };
        let position = match (psn == first, psn == last) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        };
        let (starts, ends) = (psn == first, psn == last);
        let length = self.length as u32;
        let reth = target.map(|(va, Rkey(rkey))| Reth { va, rkey, length }).filter(|_| starts);
        let imm = imm.map(ImmDt).filter(|_| ends);
        let payload = self.payload(io, skip, rest.min(mtu))?;
        let writer = writer(operation, position, imm.is_some()).with_some(reth).with_some(imm);
        Some(writer.payload(&payload))
    }
}

impl RxeRequester {
    pub(super) fn new(start: u32, link: &RxeLink) -> RxeRequester {
        let line = PsnLine::new(start);
        let start = line.start();
        RxeRequester {
            line,
            queue: VecDeque::new(),
            sending: 0,
            next: start,
            end: start,
            acknowledged: start,
            unasked: 0,
            retries: link.retry_cnt,
            rnr_retries: link.rnr_retry,
            is_repairing: false,
            rnr_until_ns: None,
            deadline_ns: None,
        }
    }

    pub(super) fn post(&mut self, wr: &SendWr<'_>, link: &RxeLink) {
        self.queue.push_back(RxeRequest::new(wr, link.signal_all));
    }

    /// Everything that is posted, by its `wr_id`, oldest first. Nothing is posted any more.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        (self.sending, self.rnr_until_ns, self.deadline_ns) = (0, None, None);
        self.queue.drain(..).map(|request| request.wr_id).collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.rnr_until_ns.or(self.deadline_ns)
    }

    /// Serves the timers that are due by now.
    pub(super) fn handle_timeout(&mut self, io: &mut Io<'_>) -> Result<(), WcStatus> {
        if self.rnr_until_ns.is_some_and(|until| until <= io.now_ns) {
            self.rnr_until_ns = None;
        }
        if self.deadline_ns.is_none_or(|at| at > io.now_ns) {
            return Ok(());
        }
        self.deadline_ns = None;
        if self.acknowledged == self.end {
            return Ok(());
        }
        io.counters.timeouts += 1;
        self.is_repairing = false;
        self.repair(io)
    }

    /// Writes all packets that may leave now.
    pub(super) fn transmit(&mut self, io: &mut Io<'_>) -> Result<(), WcStatus> {
        if let Some(status) = self.queue.front().and_then(|request| request.error) {
            return Err(status);
        }
        while self.rnr_until_ns.is_none() && self.next - self.acknowledged < MAX_UNACKNOWLEDGED {
            if !self.begin(io.link) {
                break;
            }
            let request = &mut self.queue[self.sending];
            let Some((_, last)) = request.span else { break };
            self.unasked += 1;
            let asks = self.next == last || self.unasked >= UNASKED;
            let Some(bytes) = request.write(io, self.next, asks) else {
                request.error = Some(WcStatus::LocProtErr);
                return if self.sending == 0 { Err(WcStatus::LocProtErr) } else { Ok(()) };
            };
            self.unasked = if asks { 0 } else { self.unasked };
            self.next = if request.needs_response() { last + 1 } else { self.next + 1 };
            io.send(bytes);
            self.skip_sent();
            if self.deadline_ns.is_none() {
                self.start_timer(io);
            }
        }
        Ok(())
    }

    /// True if the request that is sent next may be sent. Gives it PSNs if it has none.
    fn begin(&mut self, link: &RxeLink) -> bool {
        let Some(request) = self.queue.get(self.sending) else { return false };
        if request.error.is_some() {
            return false;
        }
        if request.span.is_some() {
            return true;
        }
        let before = self.queue.iter().take(self.sending);
        let open = before.filter(|request| request.needs_response()).count();
        let waits = request.is_fenced && open > 0
            || request.needs_response() && open >= usize::from(link.rd_atomic);
        if waits {
            return false;
        }
        let packets = request.packets(link.mtu);
        self.queue[self.sending].span = Some((self.end, self.end + packets - 1));
        self.end += packets;
        true
    }

    /// A packet that answers a request.
    pub(super) fn handle_response(
        &mut self,
        packet: &Packet<'_>,
        io: &mut Io<'_>,
    ) -> Result<(), WcStatus> {
        let psn = self.line.extend(packet.bth.psn, self.acknowledged);
        if psn < self.acknowledged || psn >= self.end {
            return Ok(());
        }
        match packet.info.operation {
            Operation::Acknowledge => self.handle_acknowledge(packet, psn, io),
            // Whatever is open before it was lost.
            _ if !self.acknowledge(psn, io) => self.repair(io),
            Operation::ReadResponse => self.take_read(packet, psn, io),
            _ => self.take_atomic(packet, psn, io),
        }
    }

    fn handle_acknowledge(
        &mut self,
        packet: &Packet<'_>,
        psn: u64,
        io: &mut Io<'_>,
    ) -> Result<(), WcStatus> {
        let Some(aeth) = packet.aeth() else { return Ok(()) };
        let kind = aeth.syndrome.kind();
        let is_ack = matches!(kind, SyndromeKind::Ack { .. });
        if is_ack && self.is_all_of_first(psn) {
            self.advance(psn + 1, io);
            self.complete_first(io);
            return Ok(());
        }
        if !self.acknowledge(if is_ack { psn + 1 } else { psn }, io) {
            return self.repair(io);
        }
        match kind {
            SyndromeKind::Rnr { timer } if self.rnr_until_ns.is_none() => {
                io.counters.rnr_naks_taken += 1;
                take_retry(&mut self.rnr_retries, WcStatus::RnrRetryExcErr)?;
                self.go_back();
                self.rnr_until_ns = Some(tick(io.now_ns + rnr_timer_ns(timer)));
                Ok(())
            }
            // The wait after an RNR NAK goes on.
            SyndromeKind::Nak(NakCode::PsnSequence) if self.rnr_until_ns.is_none() => {
                io.counters.naks_taken += 1;
                self.repair(io)
            }
            SyndromeKind::Nak(NakCode::InvalidRequest) => Err(WcStatus::RemInvReqErr),
            SyndromeKind::Nak(NakCode::RemoteAccess) => Err(WcStatus::RemAccessErr),
            SyndromeKind::Nak(NakCode::RemoteOperational) => Err(WcStatus::RemOpErr),
            _ => Ok(()),
        }
    }

    /// The oldest request has this PSN and no other. rxe then asks no more of an ACK, not even for an atomic or a READ.
    fn is_all_of_first(&self, psn: u64) -> bool {
        self.acknowledged == psn
            && self.queue.front().is_some_and(|front| front.span == Some((psn, psn)))
    }

    /// Everything before `to` is acknowledged. False: a response is missing before it.
    fn acknowledge(&mut self, to: u64, io: &mut Io<'_>) -> bool {
        while let Some(front) = self.queue.front() {
            let Some((_, last)) = front.span else { break };
            if to <= self.acknowledged {
                break;
            }
            if front.needs_response() {
                return false;
            }
            self.advance(to.min(last + 1), io);
            if to <= last {
                break;
            }
            self.complete_first(io);
        }
        true
    }

    fn take_read(
        &mut self,
        packet: &Packet<'_>,
        psn: u64,
        io: &mut Io<'_>,
    ) -> Result<(), WcStatus> {
        let Some(front) = self.queue.front() else { return Ok(()) };
        let (SendOp::Read { .. }, Some((first, last))) = (front.op, front.span) else {
            return Ok(());
        };
        let skip = (psn - first) as usize * io.link.mtu;
        let due = front.length.saturating_sub(skip).min(io.link.mtu);
        let payload = packet.payload();
        if payload.len() != due {
            return Err(WcStatus::BadRespErr);
        }
        io.memory.scatter(&front.sges, skip, payload).ok_or(WcStatus::LocProtErr)?;
        self.advance(psn + 1, io);
        if psn == last {
            self.complete_first(io);
        }
        Ok(())
    }

    fn take_atomic(
        &mut self,
        packet: &Packet<'_>,
        psn: u64,
        io: &mut Io<'_>,
    ) -> Result<(), WcStatus> {
        let Some(front) = self.queue.front() else { return Ok(()) };
        let Some(result) = packet.atomic_ack_eth().filter(|_| front.is_atomic()) else {
            return Ok(());
        };
        let bytes = result.original.to_ne_bytes();
        io.memory.scatter(&front.sges, 0, &bytes).ok_or(WcStatus::LocProtErr)?;
        self.advance(psn + 1, io);
        self.complete_first(io);
        Ok(())
    }

    fn complete_first(&mut self, io: &mut Io<'_>) {
        let Some(request) = self.queue.pop_front() else { return };
        self.sending = self.sending.saturating_sub(1);
        self.skip_sent();
        if request.is_signalled {
            io.complete_send(request.wr_id, request.completion(), WcStatus::Success);
        }
    }

    /// More is acknowledged: counts of retries and timers begin anew.
    fn advance(&mut self, to: u64, io: &mut Io<'_>) {
        self.acknowledged = to;
        self.next = self.next.max(to);
        self.skip_sent();
        (self.retries, self.rnr_retries) = (io.link.retry_cnt, io.link.rnr_retry);
        self.is_repairing = false;
        self.deadline_ns = None;
        if self.acknowledged != self.end {
            self.start_timer(io);
        }
    }

    fn start_timer(&mut self, io: &Io<'_>) {
        self.deadline_ns = io.link.timeout_ns.map(|timeout| tick(io.now_ns + timeout));
    }

    /// Sends everything again that is not acknowledged, unless it is at it.
    fn repair(&mut self, io: &mut Io<'_>) -> Result<(), WcStatus> {
        if self.is_repairing || self.rnr_until_ns.is_some() {
            return Ok(());
        }
        take_retry(&mut self.retries, WcStatus::RetryExcErr)?;
        io.counters.repairs += 1;
        self.go_back();
        self.is_repairing = true;
        Ok(())
    }

    fn go_back(&mut self) {
        (self.next, self.sending) = (self.acknowledged, 0);
        (self.unasked, self.deadline_ns) = (0, None);
        self.skip_sent();
    }

    /// Goes on to the request that has the next PSN.
    fn skip_sent(&mut self) {
        let is_sent = |request: &RxeRequest| request.span.is_some_and(|(_, last)| last < self.next);
        while self.queue.get(self.sending).is_some_and(is_sent) {
            self.sending += 1;
        }
    }
}

/// One retry less. Fails if none is left.
fn take_retry(left: &mut u8, status: WcStatus) -> Result<(), WcStatus> {
    match *left {
        0 => Err(status),
        FOR_EVER.. => Ok(()),
        _ => {
            *left -= 1;
            Ok(())
        }
    }
}
