//! Work requests as they are posted.

use bitflags::bitflags;
use thiserror::Error;
use uroce_memory::{Access, Lkey, MwId, Rkey, Sge};
use uroce_wire::Qpn;

use crate::attr::AddressVector;

bitflags! {
    /// Flags of a send work request, with the values of `ibv_send_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SendFlags: u32 {
        /// Wait until all earlier READ and atomic requests completed (R80).
        const FENCE = 1;
        /// Report a completion also on success.
        const SIGNALED = 2;
        /// Set the solicited-event bit on the last packet (R42).
        const SOLICITED = 4;
        /// The payload was copied when the request was posted.
        const INLINE = 8;
    }
}

/// Where the bytes of a work request are.
#[derive(Debug, Clone, Copy)]
pub enum SendData<'a> {
    /// Registered memory, read when the packets are made.
    Sges(&'a [Sge]),
    /// Bytes that are copied now; the caller may reuse them as soon as the post returns.
    Inline(&'a [&'a [u8]]),
}

impl Default for SendData<'_> {
    fn default() -> Self {
        SendData::Sges(&[])
    }
}

/// What a send work request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendWithImm(u32),
    /// SEND that invalidates a remote key on arrival (R41).
    SendWithInvalidate(Rkey),
    /// RDMA WRITE to `va` under `rkey`.
    Write {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: Rkey,
    },
    /// RDMA WRITE that also consumes a receive work request at the peer.
    WriteWithImm {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: Rkey,
        /// Immediate data.
        imm: u32,
    },
    /// RDMA READ from `va` under `rkey` into the scatter list.
    Read {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: Rkey,
    },
    /// 8-byte compare and swap.
    CompareSwap {
        /// Remote address, 8-byte aligned (R33).
        va: u64,
        /// Remote key.
        rkey: Rkey,
        /// The word is replaced if it equals this.
        compare: u64,
        /// The replacement.
        swap: u64,
    },
    /// 8-byte fetch and add.
    FetchAdd {
        /// Remote address, 8-byte aligned (R33).
        va: u64,
        /// Remote key.
        rkey: Rkey,
        /// What is added, modulo 2^64.
        add: u64,
    },
    /// Write of exactly 8 bytes that a reader sees whole or not at all (IBTA Annex 19, oA19-28).
    AtomicWrite {
        /// Remote address, 8-byte aligned.
        va: u64,
        /// Remote key.
        rkey: Rkey,
    },
    /// FLUSH of earlier writes (Annex 19).
    Flush {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: Rkey,
        /// Length of the range.
        length: u32,
        /// 1 global visibility, 2 persistence, 3 both.
        placement: u8,
        /// 0 the range, 1 the whole region.
        selectivity: u8,
    },
    /// Invalidates a local key once all earlier requests completed.
    LocalInvalidate(Rkey),
    /// Binds a memory window (type 1 through the verbs call, type 2B by posting).
    BindMw {
        /// The window.
        mw: MwId,
        /// The key the window shall have; for type 2B its low 8 bits are the caller's.
        new_rkey: Rkey,
        /// The region under the window.
        mr: Lkey,
        /// Start of the window.
        va: u64,
        /// Length of the window; 0 unbinds.
        length: u64,
        /// Rights of the window.
        access: Access,
    },
}

/// Destination of a UD message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdDestination {
    /// The address handle's contents.
    pub av: AddressVector,
    /// Destination queue pair.
    pub qpn: Qpn,
    /// Q_Key; with bit 31 set the QP's own is sent (R7).
    pub qkey: u32,
}

/// A send work request.
#[derive(Debug, Clone, Copy)]
pub struct SendWr<'a> {
    /// The caller's cookie, returned in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Flags.
    pub flags: SendFlags,
    /// Payload, or where the response goes.
    pub data: SendData<'a>,
    /// Destination, for UD.
    pub ud: Option<UdDestination>,
    /// Number of the peer's shared receive queue, for XRC (X2).
    pub srqn: Option<u32>,
}

/// A receive work request.
#[derive(Debug, Clone, Copy)]
pub struct RecvWr<'a> {
    /// The caller's cookie, returned in the completion.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: &'a [Sge],
}

impl<'a> RecvWr<'a> {
    /// A receive into `sges`, filled in order.
    pub fn new(wr_id: u64, sges: &'a [Sge]) -> Self {
        RecvWr { wr_id, sges }
    }
}

/// Why a work request was not accepted. Nothing was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostError {
    /// R86.
    #[error("the QP is in {}: {need}", state.name())]
    WrongState {
        /// State of the QP.
        state: crate::qp_state::QpState,
        /// What the caller has to do first.
        need: &'static str,
    },
    /// The queue holds its maximum.
    #[error("the queue is full ({capacity} work requests): poll completions before posting more")]
    QueueFull {
        /// Capacity in work requests.
        capacity: u32,
    },
    /// More scatter/gather entries than the QP was created for.
    #[error("{count} scatter/gather entries, but the QP was created for {max}")]
    TooManySges {
        /// Entries in the request.
        count: usize,
        /// The QP's maximum.
        max: u32,
    },
    /// More inline bytes than the QP was created for (B34).
    #[error("{length} inline bytes, but the QP was created for {max}")]
    InlineTooLong {
        /// Bytes in the request.
        length: usize,
        /// The QP's maximum.
        max: u32,
    },
    /// The operation cannot take inline data.
    #[error("this operation has no payload that could be inline")]
    InlineNotAllowed,
    /// The sum of the entries exceeds 2^31.
    #[error("a message of {length} bytes is longer than 2^31")]
    MessageTooLong {
        /// Sum of the entries.
        length: u64,
    },
    /// A UD work request names no destination.
    #[error("a UD work request needs an address handle, a QPN and a Q_Key")]
    MissingDestination,
    /// An XRC work request names no shared receive queue of the peer.
    #[error("an XRC work request needs the number of the peer's shared receive queue")]
    MissingSrq,
    /// The QP has an SRQ.
    #[error("this QP takes its receives from an SRQ: post them there")]
    HasSrq,
    /// The QP is one end of an extended reliable connection.
    #[error("an XRC QP has no receive queue: post receives to an XRC SRQ of its domain")]
    NoReceiveQueue,
    /// The QP is the target of an extended reliable connection.
    #[error("an XRC_TGT QP only responds: post sends to an XRC_INI QP")]
    OnlyResponds,
    /// No such object.
    #[error("no such queue: it was destroyed")]
    NoSuchQueue,
}

impl PostError {
    /// The `errno` that rdma-core's providers return for this error.
    pub fn errno(&self) -> i32 {
        const ENOENT: i32 = 2;
        const ENOMEM: i32 = 12;
        const EINVAL: i32 = 22;
        match self {
            PostError::QueueFull { .. } => ENOMEM,
            PostError::NoSuchQueue => ENOENT,
            PostError::WrongState { .. }
            | PostError::TooManySges { .. }
            | PostError::InlineTooLong { .. }
            | PostError::InlineNotAllowed
            | PostError::MessageTooLong { .. }
            | PostError::MissingDestination
            | PostError::MissingSrq
            | PostError::NoReceiveQueue
            | PostError::OnlyResponds
            | PostError::HasSrq => EINVAL,
        }
    }
}
