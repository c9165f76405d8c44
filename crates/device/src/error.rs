//! Why a call failed: what happened, whose fault it was, what to do. Each error has the `errno` that
//! the same call of libibverbs would return.

mod open;

use std::io;
use std::net::IpAddr;

pub use open::OpenError;
use rustix::io::Errno;
use thiserror::Error;
use uroce_cm::CmError;
use uroce_cm::message::TransportService;
use uroce_memory::PdId;
use uroce_transport::{
    AttachCounterError, CqId, CreateQpError, ModifyQpError, SrqError, SrqId, XrcdId,
};
use uroce_wire::{Mtu, Qpn};

fn raw(errno: Errno) -> i32 {
    errno.raw_os_error()
}

fn io_errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(raw(Errno::IO))
}

/// An object that does not exist, or no longer.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("this device has no {what} {id:#x}: it was destroyed, or belongs to another device")]
pub struct NoSuchObject {
    /// Kind of object: `QP`, `CQ`, `SRQ`, `PD`, `XRC domain`.
    pub what: &'static str,
    /// The number that was given.
    pub id: u64,
}

impl NoSuchObject {
    pub(crate) fn qp(qpn: Qpn) -> Self {
        NoSuchObject { what: "QP", id: u64::from(qpn.get()) }
    }

    pub(crate) fn cq(cq: CqId) -> Self {
        NoSuchObject { what: "CQ", id: u64::from(cq.0) }
    }

    pub(crate) fn srq(srq: SrqId) -> Self {
        NoSuchObject { what: "SRQ", id: u64::from(srq.0) }
    }

    pub(crate) fn pd(pd: PdId) -> Self {
        NoSuchObject { what: "PD", id: pd.get() }
    }

    pub(crate) fn xrcd(xrcd: XrcdId) -> Self {
        NoSuchObject { what: "XRC domain", id: u64::from(xrcd.0) }
    }

    /// The `errno` for the C interface: EINVAL, as for a stale handle in the kernel.
    pub fn errno(&self) -> i32 {
        raw(Errno::INVAL)
    }
}

/// Why an object could not be made, or not be resized: a mistake of the calling program, or a limit. Nothing has
/// changed. The text (`Display`, and `Debug`) says what to do.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The device has as many objects of this kind as it allows (A29): destroy some, or raise its limit in
    /// [`DeviceLimits`](crate::DeviceLimits).
    #[error("the device has {limit} {what} and allows no more: destroy some, or raise its limit")]
    LimitReached {
        /// Kind of object, plural.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A size is out of range.
    #[error("{what} = {asked}, but this device allows 1 to {limit}")]
    BadSize {
        /// The attribute.
        what: &'static str,
        /// What was asked for.
        asked: u32,
        /// The largest value.
        limit: u32,
    },
    /// A parent object does not exist.
    #[error(transparent)]
    NoSuchObject(#[from] NoSuchObject),
    /// More entries wait than the new size holds; the old size stays (B42).
    #[error("{waiting} completions wait, more than {asked}: poll them before shrinking the CQ")]
    StillFull {
        /// Completions that wait.
        waiting: usize,
        /// The size asked for.
        asked: u32,
    },
    /// The transport refused the queue pair.
    #[error(transparent)]
    Qp(#[from] CreateQpError),
    /// The transport refused the shared receive queue.
    #[error(transparent)]
    Srq(#[from] SrqError),
    /// No QPN was found; the QPN space is nearly full.
    #[error("no free QPN found: destroy queue pairs that are not used")]
    NoQpn,
    /// The device has fewer completion vectors than this one's number: it has one for each engine, counted from 0.
    #[error(
        "completion vector {asked}: this device has {engines}, counted from 0, as many as engines; \
         choose a smaller one"
    )]
    CompVector {
        /// What was asked for.
        asked: u32,
        /// How many there are.
        engines: usize,
    },
    /// Objects that are to work together are in different engines of the device: make them for one completion vector.
    #[error(
        "{what} is in engine {engine} of the device and {with} in engine {home}: make both for one \
         completion vector (an SRQ of C and an XRC domain are always for 0), or open the device with one \
         engine"
    )]
    OtherEngine {
        /// One of them.
        what: &'static str,
        /// Its engine.
        engine: u8,
        /// The other one.
        with: &'static str,
        /// Its engine.
        home: u8,
    },
    /// Objects of XRC and others do not go together; the text says which.
    #[error("{0}")]
    Xrc(&'static str),
    /// The process has no file descriptor left for the events: raise the limit with `ulimit -n`.
    #[error("no file descriptor: {0} (raise the limit with `ulimit -n`)")]
    Descriptor(#[from] io::Error),
}

impl CreateError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        match self {
            CreateError::LimitReached { .. } | CreateError::NoQpn => raw(Errno::NOMEM),
            CreateError::BadSize { .. }
            | CreateError::CompVector { .. }
            | CreateError::OtherEngine { .. }
            | CreateError::StillFull { .. }
            | CreateError::Xrc(_)
            | CreateError::Qp(_)
            | CreateError::Srq(_) => raw(Errno::INVAL),
            CreateError::NoSuchObject(error) => error.errno(),
            CreateError::Descriptor(error) => io_errno(error),
        }
    }
}

/// Why an object could not be destroyed. It still exists and works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DestroyError {
    /// Other objects use it (R93).
    #[error("the {what} is still used by {users}: destroy those first")]
    Busy {
        /// Kind of object.
        what: &'static str,
        /// Kind of the objects that use it.
        users: &'static str,
    },
    /// It does not exist.
    #[error(transparent)]
    NoSuchObject(#[from] NoSuchObject),
}

impl DestroyError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        match self {
            DestroyError::Busy { .. } => raw(Errno::BUSY),
            DestroyError::NoSuchObject(error) => error.errno(),
        }
    }
}

/// Why a queue pair or shared receive queue was not modified. Nothing changed (R92).
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModifyError {
    /// No such object.
    #[error(transparent)]
    NoSuchObject(#[from] NoSuchObject),
    /// The attributes do not suit the queue pair or its state.
    #[error(transparent)]
    Qp(#[from] ModifyQpError),
    /// The attributes do not suit the shared receive queue.
    #[error(transparent)]
    Srq(#[from] SrqError),
    /// Packets of this path MTU would not pass the link: take the active MTU on both sides, or raise the MTU of the
    /// network interface.
    #[error(
        "path MTU {asked} does not fit the link, whose active MTU is {active}: \
         use {active} on both sides, or raise the MTU of the interface"
    )]
    MtuTooLarge {
        /// What was asked for, in bytes.
        asked: usize,
        /// The largest that fits, in bytes.
        active: usize,
    },
    /// The address vector names a source that is not this device: use GID index 0.
    #[error("the address vector starts at {asked}, but this device is {local}: use GID index 0")]
    ForeignSource {
        /// The source given.
        asked: IpAddr,
        /// The device's address.
        local: IpAddr,
    },
    /// One end is IPv4, the other IPv6.
    #[error(
        "the peer {remote} and this device ({local}) are of different IP versions: \
             open the device on an address of the peer's version"
    )]
    OtherFamily {
        /// The peer.
        remote: IpAddr,
        /// The device's address.
        local: IpAddr,
    },
    /// More than the device allows.
    #[error("{what} = {asked}, but this device allows at most {limit}")]
    TooLarge {
        /// The attribute.
        what: &'static str,
        /// What was asked for.
        asked: u32,
        /// The limit.
        limit: u32,
    },
}

/// Why a connection was not requested, accepted, rejected or ended: a mistake of the calling program, or a limit.
/// Nothing was sent.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The connection manager refused.
    #[error(transparent)]
    Cm(#[from] CmError),
    /// The queue pair cannot take part: it is in another state, or gone.
    #[error(transparent)]
    Qp(#[from] ModifyError),
    /// An XRC queue pair on the wrong side (X6): an `XRC_INI` queue pair connects, an `XRC_TGT` one accepts.
    #[error(
        "of XRC the XRC_INI queue pair calls and the XRC_TGT queue pair accepts, not otherwise"
    )]
    WrongEnd,
    /// The queue pair is of another transport than the REQ asks for (`ConnectionRequest::transport`): accept with one of that
    /// transport, or reject.
    #[error(
        "the caller's queue pair is {wanted} and this one is {got}: accept with one of the caller's transport, or reject"
    )]
    OtherTransport {
        /// That of the caller's queue pair.
        wanted: TransportService,
        /// That of the queue pair to accept with.
        got: TransportService,
    },
    /// The queue pair calls already: release that call first.
    #[error("the queue pair calls a peer already: release that call first")]
    Calling,
    /// A UD queue pair has no connection: resolve the service instead, and send to the queue pair that it names.
    #[error("a UD queue pair has no peer: resolve the service instead, and send to what it names")]
    Datagram,
}

impl ConnectionError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        match self {
            ConnectionError::Cm(CmError::PortTaken(_)) => raw(Errno::ADDRINUSE),
            ConnectionError::Cm(CmError::TooMany { .. }) => raw(Errno::NOMEM),
            ConnectionError::Cm(_)
            | ConnectionError::WrongEnd
            | ConnectionError::OtherTransport { .. }
            | ConnectionError::Calling
            | ConnectionError::Datagram => raw(Errno::INVAL),
            ConnectionError::Qp(error) => error.errno(),
        }
    }
}

impl ModifyError {
    pub(crate) fn mtu(asked: Mtu, active: Mtu) -> Self {
        ModifyError::MtuTooLarge { asked: asked.bytes(), active: active.bytes() }
    }

    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        raw(Errno::INVAL)
    }
}

/// Why a completion counter was not attached to a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CounterError {
    /// No such queue pair.
    #[error(transparent)]
    NoSuchObject(#[from] NoSuchObject),
    /// The queue pair or its other counters do not allow it.
    #[error(transparent)]
    Attach(#[from] AttachCounterError),
}

impl CounterError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        raw(match self {
            CounterError::Attach(AttachCounterError::Overlap) => Errno::BUSY,
            _ => Errno::INVAL,
        })
    }
}

/// Why a multicast attach or detach failed.
#[derive(Error)]
#[non_exhaustive]
pub enum McastError {
    /// No such queue pair.
    #[error(transparent)]
    NoSuchObject(#[from] NoSuchObject),
    /// The queue pair is not UD: no other kind receives multicast.
    #[error("only a UD queue pair can be attached to a multicast group")]
    NotUd,
    /// The address is no group, or of the other IP version.
    #[error(
        "{0} is no multicast group that this device can join: \
             use a multicast address of the device's IP version"
    )]
    NotAGroup(IpAddr),
    /// As many groups, or as many queue pairs in one group, as allowed.
    #[error("the limit of {limit} {what} is reached: detach some first")]
    LimitReached {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The queue pair was not attached to the group.
    #[error("the queue pair is not attached to {0}")]
    NotAttached(IpAddr),
    /// The kernel refused to join the group: the interface may lack a multicast route, or the limit of groups is
    /// reached (`net.ipv4.igmp_max_memberships`).
    #[error("the kernel refused the group: {0} (is there a multicast route on the interface?)")]
    Join(#[from] io::Error),
}

impl McastError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        match self {
            McastError::NoSuchObject(error) => error.errno(),
            McastError::NotUd | McastError::NotAGroup(_) | McastError::NotAttached(_) => {
                raw(Errno::INVAL)
            }
            McastError::LimitReached { .. } => raw(Errno::NOMEM),
            McastError::Join(error) => io_errno(error),
        }
    }
}

uroce_memory::debug_is_display!(
    OpenError,
    NoSuchObject,
    CreateError,
    CounterError,
    ModifyError,
    ConnectionError,
    McastError
);
