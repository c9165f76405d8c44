//! The requests of a flow.

use std::collections::VecDeque;

use uroce_wire::{OpcodeInfo, Operation};

use super::sight::Sight;

/// Requests for a response that are remembered: as many as a queue pair may have open, and more.
const MAX_RESPONDED: usize = 256;
/// Messages that are remembered to name the one that a NAK refuses.
const MAX_MESSAGES: usize = 64;
/// The smallest path MTU: what a READ of unknown path MTU is counted with.
const SMALLEST_MTU: u64 = 256;

/// Operands of an atomic.
pub(super) type Operands = (u64, u32, u64, u64);

/// The first packet of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) frame: u64,
    pub(super) psn: u64,
    pub(super) info: &'static OpcodeInfo,
    /// Remote address, key and length, if it has any.
    pub(super) target: Option<(u64, u32, u32)>,
    /// Operands of an atomic.
    pub(super) operands: Option<Operands>,
    /// What the atomic returned.
    pub(super) result: Option<u64>,
    /// It was sent before, perhaps as a part of a longer READ.
    pub(super) is_repeated: bool,
}

/// All requests of a flow.
#[derive(Debug, Default)]
pub(super) struct RequestsSeen {
    /// The first PSN that was seen.
    first: Option<u64>,
    /// One past the newest PSN, at most: a READ of unknown path MTU counts with the smallest.
    sent_below: u64,
    responded: VecDeque<Request>,
    forgot_responded: bool,
    messages: VecDeque<Request>,
}

impl Request {
    fn of(sight: &Sight<'_>, info: &'static OpcodeInfo) -> Self {
        let packet = sight.packet;
        let atomic = packet.atomic_eth;
        let target = packet.reth.map(|reth| (reth.va, reth.rkey, reth.length));
        Self {
            frame: packet.frame,
            psn: sight.psn,
            info,
            target: target.or_else(|| atomic.map(|atomic| (atomic.va, atomic.rkey, 8))),
            operands: atomic.map(|it| (it.va, it.rkey, it.swap_add, it.compare)),
            result: None,
            is_repeated: sight.is_retransmission,
        }
    }

    /// It is answered with what was in memory before.
    pub(super) const fn is_atomic(&self) -> bool {
        matches!(self.info.operation, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// PSNs that it takes; `None` for a READ of several packets if the path MTU is not known.
    pub(super) fn span(&self, mtu: Option<u32>) -> Option<u64> {
        match (self.info.operation, self.target) {
            (Operation::ReadRequest, Some((_, _, length))) if u64::from(length) > SMALLEST_MTU => {
                mtu.map(|mtu| u64::from(length).div_ceil(mtu.max(1).into()))
            }
            _ => Some(1),
        }
    }

    fn largest_span(&self, mtu: Option<u32>) -> u64 {
        let length = self.target.map_or(0, |(_, _, length)| u64::from(length));
        self.span(mtu).unwrap_or_else(|| length.div_ceil(SMALLEST_MTU))
    }
}

/// The operation expects a response of its own, not only an ACK.
const fn is_responded(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::Flush
            | Operation::AtomicWrite
    )
}

impl RequestsSeen {
    /// One past the newest PSN that was sent, at most.
    pub(super) const fn sent_below(&self) -> u64 {
        self.sent_below
    }

    /// The first PSN that was seen.
    pub(super) const fn first(&self) -> Option<u64> {
        self.first
    }

    /// The PSN is of a request that the capture may have.
    pub(super) fn is_since_first(&self, psn: u64) -> bool {
        self.first.is_some_and(|first| psn >= first)
    }

    /// Requests were forgotten for lack of room, so that a response may belong to one of them.
    pub(super) const fn has_forgotten(&self) -> bool {
        self.forgot_responded
    }

    /// Remembers a request. Gives the PSNs that it takes, if that is known.
    pub(super) fn note(
        &mut self,
        sight: &Sight<'_>,
        info: &'static OpcodeInfo,
        mtu: Option<u32>,
    ) -> Option<u64> {
        let request = Request::of(sight, info);
        if info.starts() {
            push(&mut self.messages, request, MAX_MESSAGES);
        }
        if is_responded(info.operation) {
            self.note_responded(request);
        }
        self.first.get_or_insert(sight.psn);
        let end = sight.psn.saturating_add(request.largest_span(mtu));
        self.sent_below = self.sent_below.max(end);
        request.span(mtu)
    }

    fn note_responded(&mut self, request: Request) {
        // A search through all of them, so that only atomics pay for it.
        let has_operands = request.operands.is_some();
        let known = if has_operands { self.atomic_at(request.psn) } else { None };
        let same = known.filter(|old| old.operands == request.operands);
        let result = same.and_then(|old| old.result);
        // Without its header, a READ may take any number of PSNs.
        let is_cut = request.info.operation == Operation::ReadRequest && request.target.is_none();
        self.forgot_responded |= self.responded.len() == MAX_RESPONDED || is_cut;
        push(&mut self.responded, Request { result, ..request }, MAX_RESPONDED);
    }

    /// The newest atomic at `psn`; a snap length may have cut its operands.
    pub(super) fn atomic_at(&mut self, psn: u64) -> Option<&mut Request> {
        let is_it = |old: &&mut Request| old.psn == psn && old.is_atomic();
        self.responded.iter_mut().rev().find(is_it)
    }

    /// Requests for a response whose PSNs contain `psn`, the newest first. One of unknown length
    /// contains all PSNs that it may have.
    pub(super) fn responded_at(
        &self,
        psn: u64,
        mtu: Option<u32>,
    ) -> impl Iterator<Item = &Request> {
        let contains = move |request: &&Request| {
            psn.checked_sub(request.psn).is_some_and(|at| at < request.largest_span(mtu))
        };
        self.responded.iter().rev().filter(contains)
    }

    /// The newest message that begins at or before `psn`.
    pub(super) fn message_at(&self, psn: u64) -> Option<&Request> {
        let before = self.messages.iter().rev().filter(|message| message.psn <= psn);
        before.max_by_key(|message| message.psn)
    }
}

fn push(list: &mut VecDeque<Request>, request: Request, limit: usize) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(request);
}
