//! Why a call failed, where the device did not say it already.

use std::net::IpAddr;

use thiserror::Error;
use uroce_device::{CreateError, ModifyError, transport};
use uroce_memory::{AllocError, RegMrError};

/// Text or bytes that are not the form of the object that they are to be.
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

/// An object of another device.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("the {what} belongs to another context: make it from the context of the protection domain")]
pub struct ForeignObject {
    /// Which one.
    pub what: &'static str,
}

/// Why [`alloc_mr`](crate::ProtectionDomain::alloc_mr) made no region.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocMrError {
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// It could not be registered.
    #[error(transparent)]
    Register(#[from] RegMrError),
}

/// Why a queue pair was not made.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateQueuePairError {
    /// The device refused.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A queue of another device.
    #[error(transparent)]
    Foreign(#[from] ForeignObject),
    /// No random PSN to start with.
    #[error("the system gave no random numbers: {0} (is getrandom(2) blocked by a sandbox?)")]
    Random(#[from] getrandom::Error),
}

/// Why an XRC shared receive queue was not made.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateXrcSrqError {
    /// The device refused.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A domain or a queue of another device.
    #[error(transparent)]
    Foreign(#[from] ForeignObject),
}

/// Why there can be no path to an address.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressHandleError {
    /// Our GID table has no such entry.
    #[error("this device has no GID with index {index}: use 0 or 1")]
    NoSuchGid {
        /// The index given.
        index: u8,
    },
    /// The GID is zero.
    #[error("the GID of the peer is zero: it did not tell its address")]
    Unspecified,
    /// One end is IPv4, the other IPv6.
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
    /// `connect` of a UD queue pair.
    #[error("a UD queue pair has no peer: use activate(), and address handles to send")]
    Datagram,
    /// `activate` of an RC or UC queue pair.
    #[error("only a UD queue pair can work without a peer: use connect()")]
    NotDatagram,
    /// There is no path to the peer.
    #[error(transparent)]
    Path(#[from] AddressHandleError),
    /// The device refused.
    #[error(transparent)]
    Modify(#[from] ModifyError),
}

/// A work request that was not accepted. Those before it were.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("work request {index} of the list was not posted: {reason}")]
pub struct PostError {
    /// Its place in the list, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub reason: PostReason,
}

/// What is wrong with a work request.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostReason {
    /// The queue does not take it.
    #[error(transparent)]
    Queue(#[from] transport::PostError),
    /// Immediate data with something else than SEND or WRITE, or beside an invalidation.
    #[error("only a SEND or a WRITE has immediate data, and not together with invalidate()")]
    ImmNotAllowed,
    /// An invalidation with something else than SEND, or beside immediate data.
    #[error("only a SEND can invalidate a key of the peer, and not together with imm()")]
    InvalidateNotAllowed,
    /// A new key for something else than a window.
    #[error("only the binding of a window asks for a key")]
    RkeyNotAllowed,
    /// Both inline bytes and registered memory.
    #[error("the data is either inline or in registered memory: give an empty list with inline()")]
    InlineAndSges,
    /// The window and the region are of two domains.
    #[error("the window and the region are of different protection domains: make both in one")]
    ForeignRegion,
    /// The address handle or window is of another domain than the queue pair.
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
