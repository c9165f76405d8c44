//! Requests of a simulated application, and what must come of them.

use uroce_device::memory::Rkey;
use uroce_device::transport::{Wc, WcOpcode, WcStatus};

use crate::arena::{MAX_MESSAGE, Pieces, SlotId};

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
    /// ATOMIC WRITE of 8 bytes to a slot of the peer.
    AtomicWrite { target: SlotId },
    /// FLUSH of a part of the peer's source.
    Flush { offset: u32 },
    /// Bind of one of our windows.
    Bind { window: usize },
    /// Bind of one of our windows of type 1 to no bytes.
    Unbind { window: usize },
    /// Invalidation of one of our windows.
    Invalidate { window: usize },
    /// SEND that invalidates a window of the peer.
    SendInvalidate { window: usize },
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
            Work::AtomicWrite { .. } => "ATOMIC_WRITE",
            Work::Flush { .. } => "FLUSH",
            Work::Bind { .. } => "bind of a window",
            Work::Unbind { .. } => "bind of a window to no bytes",
            Work::Invalidate { .. } => "invalidation of a window",
            Work::SendInvalidate { .. } => "SEND with invalidate",
        }
    }

    /// True if the peer consumes a receive for it.
    pub(crate) fn needs_receive(&self) -> bool {
        matches!(
            self,
            Work::Send { .. } | Work::SendInvalidate { .. } | Work::Write { imm: Some(_), .. }
        )
    }

    /// The opcode of its completion.
    pub(crate) fn completion(&self) -> WcOpcode {
        match self {
            Work::Send { .. } | Work::SendInvalidate { .. } => WcOpcode::Send,
            Work::Write { .. } => WcOpcode::RdmaWrite,
            Work::Read { .. } => WcOpcode::RdmaRead,
            Work::FetchAdd { .. } => WcOpcode::FetchAdd,
            Work::CompareSwap { .. } => WcOpcode::CompSwap,
            Work::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            Work::Flush { .. } => WcOpcode::Flush,
            Work::Bind { .. } | Work::Unbind { .. } => WcOpcode::BindMw,
            Work::Invalidate { .. } => WcOpcode::LocalInv,
        }
    }

    /// True if it sends bytes of our source.
    pub(crate) fn carries(&self) -> bool {
        use Work::{AtomicWrite, Send, SendInvalidate, Write};
        matches!(self, Send { .. } | SendInvalidate { .. } | Write { .. } | AtomicWrite { .. })
    }

    /// True if it is done without a packet.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Work::Bind { .. } | Work::Unbind { .. } | Work::Invalidate { .. })
    }

    /// True if it needs no remote key.
    pub(crate) fn is_keyless(&self) -> bool {
        self.is_local() || matches!(self, Work::Send { .. } | Work::SendInvalidate { .. })
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
    /// It binds a window to a region that does not exist.
    Region,
    /// The peer's region is deregistered while it is on its way.
    Withdrawn,
}

impl Mistake {
    /// All of them.
    pub(crate) const ALL: [Mistake; 5] =
        [Mistake::Key, Mistake::Range, Mistake::LocalKey, Mistake::Region, Mistake::Withdrawn];

    /// The status it ends with.
    pub(crate) fn status(self) -> WcStatus {
        match self {
            Mistake::Key | Mistake::Range | Mistake::Withdrawn => WcStatus::RemAccessErr,
            Mistake::Region => WcStatus::MwBindErr,
            Mistake::LocalKey => WcStatus::LocProtErr,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mistake::Key => "a remote key that does not exist",
            Mistake::Range => "a range beyond the peer's region",
            Mistake::LocalKey => "a local key that does not exist",
            Mistake::Region => "a window over a region that does not exist",
            Mistake::Withdrawn => "a region that is deregistered meanwhile",
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
    /// The remote key, if it is not that of the peer's arena.
    pub(crate) key: Option<Rkey>,
    /// The peer's window that it goes through.
    pub(crate) window: Option<usize>,
    pub(crate) posted_ns: u64,
}

/// A posted receive work request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PostedReceive {
    pub(crate) wr_id: u64,
    pub(crate) slot: SlotId,
    pub(crate) mistake: Option<ReceiveMistake>,
}

impl PostedReceive {
    /// True if a receive with its mistake can complete so.
    pub(crate) fn may_take(&self, wc: &Wc) -> bool {
        // The data of a WRITE with immediate does not go into the receive.
        wc.opcode == WcOpcode::RecvRdmaWithImm || (wc.byte_len as usize) <= self.room()
    }

    /// Bytes that may be written to its slot.
    pub(crate) fn room(&self) -> usize {
        match self.mistake {
            None => MAX_MESSAGE,
            Some(ReceiveMistake::Short) => SHORT as usize,
            Some(ReceiveMistake::LocalKey) => 0,
        }
    }
}

/// Room of a receive that is too short for most messages, in bytes.
pub(crate) const SHORT: u32 = 50;

/// What is wrong with a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiveMistake {
    /// It has room for a few bytes.
    Short,
    /// Its local key does not exist.
    LocalKey,
}

impl ReceiveMistake {
    /// The status it may end with.
    pub(crate) fn status(self) -> WcStatus {
        match self {
            ReceiveMistake::Short => WcStatus::LocLenErr,
            ReceiveMistake::LocalKey => WcStatus::LocProtErr,
        }
    }

    /// The status of the request that meets it.
    pub(crate) fn remote_status(self) -> WcStatus {
        match self {
            ReceiveMistake::Short => WcStatus::RemInvReqErr,
            ReceiveMistake::LocalKey => WcStatus::RemOpErr,
        }
    }
}

/// A message that an end has sent and its peer has to receive.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Number among the messages of its sender; it is the immediate data, too.
    pub(crate) number: u32,
    pub(crate) pieces: Pieces,
    pub(crate) length: usize,
    pub(crate) imm: Option<u32>,
    /// The key that it invalidates.
    pub(crate) invalidates: Option<Rkey>,
    /// It is a WRITE: the payload is not in the receive buffer.
    pub(crate) is_write: bool,
}
