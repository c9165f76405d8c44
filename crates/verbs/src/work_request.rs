//! Work requests.

use std::ops::RangeBounds;

pub use uroce_device::transport::RecvWr;
use uroce_device::transport::{self, SendData, SendFlags, SendOp, UdDestination};
use uroce_device::wire::Qpn;
use uroce_memory::{Access, Rkey, Sge};

use crate::address_handle::AddressHandle;
use crate::error::PostReason;
use crate::memory_region::MemoryRegion;
use crate::memory_window::MemoryWindow;
use crate::protection_domain::ProtectionDomain;
use crate::range::start_and_length;
use crate::remote::RemoteSlice;

/// A send work request (`ibv_send_wr`), to be posted with
/// [`QueuePair::post_send`](crate::QueuePair::post_send).
///
/// One of [`send`](Self::send), [`write`](Self::write), [`read`](Self::read) and so on makes the work request; the
/// methods that take `self` add options:
///
/// ```no_run
/// # use uroce_verbs::*;
/// # fn f(qp: &QueuePair, mr: &MemoryRegion, remote: RemoteSlice) -> Result<(), PostError> {
/// qp.post_send(&[
///     SendWr::write(1, &[mr.sge(..4096)], remote),
///     SendWr::send(2, &[]).inline(b"done").solicited().signaled(),
/// ])
/// # }
/// ```
///
/// Without [`signaled`](Self::signaled) success raises no completion; failure always does.
#[derive(Debug, Clone, Copy)]
#[must_use = "a work request does nothing until it is posted"]
pub struct SendWr<'a> {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    sges: &'a [Sge],
    inline: Option<&'a [u8]>,
    ud: Option<UdDestination>,
    srqn: Option<u32>,
    /// Domain of the address handle or window.
    pd: Option<&'a ProtectionDomain>,
    /// A contradiction in the request itself.
    fault: Option<PostReason>,
}

impl<'a> SendWr<'a> {
    fn new(wr_id: u64, op: SendOp, sges: &'a [Sge]) -> Self {
        let flags = SendFlags::empty();
        SendWr { wr_id, op, flags, sges, inline: None, ud: None, srqn: None, pd: None, fault: None }
    }

    /// SEND: the message goes into a receive work request that the peer has posted.
    pub fn send(wr_id: u64, sges: &'a [Sge]) -> Self {
        Self::new(wr_id, SendOp::Send, sges)
    }

    /// RDMA WRITE: the bytes go to the beginning of `remote`, whose region needs [`Access::REMOTE_WRITE`]. The length is
    /// that of `sges`, at most 2^31 bytes.
    pub fn write(wr_id: u64, sges: &'a [Sge], remote: RemoteSlice) -> Self {
        Self::new(wr_id, SendOp::Write { va: remote.addr, rkey: remote.rkey }, sges)
    }

    /// RDMA READ: fills `sges`, whose region needs [`Access::LOCAL_WRITE`], from the beginning of `remote`, whose region
    /// needs [`Access::REMOTE_READ`].
    pub fn read(wr_id: u64, sges: &'a [Sge], remote: RemoteSlice) -> Self {
        Self::new(wr_id, SendOp::Read { va: remote.addr, rkey: remote.rkey }, sges)
    }

    /// Adds `add` to the 8 bytes at `remote`, modulo 2^64. The value before goes to `sges`, which
    /// must have 8 bytes; both are in host order. The region of `remote` needs [`Access::REMOTE_ATOMIC`].
    pub fn fetch_add(wr_id: u64, sges: &'a [Sge], remote: RemoteSlice, add: u64) -> Self {
        Self::new(wr_id, SendOp::FetchAdd { va: remote.addr, rkey: remote.rkey, add }, sges)
    }

    /// Replaces the 8 bytes at `remote` by `swap` if they equal `compare`. The value before goes to
    /// `sges`, which must have 8 bytes; all are in host order. The region of `remote` needs [`Access::REMOTE_ATOMIC`].
    pub fn compare_swap(
        wr_id: u64,
        sges: &'a [Sge],
        remote: RemoteSlice,
        compare: u64,
        swap: u64,
    ) -> Self {
        let op = SendOp::CompareSwap { va: remote.addr, rkey: remote.rkey, compare, swap };
        Self::new(wr_id, op, sges)
    }

    /// Writes exactly 8 bytes that a reader sees whole or not at all (IBTA Annex 19, oA19-28).
    pub fn atomic_write(wr_id: u64, sges: &'a [Sge], remote: RemoteSlice) -> Self {
        Self::new(wr_id, SendOp::AtomicWrite { va: remote.addr, rkey: remote.rkey }, sges)
    }

    /// FLUSH (Annex 19): earlier writes to `remote` are visible to all at the peer
    /// ([`Access::FLUSH_GLOBAL`]), or persistent ([`Access::FLUSH_PERSISTENT`]), or both, when this
    /// completes. Other bits of `placement` are ignored. A peer that is uroce has no persistent memory and
    /// refuses the second.
    pub fn flush(wr_id: u64, remote: RemoteSlice, placement: Access) -> Self {
        let length = crate::range::wire_length(remote.len);
        Self::new(wr_id, flush_op(remote, length, placement, 0), &[])
    }

    /// FLUSH of the whole region that the key of `remote` belongs to.
    pub fn flush_region(wr_id: u64, remote: RemoteSlice, placement: Access) -> Self {
        Self::new(wr_id, flush_op(remote, 0, placement, 1), &[])
    }

    /// Binds a window to `range` of a region, with `access` rights. A type 2 window gets
    /// [`MemoryWindow::next_rkey`], read at this moment; [`with_rkey`](Self::with_rkey) asks for
    /// another.
    pub fn bind_mw(
        wr_id: u64,
        mw: &'a MemoryWindow,
        mr: &'a MemoryRegion,
        range: impl RangeBounds<usize>,
        access: Access,
    ) -> Self {
        let (start, length) = start_and_length(range, mr.len());
        let op = SendOp::BindMw {
            mw: mw.id(),
            new_rkey: mw.next_rkey(),
            mr: mr.lkey(),
            va: mr.addr().wrapping_add(start),
            length,
            access,
        };
        let fault = (!mw.pd().is(mr.pd())).then_some(PostReason::ForeignRegion);
        SendWr { pd: Some(mw.pd()), fault, ..Self::new(wr_id, op, &[]) }
    }

    /// Invalidates the key of a type 2 window of this side, once all earlier requests have completed.
    pub fn local_invalidate(wr_id: u64, rkey: Rkey) -> Self {
        Self::new(wr_id, SendOp::LocalInvalidate(rkey), &[])
    }

    /// Adds 32 bits of immediate data to a SEND or a WRITE. The peer finds the same number in
    /// [`WorkCompletion::imm`](crate::WorkCompletion::imm); it travels big endian, so a C program at the other end takes
    /// `ntohl` of `imm_data`. A WRITE with immediate data uses up a receive work request of the peer, which may have no
    /// buffer, and completes it.
    pub fn imm(mut self, imm: u32) -> Self {
        match self.op {
            SendOp::Send | SendOp::SendWithImm(_) => self.op = SendOp::SendWithImm(imm),
            SendOp::Write { va, rkey } | SendOp::WriteWithImm { va, rkey, .. } => {
                self.op = SendOp::WriteWithImm { va, rkey, imm };
            }
            _ => self.fault = Some(PostReason::ImmNotAllowed),
        }
        self
    }

    /// Turns a SEND into a SEND with invalidate: its arrival invalidates the key `rkey` of the peer (R41).
    pub fn invalidate(mut self, rkey: Rkey) -> Self {
        match self.op {
            SendOp::Send | SendOp::SendWithInvalidate(_) => {
                self.op = SendOp::SendWithInvalidate(rkey);
            }
            _ => self.fault = Some(PostReason::InvalidateNotAllowed),
        }
        self
    }

    /// The key that a bind of a type 2 window asks for; its upper 24 bits must be the window's.
    pub fn with_rkey(mut self, rkey: Rkey) -> Self {
        match &mut self.op {
            SendOp::BindMw { new_rkey, .. } => *new_rkey = rkey,
            _ => self.fault = Some(PostReason::RkeyNotAllowed),
        }
        self
    }

    /// Raises a completion on success too, not only on failure.
    pub fn signaled(mut self) -> Self {
        self.flags |= SendFlags::SIGNALED;
        self
    }

    /// Holds this request back until all earlier READ and atomic requests of the queue pair have completed (R80).
    pub fn fence(mut self) -> Self {
        self.flags |= SendFlags::FENCE;
        self
    }

    /// Wakes a peer that armed its completion queue for solicited completions, [`Notify::Solicited`](crate::Notify)
    /// (R42).
    pub fn solicited(mut self) -> Self {
        self.flags |= SendFlags::SOLICITED;
        self
    }

    /// Sends `bytes` instead of registered memory; give an empty list of SGEs. They are copied when the request is
    /// posted, and may be no more than [`max_inline`](crate::QueuePairBuilder::max_inline).
    pub fn inline(mut self, bytes: &'a [u8]) -> Self {
        self.inline = Some(bytes);
        self.flags |= SendFlags::INLINE;
        self
    }

    /// Destination of a UD message. For a multicast group, `qpn` is [`Qpn::MULTICAST`].
    pub fn to(mut self, ah: &'a AddressHandle, qpn: Qpn, qkey: u32) -> Self {
        self.ud = Some(UdDestination { av: *ah.path(), qpn, qkey });
        self.pd = Some(ah.pd());
        self
    }

    /// The shared receive queue of the peer that a message of XRC is for: its
    /// [`number`](crate::SharedReceiveQueue::number).
    pub fn to_srq(mut self, number: u32) -> Self {
        self.srqn = Some(number);
        self
    }

    /// The number that comes back in [`WorkCompletion::wr_id`](crate::WorkCompletion::wr_id).
    pub fn wr_id(&self) -> u64 {
        self.wr_id
    }
}

fn flush_op(remote: RemoteSlice, length: u32, placement: Access, selectivity: u8) -> SendOp {
    let global = u8::from(placement.contains(Access::FLUSH_GLOBAL));
    let persistent = u8::from(placement.contains(Access::FLUSH_PERSISTENT)) << 1;
    let placement = global | persistent;
    SendOp::Flush { va: remote.addr, rkey: remote.rkey, length, placement, selectivity }
}

/// Why the request makes no sense on a queue pair of `pd`.
pub(crate) fn fault(wr: &SendWr<'_>, pd: &ProtectionDomain) -> Option<PostReason> {
    if wr.fault.is_some() {
        return wr.fault;
    }
    if wr.pd.is_some_and(|foreign| !foreign.is(pd)) {
        return Some(PostReason::ForeignObject);
    }
    (wr.inline.is_some() && !wr.sges.is_empty()).then_some(PostReason::InlineAndSges)
}

/// The request as the device takes it, if it has no [`fault`].
#[inline]
pub(crate) fn lowered<'b>(wr: &'b SendWr<'_>) -> transport::SendWr<'b> {
    let data = match &wr.inline {
        Some(bytes) => SendData::Inline(std::slice::from_ref(bytes)),
        None => SendData::Sges(wr.sges),
    };
    let SendWr { wr_id, op, flags, ud, srqn, .. } = *wr;
    transport::SendWr { wr_id, op, flags, data, ud, srqn }
}
