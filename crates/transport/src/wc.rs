//! Work completions.

use std::fmt;
use std::net::IpAddr;

use bitflags::bitflags;
use thiserror::Error;

use crate::cause::Cause;
use crate::wc_status::WcStatus;

/// What completed, with the values of `ibv_wc_opcode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WcOpcode {
    /// SEND, with or without immediate or invalidate.
    #[default]
    Send = 0,
    /// RDMA WRITE, with or without immediate.
    RdmaWrite = 1,
    /// RDMA READ.
    RdmaRead = 2,
    /// Compare and swap.
    CompSwap = 3,
    /// Fetch and add.
    FetchAdd = 4,
    /// Memory window bound.
    BindMw = 5,
    /// Local key invalidated.
    LocalInv = 6,
    /// FLUSH.
    Flush = 8,
    /// ATOMIC WRITE.
    AtomicWrite = 9,
    /// A SEND was received.
    Recv = 128,
    /// A WRITE with immediate was received.
    RecvRdmaWithImm = 129,
}

impl WcOpcode {
    /// True for completions of receive work requests.
    pub fn is_recv(self) -> bool {
        (self as u32) & 128 != 0
    }
}

bitflags! {
    /// Flags of a completion, with the values of `ibv_wc_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of the buffer are the GRH area of a datagram: UD only.
        const GRH = 1;
        /// `imm` is valid.
        const WITH_IMM = 2;
        /// `invalidated` is valid.
        const WITH_INV = 8;
    }
}

/// A work completion (`ibv_wc`). [`is_ok`](Wc::is_ok) tells success from failure, [`result`](Wc::result) turns a
/// failure into an error whose text explains it.
///
/// `C` is the type of [`cause`](Wc::cause): programs see [`Cause`], and nothing while the completion waits in its
/// queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wc<C = Cause> {
    /// The `wr_id` that the program gave the work request.
    pub wr_id: u64,
    /// Outcome.
    pub status: WcStatus,
    /// What completed; means nothing unless `status` is success.
    pub opcode: WcOpcode,
    /// A number for the cause (see [`Cause::code`]).
    pub vendor_err: u32,
    /// Bytes received, or read by a READ or atomic. UD counts the 40 bytes of the GRH area.
    pub byte_len: u32,
    /// Immediate data, as the number that the sender gave (it travels big endian).
    pub imm: Option<u32>,
    /// Key that the peer's SEND with invalidate named.
    pub invalidated: Option<u32>,
    /// When the completion came to its queue, in nanoseconds of the device's clock.
    pub timestamp: u64,
    /// Number of the queue pair, on this side, that the work request was posted to.
    pub qpn: u32,
    /// Number of the sender's queue pair, if a receive has completed.
    pub src_qpn: u32,
    /// Which of the fields above are valid.
    pub flags: WcFlags,
    /// Address of the sender, if a receive has completed.
    pub src_ip: Option<IpAddr>,
    /// Why the work request failed; [`Cause::None`] on success.
    pub cause: C,
}

impl<C> Wc<C> {
    /// True if the work request succeeded.
    pub fn is_ok(&self) -> bool {
        self.status == WcStatus::Success
    }

    /// The same with this cause.
    #[inline]
    pub(crate) fn with_cause<D>(&self, cause: D) -> Wc<D> {
        Wc {
            wr_id: self.wr_id,
            status: self.status,
            opcode: self.opcode,
            vendor_err: self.vendor_err,
            byte_len: self.byte_len,
            imm: self.imm,
            invalidated: self.invalidated,
            timestamp: self.timestamp,
            qpn: self.qpn,
            src_qpn: self.src_qpn,
            flags: self.flags,
            src_ip: self.src_ip,
            cause,
        }
    }
}

/// Fills `out` with copies of what it is shown, from the front on; what does not fit is passed over.
#[inline]
pub fn into_slots(out: &mut [Wc]) -> impl FnMut(&Wc) {
    let mut slots = out.iter_mut();
    move |wc| {
        if let Some(slot) = slots.next() {
            *slot = *wc;
        }
    }
}

impl Wc {
    /// The completion itself on success; otherwise an error whose text explains it.
    ///
    /// # Errors
    /// [`WorkError`] for any status but success.
    #[expect(clippy::result_large_err, reason = "both variants are the completion itself")]
    pub fn result(self) -> Result<Wc, WorkError> {
        if self.is_ok() { Ok(self) } else { Err(WorkError(self)) }
    }
}

/// A work request that failed. The text names the status, the queue pair and the cause: which side is at fault, and
/// what to look at.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub struct WorkError(
    /// The completion, whose `status` and `cause` a program can match on.
    pub Wc,
);

uroce_memory::debug_is_display!(WorkError);

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wc { wr_id, status, qpn, cause, .. } = self.0;
        write!(f, "{status} ({}), QP {qpn:#08x}, wr_id {wr_id}", status.name())?;
        match cause {
            Cause::None => Ok(()),
            cause => write!(f, ": {cause}"),
        }
    }
}

impl fmt::Display for Wc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QP {:#08x} wr_id {}: {}", self.qpn, self.wr_id, self.status)?;
        match self.cause {
            Cause::None => Ok(()),
            cause => write!(f, ": {cause}"),
        }
    }
}
