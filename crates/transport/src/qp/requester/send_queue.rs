//! Send work requests from post to completion.

use std::collections::VecDeque;

use uroce_memory::Sge;
use uroce_wire::{Mtu, Psn};

use crate::attr::QpCaps;
use crate::limits;
use crate::qp::config::QpConfig;
use crate::wc::WcOpcode;
use crate::wr::{PostError, SendData, SendFlags, SendOp, SendWr, UdDestination};

/// A posted send work request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendWqe {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) flags: SendFlags,
    /// The shared receive queue that XRC names.
    pub(crate) srqn: Option<u32>,
    /// Payload bytes; for READ the bytes asked for.
    pub(crate) length: u64,
    /// Where the payload is if it is one entry; that needs no ring.
    only: Sge,
    /// Position of the first of several entries (or inline byte) in the ring, counted from the first post
    /// ever.
    data_at: u64,
    sge_count: u32,
    /// Position of its destination in the ring of those, counted from 1; 0 without one.
    ud_at: u64,
    /// Its PSNs, once it has been numbered.
    pub(crate) numbered: bool,
    pub(crate) first_psn: Psn,
    pub(crate) psn_count: u32,
    /// PSNs of each READ REQUEST of a READ but the last.
    pub(super) read_split: u32,
    /// It is a WRITE, and each of its packets is a WRITE ONLY.
    pub(super) split: bool,
    /// Nothing more is expected for it; it completes when it is the oldest.
    pub(crate) done: bool,
}

impl SendWqe {
    /// The only entry of a request from registered memory that has one entry.
    #[inline]
    pub(crate) fn only_sge(&self) -> Option<&Sge> {
        (self.sge_count == 1).then_some(&self.only)
    }

    /// The last of its PSNs.
    pub(crate) fn last_psn(&self) -> Psn {
        self.first_psn.add(self.psn_count.saturating_sub(1))
    }

    /// R18, R19: how many PSNs it takes in packets of `mtu` bytes.
    pub(super) fn psns_needed(&self, mtu: u64) -> u32 {
        if self.op.is_atomic() || self.op.is_placement() {
            return 1;
        }
        self.length.div_ceil(mtu).max(1) as u32
    }

    /// Gives it its PSNs.
    #[inline]
    pub(super) fn set_psns(&mut self, first: Psn, count: u32) {
        debug_assert!(!self.numbered && count > 0, "numbered once");
        (self.numbered, self.first_psn, self.psn_count) = (true, first, count);
    }

    /// True if this is one of its PSNs.
    pub(super) fn has_psn(&self, psn: Psn) -> bool {
        self.numbered && psn.since(self.first_psn) >= 0 && psn.since(self.last_psn()) <= 0
    }

    /// True if all its PSNs are at or before `upto`.
    fn has_psns_until(&self, upto: Psn) -> bool {
        self.numbered && upto.since(self.last_psn()) >= 0
    }

    /// The last PSN of the READ REQUEST that `psn` belongs to; of others that PSN. A READ is split at fixed places, so that
    /// a request sent again stays inside the one it repeats (R58).
    pub(super) fn last_of_request(&self, psn: Psn) -> Psn {
        if !self.op.is_read() {
            return psn;
        }
        let index = psn.since(self.first_psn).max(0) as u32;
        let last = index - index % self.read_split + self.read_split - 1;
        self.first_psn.add(last.min(self.psn_count.saturating_sub(1)))
    }

    /// SEND and WRITE: what a responder may have in a reorder buffer.
    pub(super) fn may_be_reordered(&self) -> bool {
        self.numbered && !self.needs_response()
    }

    /// Where `length` bytes of response to this READ go, which are the packets `first` to `last`: in the middle of one READ
    /// REQUEST, and in one entry.
    pub(super) fn place_of(&self, first: Psn, last: Psn, length: usize, mtu: Mtu) -> Option<Sge> {
        let sge = self.only_sge().filter(|_| self.op.is_read())?;
        let offset = u64::try_from(first.since(self.first_psn)).ok()? * mtu.bytes() as u64;
        let rest = u64::from(sge.length).min(self.length).checked_sub(offset)?;
        let length = u32::try_from(length).ok()?;
        let inside = self.last_of_request(first).since(last) > 0 && u64::from(length) <= rest;
        let addr = sge.addr.checked_add(offset)?;
        inside.then_some(Sge { addr, length, lkey: sge.lkey })
    }

    /// How many responses from `first` on come before the last one of their READ REQUEST.
    pub(super) fn middle_responses(&self, first: Psn) -> u32 {
        u32::try_from(self.last_of_request(first).since(first)).unwrap_or(0)
    }

    /// True if only a response of its own completes it (R68).
    pub(crate) fn needs_response(&self) -> bool {
        self.op.is_read() || self.op.is_atomic() || self.op.is_placement()
    }
}

impl SendOp {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, SendOp::Read { .. })
    }

    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    /// ATOMIC WRITE and FLUSH: answered by an empty READ response.
    pub(crate) fn is_placement(&self) -> bool {
        matches!(self, SendOp::AtomicWrite { .. } | SendOp::Flush { .. })
    }

    /// Done inside the device, without a packet.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, SendOp::LocalInvalidate(_) | SendOp::BindMw { .. })
    }

    fn may_be_inline(&self) -> bool {
        matches!(
            self,
            SendOp::Send
                | SendOp::SendWithImm(_)
                | SendOp::SendWithInvalidate(_)
                | SendOp::Write { .. }
                | SendOp::WriteWithImm { .. }
                | SendOp::AtomicWrite { .. }
        )
    }

    /// What the completion calls it.
    pub(crate) fn wc_opcode(&self) -> WcOpcode {
        match self {
            SendOp::Send | SendOp::SendWithImm(_) | SendOp::SendWithInvalidate(_) => WcOpcode::Send,
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => WcOpcode::RdmaWrite,
            SendOp::Read { .. } => WcOpcode::RdmaRead,
            SendOp::CompareSwap { .. } => WcOpcode::CompSwap,
            SendOp::FetchAdd { .. } => WcOpcode::FetchAdd,
            SendOp::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            SendOp::Flush { .. } => WcOpcode::Flush,
            SendOp::LocalInvalidate(_) => WcOpcode::LocalInv,
            SendOp::BindMw { .. } => WcOpcode::BindMw,
        }
    }
}

/// The send queue. Entries of lists, inline bytes and destinations of all requests lie in rings, in post
/// order, so that posting allocates nothing once the rings have grown to their working size.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    wqes: VecDeque<SendWqe>,
    /// Index of the request that the next packet belongs to, or that is numbered next.
    cursor: usize,
    sges: VecDeque<Sge>,
    sges_retired: u64,
    inline: VecDeque<u8>,
    inline_retired: u64,
    /// Of UD requests. Apart from them because it is large, and others have none.
    destinations: VecDeque<UdDestination>,
    destinations_retired: u64,
    capacity: u32,
    max_sge: u32,
    max_inline: u32,
}

/// What the completion of a request tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retired {
    pub(crate) wr_id: u64,
    pub(crate) opcode: WcOpcode,
    pub(crate) length: u64,
}

impl Retired {
    #[inline]
    fn of(wqe: &SendWqe) -> Self {
        Retired { wr_id: wqe.wr_id, opcode: wqe.op.wc_opcode(), length: wqe.length }
    }
}

/// The payload of a work request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// Registered memory, at most two runs of the ring.
    Sges(&'a [Sge], &'a [Sge]),
    /// Copied bytes, at most two runs of the ring.
    Inline(&'a [u8], &'a [u8]),
}

impl SendQueue {
    pub(crate) fn new(caps: &QpCaps) -> Self {
        SendQueue {
            capacity: caps.max_send_wr,
            max_sge: caps.max_send_sge,
            max_inline: caps.max_inline,
            ..SendQueue::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.wqes.len()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&SendWqe> {
        self.wqes.get(index)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut SendWqe> {
        self.wqes.get_mut(index)
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&SendWqe> {
        self.wqes.front()
    }

    /// Index of the request that the next packet belongs to.
    #[inline]
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// The request that the next packet belongs to.
    #[inline]
    pub(super) fn current(&self) -> Option<&SendWqe> {
        self.wqes.get(self.cursor)
    }

    #[inline]
    pub(super) fn current_mut(&mut self) -> Option<&mut SendWqe> {
        self.wqes.get_mut(self.cursor)
    }

    /// The next packet belongs to the request behind.
    #[inline]
    pub(super) fn move_on(&mut self) {
        self.cursor += 1;
    }

    /// The next packet belongs to the oldest request.
    pub(super) fn rewind(&mut self) {
        self.cursor = 0;
    }

    /// The next packet has this PSN; behind all that have PSNs it belongs to the first request that has none.
    pub(super) fn point_at(&mut self, psn: Psn) {
        let behind_all = || self.index_of(psn.sub(1)).map_or(0, |last| last + 1);
        self.cursor = self.index_of(psn).unwrap_or_else(behind_all);
    }

    /// Index of the request that owns `psn`.
    pub(super) fn index_of(&self, psn: Psn) -> Option<usize> {
        self.wqes.iter().position(|wqe| wqe.has_psn(psn))
    }

    /// Gives the request at `index` its PSNs from `first` on if it has none yet; `read_split` of them to a READ REQUEST.
    pub(super) fn number(&mut self, index: usize, first: Psn, config: &QpConfig, read_split: u32) {
        if let Some(wqe) = self.wqes.get_mut(index).filter(|wqe| !wqe.numbered) {
            wqe.split = splits(config, wqe);
            wqe.set_psns(first, wqe.psns_needed(config.mtu()));
            wqe.read_split = read_split.max(1);
        }
    }

    /// True if the oldest request is an ATOMIC WRITE or FLUSH.
    pub(super) fn oldest_is_placement(&self) -> bool {
        self.front().is_some_and(|wqe| wqe.op.is_placement())
    }

    /// True if nothing more is expected for the oldest request.
    #[inline]
    pub(super) fn oldest_is_done(&self) -> bool {
        self.front().is_some_and(|wqe| wqe.done)
    }

    /// True if a responder may have the oldest request in a reorder buffer.
    pub(super) fn oldest_may_be_reordered(&self) -> bool {
        self.front().is_some_and(SendWqe::may_be_reordered)
    }

    /// Checks and queues a request; nothing is queued on an error.
    #[inline]
    pub(crate) fn push(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.wqes.len() >= self.capacity as usize {
            return Err(PostError::QueueFull { capacity: self.capacity });
        }
        let mut flags = wr.flags - SendFlags::INLINE;
        let (only, data_at, sge_count, length) = match wr.data {
            SendData::Sges(&[sge]) if self.max_sge > 0 => {
                let length = checked_length(sge.length.into())?;
                (sge, 0, 1, length)
            }
            SendData::Sges(sges) => {
                let (length, at) = self.push_list(sges)?;
                (Sge::default(), at, sges.len() as u32, length)
            }
            SendData::Inline(parts) => {
                let (length, at) = self.push_inline(&wr.op, parts)?;
                flags |= SendFlags::INLINE;
                (Sge::default(), at, 0, length)
            }
        };
        let ud_at = wr.ud.as_ref().map_or(0, |ud| self.push_destination(ud));
        self.wqes.push_back(SendWqe {
            wr_id: wr.wr_id,
            op: wr.op,
            flags,
            srqn: wr.srqn,
            length,
            only,
            data_at,
            sge_count,
            ud_at,
            numbered: false,
            first_psn: Psn::new(0),
            psn_count: 0,
            read_split: 1,
            split: false,
            done: false,
        });
        Ok(())
    }

    /// Whether [`push`](Self::push) would take a request behind `ahead` others that are not queued yet.
    pub(crate) fn check(&self, wr: &SendWr<'_>, ahead: usize) -> Result<(), PostError> {
        if self.wqes.len() + ahead >= self.capacity as usize {
            return Err(PostError::QueueFull { capacity: self.capacity });
        }
        match wr.data {
            SendData::Sges(sges) => self.check_list(sges),
            SendData::Inline(parts) => self.check_inline(&wr.op, parts),
        }
        .map(|_length| ())
    }

    fn check_list(&self, sges: &[Sge]) -> Result<u64, PostError> {
        if sges.len() > self.max_sge as usize {
            return Err(PostError::TooManySges { count: sges.len(), max: self.max_sge });
        }
        checked_length(sges.iter().map(|sge| u64::from(sge.length)).sum())
    }

    /// Queues none or several entries; their sum, and where they are.
    fn push_list(&mut self, sges: &[Sge]) -> Result<(u64, u64), PostError> {
        let length = self.check_list(sges)?;
        let at = self.sges_retired + self.sges.len() as u64;
        self.sges.extend(sges);
        Ok((length, at))
    }

    /// Queues inline bytes; how many, and where they are.
    fn push_inline(&mut self, op: &SendOp, parts: &[&[u8]]) -> Result<(u64, u64), PostError> {
        let length = self.check_inline(op, parts)?;
        let at = self.inline_retired + self.inline.len() as u64;
        for part in parts {
            self.inline.extend(part.iter());
        }
        Ok((length, at))
    }

    fn push_destination(&mut self, ud: &UdDestination) -> u64 {
        self.destinations.push_back(*ud);
        self.destinations_retired + self.destinations.len() as u64
    }

    fn check_inline(&self, op: &SendOp, parts: &[&[u8]]) -> Result<u64, PostError> {
        if !op.may_be_inline() {
            return Err(PostError::InlineNotAllowed);
        }
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.max_inline as usize {
            return Err(PostError::InlineTooLong { length, max: self.max_inline });
        }
        Ok(length as u64)
    }

    /// Where a request that is still queued goes, if it says so itself.
    #[inline]
    pub(crate) fn destination(&self, wqe: &SendWqe) -> Option<&UdDestination> {
        let at = wqe.ud_at.checked_sub(1)?;
        self.destinations.get((at - self.destinations_retired) as usize)
    }

    /// The payload of a request that is still queued.
    #[inline]
    pub(crate) fn payload<'a>(&'a self, wqe: &'a SendWqe) -> Payload<'a> {
        if let Some(only) = wqe.only_sge() {
            Payload::Sges(std::slice::from_ref(only), &[])
        } else if wqe.flags.contains(SendFlags::INLINE) {
            let start = (wqe.data_at - self.inline_retired) as usize;
            debug_assert!(start + wqe.length as usize <= self.inline.len(), "bytes that have gone");
            let (head, tail) = split(&self.inline, start, wqe.length as usize);
            Payload::Inline(head, tail)
        } else {
            let start = (wqe.data_at - self.sges_retired) as usize;
            debug_assert!(
                start + wqe.sge_count as usize <= self.sges.len(),
                "entries that have gone"
            );
            let (head, tail) = split(&self.sges, start, wqe.sge_count as usize);
            Payload::Sges(head, tail)
        }
    }

    /// Removes the oldest request.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Retired> {
        let retired = Retired::of(self.wqes.front()?);
        self.drop_front();
        Some(retired)
    }

    /// Removes the oldest request, of which nothing is told.
    #[inline]
    pub(crate) fn drop_front(&mut self) {
        let Some(&SendWqe { flags, length, sge_count, ud_at, .. }) = self.wqes.front() else {
            return;
        };
        self.wqes.pop_front();
        self.cursor = self.cursor.saturating_sub(1);
        if sge_count != 1 || ud_at != 0 {
            self.drop_parts(flags, length, sge_count, ud_at);
        }
    }

    /// How many of the oldest requests end at or before `upto`, complete without a word and have nothing in the rings, and
    /// the last PSN of these. `None`: not one.
    pub(super) fn silent_until(
        &self,
        upto: Psn,
        is_signaled: impl Fn(SendFlags) -> bool,
    ) -> Option<(usize, Psn)> {
        let silent = |wqe: &&SendWqe| {
            let last = wqe.has_psns_until(upto) && !wqe.needs_response();
            last && wqe.sge_count == 1 && wqe.ud_at == 0 && !is_signaled(wqe.flags)
        };
        let count = self.wqes.iter().take_while(silent).count();
        let last = self.wqes.get(count.checked_sub(1)?)?.last_psn();
        Some((count, last))
    }

    /// Removes the requests that [`silent_until`](Self::silent_until) has counted.
    pub(super) fn drop_silent(&mut self, count: usize) {
        self.wqes.drain(..count);
        self.cursor = self.cursor.saturating_sub(count);
    }

    /// Removes from the rings what belonged to the oldest request.
    #[inline(never)]
    fn drop_parts(&mut self, flags: SendFlags, length: u64, sge_count: u32, ud_at: u64) {
        if flags.contains(SendFlags::INLINE) {
            self.inline.drain(..length as usize);
            self.inline_retired += length;
        } else if sge_count != 1 {
            self.sges.drain(..sge_count as usize);
            self.sges_retired += u64::from(sge_count);
        }
        if ud_at != 0 {
            self.destinations.pop_front();
            self.destinations_retired += 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    /// What holds between two calls.
    pub(super) fn assert_invariants(&self) {
        debug_assert!(self.wqes.len() <= self.capacity as usize, "more requests than were granted");
        debug_assert!(self.cursor <= self.wqes.len(), "the next packet belongs to no request");
        debug_assert!(!self.wqes.is_empty() || self.sges.is_empty(), "entries of no request");
        debug_assert!(!self.wqes.is_empty() || self.inline.is_empty(), "bytes of no request");
        debug_assert!(self.destinations.len() <= self.wqes.len(), "destinations of no request");
        debug_assert!(!self.oldest_is_done(), "the oldest request has not left, though it is done");
    }
}

/// True if each packet of a request that has not begun is to be a WRITE ONLY. Not with immediate data, whose completion tells the
/// peer the length of the whole, and not of UC, where a message arrives whole or not at all.
#[inline]
pub(super) fn splits(config: &QpConfig, wqe: &SendWqe) -> bool {
    config.features.split_writes
        && (config.mtu() + 1..=limits::SPLIT_WRITE_BYTES).contains(&wqe.length)
        && matches!(wqe.op, SendOp::Write { .. })
}

fn checked_length(length: u64) -> Result<u64, PostError> {
    if length > limits::MAX_MESSAGE {
        return Err(PostError::MessageTooLong { length });
    }
    Ok(length)
}

/// The `count` elements from `start` of a ring as two slices.
fn split<T>(ring: &VecDeque<T>, start: usize, count: usize) -> (&[T], &[T]) {
    let (head, tail) = ring.as_slices();
    if start >= head.len() {
        let start = start - head.len();
        return (&tail[start..start + count], &[]);
    }
    let in_head = count.min(head.len() - start);
    (&head[start..start + in_head], &tail[..count - in_head])
}

#[cfg(test)]
mod tests {
    use uroce_memory::Lkey;

    use super::*;

    fn queue() -> SendQueue {
        SendQueue::new(&QpCaps {
            max_send_wr: 3,
            max_send_sge: 2,
            max_inline: 8,
            ..QpCaps::default()
        })
    }

    fn wr<'a>(data: SendData<'a>) -> SendWr<'a> {
        SendWr { wr_id: 1, op: SendOp::Send, flags: SendFlags::empty(), data, ud: None, srqn: None }
    }

    #[test]
    fn b34_inline_zero_max_and_one_more() {
        let mut queue = queue();
        queue.push(&wr(SendData::Inline(&[]))).unwrap();
        queue.push(&wr(SendData::Inline(&[&[1, 2, 3], &[4, 5, 6, 7, 8]]))).unwrap();
        let error = queue.push(&wr(SendData::Inline(&[&[0; 9]])));
        assert_eq!(error, Err(PostError::InlineTooLong { length: 9, max: 8 }));
        let wqe = *queue.get(1).unwrap();
        let Payload::Inline(head, tail) = queue.payload(&wqe) else { panic!("inline") };
        assert_eq!([head, tail].concat(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn b33_unequal_entries_add_up() {
        let mut queue = queue();
        let sges = [
            Sge { addr: 1, length: 100, lkey: Lkey(1) },
            Sge { addr: 2, length: 3, lkey: Lkey(1) },
        ];
        queue.push(&wr(SendData::Sges(&sges))).unwrap();
        assert_eq!(queue.front().unwrap().length, 103);
    }

    #[test]
    fn payload_survives_wrapping_rings() {
        let mut queue = queue();
        for round in 0..50u8 {
            let bytes = [round, round ^ 1, round ^ 2, round ^ 3, round ^ 4];
            queue.push(&wr(SendData::Inline(&[&bytes]))).unwrap();
            if queue.len() == 3 {
                queue.pop();
            }
            let wqe = *queue.get(queue.len() - 1).unwrap();
            let Payload::Inline(head, tail) = queue.payload(&wqe) else { panic!("inline") };
            assert_eq!([head, tail].concat(), bytes);
        }
    }

    #[test]
    fn a_full_queue_and_inline_reads_are_refused() {
        let mut queue = queue();
        let read = SendOp::Read { va: 0, rkey: uroce_memory::Rkey(1) };
        let error = queue.push(&SendWr { op: read, ..wr(SendData::Inline(&[&[1]])) });
        assert_eq!(error, Err(PostError::InlineNotAllowed));
        for _ in 0..3 {
            queue.push(&wr(SendData::Sges(&[]))).unwrap();
        }
        assert_eq!(queue.push(&wr(SendData::Sges(&[]))), Err(PostError::QueueFull { capacity: 3 }));
    }
}
