//! Completion counters: how many operations of one or several queue pairs completed, without a completion for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bitflags::bitflags;
use thiserror::Error;
use uroce_wire::{MORE_PARTS, Packet};

use crate::qp_state::QpState;
use crate::wr::SendOp;

/// What a [`CompletionCounter`] adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CounterUnit {
    /// Work requests; of operations of the peer, messages, but a WRITE that a peer of ours has split is one.
    #[default]
    WorkRequests,
    /// Bytes of payload. Of a WRITE that a peer of ours has split, and that is refused in its middle, those of the parts before that
    /// count: they were written.
    Bytes,
}

/// Two numbers that queue pairs add to while operations complete. They wrap around at 2^64.
#[derive(Debug, Default)]
pub struct CompletionCounter {
    unit: CounterUnit,
    /// Operations that succeeded, or their bytes.
    pub completed: AtomicU64,
    /// Operations that failed, those that were flushed included; never bytes.
    pub failed: AtomicU64,
}

impl CompletionCounter {
    /// One that stands at 0.
    pub fn new(unit: CounterUnit) -> Self {
        CompletionCounter { unit, ..CompletionCounter::default() }
    }

    /// A part of an operation that goes on has completed.
    fn note_part(&self, bytes: u64) {
        if self.unit == CounterUnit::Bytes {
            self.note(true, bytes);
        }
    }

    fn note(&self, completed: bool, bytes: u64) {
        // Released, so that who reads the number also sees the bytes that it stands for.
        match (completed, self.unit) {
            (true, CounterUnit::WorkRequests) => self.completed.fetch_add(1, Ordering::Release),
            (true, CounterUnit::Bytes) => self.completed.fetch_add(bytes, Ordering::Release),
            (false, _) => self.failed.fetch_add(1, Ordering::Release),
        };
    }
}

bitflags! {
    /// Operations whose completions a counter counts, with the values of `ibv_qp_attach_comp_cntr_op`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct CountedOps: u32 {
        /// SENDs of this queue pair.
        const SEND = 1 << 0;
        /// Receives, also those that a WRITE with immediate took.
        const RECV = 1 << 1;
        /// READs of this queue pair.
        const READ = 1 << 2;
        /// READs of the peer. A peer may divide a long READ into several.
        const REMOTE_READ = 1 << 3;
        /// WRITEs of this queue pair.
        const WRITE = 1 << 4;
        /// WRITEs of the peer, those with immediate included.
        const REMOTE_WRITE = 1 << 5;
    }
}

impl CountedOps {
    /// Which of them a send work request is; none for atomics, flushes and local operations.
    pub(crate) fn of_send(op: &SendOp) -> Self {
        match op {
            SendOp::Send | SendOp::SendWithImm(_) | SendOp::SendWithInvalidate(_) => Self::SEND,
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => Self::WRITE,
            SendOp::Read { .. } => Self::READ,
            _ => Self::empty(),
        }
    }
}

/// Why a counter was not attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttachCounterError {
    /// Operations may be on their way already.
    #[error("a counter is attached in RESET or INIT, not in {}", .0.name())]
    WrongState(QpState),
    /// It would count nothing.
    #[error("no operation was named")]
    NoOperation,
    /// An operation has one counter at most.
    #[error("another counter of this queue pair counts some of these operations")]
    Overlap,
}

/// The counters of a queue pair. Most have none.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttachedCounters(Vec<(CountedOps, Arc<CompletionCounter>)>);

impl AttachedCounters {
    pub(crate) fn attach(
        &mut self,
        ops: CountedOps,
        counter: &Arc<CompletionCounter>,
    ) -> Result<(), AttachCounterError> {
        if ops.is_empty() {
            return Err(AttachCounterError::NoOperation);
        }
        if self.0.iter().any(|(counted, _)| counted.intersects(ops)) {
            return Err(AttachCounterError::Overlap);
        }
        self.0.push((ops, Arc::clone(counter)));
        Ok(())
    }

    /// Nothing is counted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An operation of this kind has come to its end.
    #[inline]
    pub(crate) fn note(&self, op: CountedOps, completed: bool, bytes: u64) {
        if !self.0.is_empty() {
            self.note_attached(op, completed, bytes);
        }
    }

    /// A WRITE of the peer has been executed, which is `bytes` long. It is the end of a work request if it does not say that
    /// there are [more parts](MORE_PARTS).
    #[inline]
    pub(crate) fn note_write(&self, packet: &Packet<'_>, bytes: u64) {
        if packet.bth.reserved7 & MORE_PARTS == 0 {
            self.note(CountedOps::REMOTE_WRITE, true, bytes);
        } else {
            self.that_count(CountedOps::REMOTE_WRITE).for_each(|counter| counter.note_part(bytes));
        }
    }

    #[cold]
    fn note_attached(&self, op: CountedOps, completed: bool, bytes: u64) {
        self.that_count(op).for_each(|counter| counter.note(completed, bytes));
    }

    fn that_count(&self, op: CountedOps) -> impl Iterator<Item = &CompletionCounter> {
        self.0
            .iter()
            .filter(move |(counted, _)| counted.intersects(op))
            .map(|(_, counter)| &**counter)
    }
}
