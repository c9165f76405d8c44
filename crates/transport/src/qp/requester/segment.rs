//! The part of a work request that one packet carries.

use uroce_wire::{Operation, Position, Psn};

use super::send_queue::SendWqe;
use crate::wr::SendOp;

/// The part of a work request that one packet carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) length: usize,
    first: bool,
    last: bool,
    whole: bool,
    split: bool,
}

impl Segment {
    /// What the packet `psn` carries; of a request that has no PSNs yet, what the first one will.
    pub(crate) fn of(wqe: &SendWqe, psn: Psn, mtu: u64) -> Segment {
        let index = if wqe.numbered { psn.since(wqe.first_psn).max(0) } else { 0 };
        let offset = index as u64 * mtu;
        let left = wqe.length.saturating_sub(offset);
        let whole = !carries_payload(&wqe.op);
        Segment {
            offset,
            length: left.min(mtu) as usize,
            first: offset == 0,
            last: left <= mtu,
            whole,
            split: wqe.split,
        }
    }

    pub(crate) fn starts(&self) -> bool {
        self.first || self.whole
    }

    pub(crate) fn ends(&self) -> bool {
        self.last || self.whole
    }

    pub(crate) fn position(&self, operation: Operation) -> Position {
        let divisible = matches!(operation, Operation::Send | Operation::Write);
        match (self.starts(), self.ends()) {
            _ if !divisible || self.split => Position::Only,
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, false) => Position::Middle,
            (false, true) => Position::Last,
        }
    }
}

pub(crate) fn carries_payload(op: &SendOp) -> bool {
    !op.is_read() && !op.is_atomic() && !matches!(op, SendOp::Flush { .. })
}

/// Only these consume a receive at the peer, so only they can be solicited.
pub(crate) fn takes_receive(op: &SendOp) -> bool {
    takes_receive_only(op) || matches!(op, SendOp::WriteWithImm { .. })
}

pub(crate) fn takes_receive_only(op: &SendOp) -> bool {
    matches!(op, SendOp::Send | SendOp::SendWithImm(_) | SendOp::SendWithInvalidate(_))
}
