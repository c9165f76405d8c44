//! Requests of a simulated application, and what must come of them.

use uroce_device::memory::Rkey;
use uroce_device::transport::{SendOp, WcOpcode, WcStatus};

use crate::arena::{Pieces, SlotId};

/// What a request does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// SEND, with immediate data if given.
    Send { imm: Option<u32> },
    /// RDMA WRITE to a slot of the peer.
    Write { target: SlotId, imm: Option<u32> },
    /// RDMA READ of a part of the peer's source into a slot.
    Read { offset: u32, landing: SlotId },
    /// Fetch and add on a word of the peer.
    FetchAdd { word: usize, add: u64, landing: SlotId },
    /// Compare and swap on a word of the peer.
    CompareSwap { word: usize, compare: u64, swap: u64, landing: SlotId },
}

impl Work {
    /// A short name, for coverage and reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Work::Send { imm: None } => "SEND",
            Work::Send { imm: Some(_) } => "SEND with immediate",
            Work::Write { imm: None, .. } => "WRITE",
            Work::Write { imm: Some(_), .. } => "WRITE with immediate",
            Work::Read { .. } => "READ",
            Work::FetchAdd { .. } => "FETCH_ADD",
            Work::CompareSwap { .. } => "COMPARE_SWAP",
        }
    }

    /// True if the peer consumes a receive for it.
    pub(crate) fn needs_receive(&self) -> bool {
        matches!(self, Work::Send { .. } | Work::Write { imm: Some(_), .. })
    }

    /// The opcode of its completion.
    pub(crate) fn completion(&self) -> WcOpcode {
        match self {
            Work::Send { .. } => WcOpcode::Send,
            Work::Write { .. } => WcOpcode::RdmaWrite,
            Work::Read { .. } => WcOpcode::RdmaRead,
            Work::FetchAdd { .. } => WcOpcode::FetchAdd,
            Work::CompareSwap { .. } => WcOpcode::CompSwap,
        }
    }

    /// The verb, with the peer's address and key.
    pub(crate) fn verb(&self, va: u64, rkey: Rkey) -> SendOp {
        match *self {
            Work::Send { imm: None } => SendOp::Send,
            Work::Send { imm: Some(imm) } => SendOp::SendWithImm(imm),
            Work::Write { imm: None, .. } => SendOp::Write { va, rkey },
            Work::Write { imm: Some(imm), .. } => SendOp::WriteWithImm { va, rkey, imm },
            Work::Read { .. } => SendOp::Read { va, rkey },
            Work::FetchAdd { add, .. } => SendOp::FetchAdd { va, rkey, add },
            Work::CompareSwap { compare, swap, .. } => {
                SendOp::CompareSwap { va, rkey, compare, swap }
            }
        }
    }

    /// What a word holds after the operation, if it is an atomic one.
    pub(crate) fn word_after(&self, old: u64) -> u64 {
        match *self {
            Work::FetchAdd { add, .. } => old.wrapping_add(add),
            Work::CompareSwap { compare, swap, .. } if compare == old => swap,
            _ => old,
        }
    }

    /// The word it changes, if it is an atomic operation.
    pub(crate) fn word(&self) -> Option<usize> {
        match *self {
            Work::FetchAdd { word, .. } | Work::CompareSwap { word, .. } => Some(word),
            _ => None,
        }
    }
}

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Its remote key was taken back, or never existed.
    Key,
    /// It reaches over the end of the peer's region.
    Range,
    /// Its local key is not of its protection domain.
    LocalKey,
}

impl Mistake {
    /// The status it ends with.
    pub(crate) fn status(self) -> WcStatus {
        match self {
            Mistake::Key | Mistake::Range => WcStatus::RemAccessErr,
            Mistake::LocalKey => WcStatus::LocProtErr,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mistake::Key => "a remote key that does not exist",
            Mistake::Range => "a range beyond the peer's region",
            Mistake::LocalKey => "a local key that does not exist",
        }
    }
}

/// A posted send work request.
#[derive(Debug, Clone)]
pub(crate) struct Posted {
    pub(crate) wr_id: u64,
    pub(crate) work: Work,
    pub(crate) is_signalled: bool,
    pub(crate) mistake: Option<Mistake>,
    /// Parts of our source that it carries.
    pub(crate) pieces: Pieces,
    pub(crate) length: usize,
    pub(crate) posted_ns: u64,
}

/// A posted receive work request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PostedReceive {
    pub(crate) wr_id: u64,
    pub(crate) slot: SlotId,
}

/// A message that an end has sent and its peer has to receive.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Number among the messages of its sender; it is the immediate data, too.
    pub(crate) number: u32,
    pub(crate) pieces: Pieces,
    pub(crate) length: usize,
    pub(crate) imm: Option<u32>,
    /// It is a WRITE: the payload is not in the receive buffer.
    pub(crate) is_write: bool,
}
