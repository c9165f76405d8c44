//! One direction of an RC connection, from the packets of its requester.

use std::collections::VecDeque;

use uroce_wire::{Mtu, Operation, Packet, SyndromeKind, rnr_timer_ns};

use super::psn::PsnLine;
use crate::violation::{Check, Invariant, ensure};

/// Most response packets of one READ: one bit each.
const MAX_RESPONSES: u64 = 64;

/// Faults that are remembered: one for each retry that a queue pair can have.
const MAX_FAULTS: usize = 7;

/// A READ or atomic operation on its way.
#[derive(Debug)]
struct AwaitedResponse {
    first: u64,
    last: u64,
    /// Response packets that have arrived, one bit each.
    arrived: u64,
    /// An ACK with its PSN does, too: ATOMIC WRITE and FLUSH.
    takes_ack: bool,
}

impl AwaitedResponse {
    fn note(&mut self, psn: u64) {
        self.arrived |= 1 << (psn - self.first).min(MAX_RESPONSES - 1);
    }

    fn is_complete(&self) -> bool {
        u64::from(self.arrived.count_ones()) > (self.last - self.first).min(MAX_RESPONSES - 1)
    }
}

/// A wait that an RNR NAK has asked for.
#[derive(Debug, Clone, Copy)]
struct RnrPause {
    psn: u64,
    until_ns: u64,
}

/// What a requester has sent, and what has come back.
#[derive(Debug)]
pub(super) struct RequestMonitor {
    line: PsnLine,
    /// The PSN of the next new request.
    next: u64,
    /// Everything before it is acknowledged.
    acknowledged: u64,
    /// The peer has answered everything before it, although responses may be missing.
    answered: u64,
    outstanding: VecDeque<AwaitedResponse>,
    rnr_wait: Option<RnrPause>,
    /// When requests and responses have met a fault: the last ones.
    faults_ns: VecDeque<u64>,
    /// When `acknowledged` has grown.
    progress_ns: u64,
    /// When it had grown before the last request was sent.
    progress_before_sent_ns: u64,
    /// A request was sent since `acknowledged` has grown.
    has_sent: bool,
    mtu: Mtu,
    max_rd_atomic: usize,
}

impl RequestMonitor {
    pub(super) fn new(start: u32, mtu: Mtu, max_rd_atomic: u8) -> RequestMonitor {
        let line = PsnLine::new(start);
        let next = line.start();
        RequestMonitor {
            line,
            next,
            acknowledged: next,
            answered: next,
            outstanding: VecDeque::new(),
            rnr_wait: None,
            faults_ns: VecDeque::with_capacity(MAX_FAULTS),
            progress_ns: 0,
            progress_before_sent_ns: 0,
            has_sent: false,
            mtu,
            max_rd_atomic: usize::from(max_rd_atomic),
        }
    }

    /// The network has not delivered a request, or a response, as it was sent.
    pub(super) fn note_fault(&mut self, now_ns: u64) {
        if self.faults_ns.len() == MAX_FAULTS {
            self.faults_ns.pop_front();
        }
        self.faults_ns.push_back(now_ns);
    }

    /// Requests and responses, up to seven, that have met a fault since the last acknowledgement, or so shortly before that
    /// they may still have been on their way.
    pub(super) fn recent_faults(&self, on_their_way_ns: u64) -> usize {
        self.faults_since(self.progress_ns.saturating_sub(on_their_way_ns))
    }

    /// The same for a requester that has sent nothing since the last acknowledgement came, and so may have failed before that
    /// without its application having seen it: those since the acknowledgement before.
    pub(super) fn recent_faults_if_silent(&self, on_their_way_ns: u64) -> usize {
        match self.has_sent {
            true => self.recent_faults(on_their_way_ns),
            false => {
                self.faults_since(self.progress_before_sent_ns.saturating_sub(on_their_way_ns))
            }
        }
    }

    fn faults_since(&self, since_ns: u64) -> usize {
        self.faults_ns.iter().filter(|at_ns| **at_ns >= since_ns).count()
    }

    /// I7, I8: a request that leaves. True if it has left before.
    pub(super) fn handle_sent(
        &mut self,
        packet: &Packet<'_>,
        now_ns: u64,
    ) -> Result<bool, (Invariant, String)> {
        self.has_sent = true;
        let psn = self.line.extend(packet.bth.psn, self.next);
        let end = psn + self.span(packet);
        let name = packet.info.name;
        self.check_rnr_wait(name, psn, now_ns)?;
        ensure(psn <= self.next, Invariant::Sequence, || {
            format!("a {name} has a PSN {} ahead of the next one", psn - self.next)
        })?;
        let is_new = psn == self.next;
        let has_response = has_response(packet);
        if !is_new {
            ensure(end <= self.next, Invariant::Sequence, || {
                format!("a {name} that is sent again reaches {} PSNs too far", end - self.next)
            })?;
            ensure(has_response || psn >= self.acknowledged, Invariant::Sequence, || {
                let before = self.acknowledged - psn;
                format!("a {name} is sent again, {before} PSNs before what is unacknowledged")
            })?;
            return Ok(true);
        }
        self.next = end;
        if has_response {
            let operation = packet.info.operation;
            let takes_ack = matches!(operation, Operation::AtomicWrite | Operation::Flush);
            self.outstanding.push_back(AwaitedResponse {
                first: psn,
                last: end - 1,
                arrived: 0,
                takes_ack,
            });
        }
        let (count, most) = (self.outstanding.len(), self.max_rd_atomic);
        ensure(count <= most, Invariant::Limits, || {
            format!("{count} READs and atomics are outstanding, {most} are allowed")
        })?;
        Ok(false)
    }

    /// A request that leaves ends the wait whose time is over: a NAK that comes afterwards may answer it.
    fn check_rnr_wait(&mut self, name: &str, psn: u64, now_ns: u64) -> Check {
        let Some(wait) = self.rnr_wait.take_if(|wait| psn >= wait.psn) else { return Ok(()) };
        ensure(now_ns >= wait.until_ns, Invariant::Limits, || {
            let early = wait.until_ns - now_ns;
            format!("a {name} is sent {early} ns before the end of an RNR wait")
        })
    }

    /// PSNs that a request takes: one for each response packet of a READ.
    fn span(&self, packet: &Packet<'_>) -> u64 {
        match packet.reth() {
            Some(reth) if packet.info.operation == Operation::ReadRequest => {
                u64::from(reth.length).div_ceil(self.mtu.bytes() as u64).max(1)
            }
            _ => 1,
        }
    }

    /// A response that has arrived undamaged.
    pub(super) fn handle_arrived(&mut self, packet: &Packet<'_>, now_ns: u64) {
        let psn = self.line.extend(packet.bth.psn, self.next);
        if psn >= self.next || psn < self.acknowledged {
            return;
        }
        if packet.info.operation != Operation::Acknowledge {
            let mut outstanding = self.outstanding.iter_mut();
            if let Some(read) = outstanding.find(|read| (read.first..=read.last).contains(&psn)) {
                read.note(psn);
                let end = read.last + 1;
                self.outstanding.retain(|read| !read.is_complete());
                self.acknowledge(end, now_ns);
            }
            return;
        }
        match packet.aeth().map(|aeth| aeth.syndrome.kind()) {
            Some(SyndromeKind::Ack { .. }) => {
                self.outstanding.retain(|one| !(one.takes_ack && one.first == psn));
                self.acknowledge(psn + 1, now_ns);
            }
            // A late copy of what has been acknowledged since asks for no wait.
            Some(SyndromeKind::Rnr { .. }) if psn < self.answered => {}
            Some(SyndromeKind::Rnr { timer }) => {
                self.acknowledge(psn, now_ns);
                // A second NAK for the same PSN answers a copy that was on its way: the wait is not longer for it.
                let waits =
                    self.rnr_wait.is_some_and(|wait| wait.psn == psn && now_ns <= wait.until_ns);
                if !waits {
                    let until_ns = now_ns + rnr_timer_ns(timer);
                    self.rnr_wait = Some(RnrPause { psn, until_ns });
                }
            }
            Some(SyndromeKind::Nak(_)) => self.acknowledge(psn, now_ns),
            _ => {}
        }
    }

    /// Everything before `psn` is answered, and acknowledged up to the first READ or atomic whose response is missing.
    fn acknowledge(&mut self, psn: u64, now_ns: u64) {
        self.answered = self.answered.max(psn);
        let missing = self.outstanding.front().map_or(u64::MAX, |read| read.first);
        let before = self.answered.min(missing);
        if before > self.acknowledged {
            if std::mem::take(&mut self.has_sent) {
                self.progress_before_sent_ns = self.progress_ns;
            }
            (self.acknowledged, self.progress_ns) = (before, now_ns);
        }
        if self.rnr_wait.is_some_and(|wait| wait.psn < psn) {
            self.rnr_wait = None;
        }
    }
}

fn has_response(packet: &Packet<'_>) -> bool {
    use Operation::{AtomicWrite, CompareSwap, FetchAdd, Flush, ReadRequest};
    matches!(packet.info.operation, ReadRequest | CompareSwap | FetchAdd | AtomicWrite | Flush)
}
