//! Why a call failed, where the device did not say it already.

use std::net::IpAddr;

use thiserror::Error;
use uroce_device::{CreateError, ModifyError, transport};
use uroce_memory::{AllocError, RegMrError};

/// Text or bytes, usually from a peer, that are not the form of the object that was to be read; the error's text shows
/// both what came and what was expected.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("{found:?} is not {expected}")]
pub struct BadText {
    expected: &'static str,
    found: String,
}

impl BadText {
    /// Text of a peer is shown, but not more of it than fits a line.
    pub(crate) fn new(expected: &'static str, found: &str) -> Self {
        BadText { expected, found: found.chars().take(100).collect() }
    }
}

/// Objects of two devices in one call: make both from one [`Context`](crate::Context).
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("the {what} belongs to another context: make it from the context of the protection domain")]
pub struct ForeignObject {
    /// Kind of the object that belongs to the other device.
    pub what: &'static str,
}

/// Why [`alloc_mr`](crate::ProtectionDomain::alloc_mr) made no region.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocMrError {
    /// The allocator has no memory of this size.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// The memory could not be registered: mostly access rights that do not go together.
    #[error(transparent)]
    Register(#[from] RegMrError),
}

/// Why a queue pair was not made.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateQueuePairError {
    /// The device refused: a size is out of range, or the device has its limit of queue pairs.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A completion queue or shared receive queue of another device.
    #[error(transparent)]
    Foreign(#[from] ForeignObject),
    /// The operating system gave no random number for the first PSN.
    #[error("the system gave no random numbers: {0} (is getrandom(2) blocked by a sandbox?)")]
    Random(#[from] getrandom::Error),
}

/// Why an XRC shared receive queue was not made.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateXrcSrqError {
    /// The device refused: a size is out of range, or the device has its limit of shared receive queues.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// An XRC domain or a completion queue of another device.
    #[error(transparent)]
    Foreign(#[from] ForeignObject),
}

/// Why there can be no path to an address.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressHandleError {
    /// The GID table of this device has no such entry: use 0 or 1.
    #[error("this device has no GID with index {index}: use 0 or 1")]
    NoSuchGid {
        /// The index given.
        index: u8,
    },
    /// The GID of the peer is zero: the peer did not tell its address.
    #[error("the GID of the peer is zero: it did not tell its address")]
    Unspecified,
    /// One end is IPv4, the other IPv6: open the device on an address of the peer's version.
    #[error(
        "{remote} and this device ({local}) are of different IP versions: \
         open the device on an address of the peer's version"
    )]
    OtherFamily {
        /// The peer.
        remote: IpAddr,
        /// The device's address.
        local: IpAddr,
    },
}

/// Why a queue pair was not connected or activated.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// `connect` of a UD queue pair, which has no peer: use `activate`, and address handles to send.
    #[error("a UD queue pair has no peer: use activate(), and address handles to send")]
    Datagram,
    /// `activate` of a queue pair that is not UD: use `connect`.
    #[error("only a UD queue pair can work without a peer: use connect()")]
    NotDatagram,
    /// There is no path to the peer's GID.
    #[error(transparent)]
    Path(#[from] AddressHandleError),
    /// The queue pair is neither in RESET nor in INIT, or an option is out of range.
    #[error(transparent)]
    Modify(#[from] ModifyError),
}

/// A work request that was not posted. Those before it in the list were, those behind it were not.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("work request {index} of the list was not posted: {reason}")]
pub struct PostError {
    /// Place of the work request in the list, from 0.
    pub index: usize,
    /// What is wrong with the work request.
    pub reason: PostReason,
}

/// What is wrong with a work request that was not posted. Apart from [`Queue`](Self::Queue) it is a mistake in the
/// request itself.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostReason {
    /// The queue does not take the work request: it is full, the queue pair is in a state without posting, or the list
    /// of SGEs or the inline bytes are longer than the queue pair was built for.
    #[error(transparent)]
    Queue(#[from] transport::PostError),
    /// Immediate data with something else than SEND or WRITE, or beside an invalidation.
    #[error("only a SEND or a WRITE has immediate data, and not together with invalidate()")]
    ImmNotAllowed,
    /// An invalidation with something else than SEND, or beside immediate data.
    #[error("only a SEND can invalidate a key of the peer, and not together with imm()")]
    InvalidateNotAllowed,
    /// [`with_rkey`](crate::SendWr::with_rkey) of something else than the binding of a window.
    #[error("only the binding of a window asks for a key")]
    RkeyNotAllowed,
    /// Both inline bytes and registered memory: give an empty list of SGEs with inline bytes.
    #[error("the data is either inline or in registered memory: give an empty list with inline()")]
    InlineAndSges,
    /// The window and the region are of two protection domains.
    #[error("the window and the region are of different protection domains: make both in one")]
    ForeignRegion,
    /// The address handle or window is of another protection domain than the queue pair.
    #[error(
        "the address handle or window belongs to another protection domain: \
         make it in the domain of the queue pair"
    )]
    ForeignObject,
}

impl From<(usize, transport::PostError)> for PostError {
    fn from((index, error): (usize, transport::PostError)) -> Self {
        PostError { index, reason: error.into() }
    }
}

uroce_memory::debug_is_display!(
    BadText,
    ForeignObject,
    AllocMrError,
    CreateQueuePairError,
    CreateXrcSrqError,
    AddressHandleError,
    ConnectError,
    PostError,
    PostReason
);
