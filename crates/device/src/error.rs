//! Why a call failed: what happened, whose fault it was, what to do. Each error has the `errno` that
//! the same call of libibverbs would return.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use thiserror::Error;
use uroce_cm::CmError;
use uroce_datapath::{AttachError, PcapError};
use uroce_host::BindError;
use uroce_memory::PdId;
use uroce_packet::PacketError;
use uroce_transport::{CqId, CreateQpError, ModifyQpError, SrqError, SrqId, XrcdId};
use uroce_udp::UringError;
use uroce_wire::{Mtu, Qpn};
use uroce_xdp::XdpError;

use crate::limits::MAX_ENGINES;

fn raw(errno: Errno) -> i32 {
    errno.raw_os_error()
}

fn io_errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(raw(Errno::IO))
}

/// Why `address` is none that a device can have.
fn not_local(address: IpAddr) -> String {
    let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if link_local {
        return format!(
            "{address} is a link-local address, and a GID cannot name the link that it is of: \
             use another address of the interface, such as one of fd00::/8"
        );
    }
    match std::fs::File::open("/proc/self/net/if_inet6") {
        Err(error) if error.raw_os_error() == Some(raw(Errno::MFILE)) => {
            "the network interfaces of this machine cannot be seen, since the process has as many open files as it \
             may: raise the limit with `ulimit -n`"
                .to_owned()
        }
        _ => format!(
            "no network interface of this machine has the address {address}: \
             pick one that `uroce devices` shows, or any 127.x.y.z"
        ),
    }
}

/// Why a device could not be opened.
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A device has exactly one address.
    #[error("{0} is not the address of one host: give the address of a network interface")]
    NotUnicast(IpAddr),
    /// No interface has the address.
    #[error("{}", not_local(*.0))]
    NotLocal(IpAddr),
    /// IBTA's smallest path MTU does not fit.
    #[error(
        "the MTU of {netdev} is {mtu} bytes, but RoCE needs at least 336: \
         raise it with `ip link set {netdev} mtu 1500`"
    )]
    LinkTooSmall {
        /// The interface.
        netdev: String,
        /// Its MTU.
        mtu: usize,
    },
    /// Faults on a switch in the process whose packets carry no ICRC: damage would not be noticed.
    #[error(
        "faults need packets with an ICRC: make the switch in the process with `LoopbackFabric::new()`"
    )]
    FaultsWithoutIcrc,
    /// The UDP sockets could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The io_uring or its sockets could not be opened.
    #[error(transparent)]
    Uring(#[from] UringError),
    /// The AF_PACKET sockets could not be opened.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// AF_XDP did not work.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// The in-process switch refused the address.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The capture file could not be written.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// The process ran out of descriptors or threads.
    #[error(
        "the system gave no {what}: {source} (raise the limits with `ulimit -n` and `ulimit -u`)"
    )]
    Resources {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// More engines than a device may have.
    #[error("{0} engines are too many for one device: ask for 1 to {MAX_ENGINES}")]
    TooManyEngines(u8),
    /// Engines find each other by the port.
    #[error("several engines need a port that is known before they are opened: give one, not 0")]
    EnginesWithoutPort,
    /// The switch in the process has one endpoint for an address.
    #[error(
        "the datapath {0} copies_in_bulk the packets of one engine only: \
         use `udp`, `uring`, `packet` or `xdp` for several, or open the device with one"
    )]
    OneEngineOnly(&'static str),
    /// No randomness, no unpredictable keys.
    #[error("the system gave no random numbers: {0} (is getrandom(2) blocked by a sandbox?)")]
    Random(getrandom::Error),
}

impl OpenError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        match self {
            OpenError::NotUnicast(_) => raw(Errno::INVAL),
            OpenError::NotLocal(_) => raw(Errno::ADDRNOTAVAIL),
            OpenError::LinkTooSmall { .. } => raw(Errno::MSGSIZE),
            OpenError::TooManyEngines(_)
            | OpenError::EnginesWithoutPort
            | OpenError::FaultsWithoutIcrc => raw(Errno::INVAL),
            OpenError::OneEngineOnly(_) => raw(Errno::OPNOTSUPP),
            OpenError::Bind(_) | OpenError::Attach(_) => raw(Errno::ADDRINUSE),
            OpenError::Packet(PacketError::NotPermitted) => raw(Errno::PERM),
            OpenError::Packet(PacketError::NotEthernet(_)) => raw(Errno::OPNOTSUPP),
            OpenError::Packet(_) => raw(Errno::ADDRINUSE),
            OpenError::Uring(error) => error.raw_os_error().unwrap_or(raw(Errno::ADDRINUSE)),
            OpenError::Xdp(error) => error.errno(),
            OpenError::Pcap(_) | OpenError::Random(_) => raw(Errno::IO),
            OpenError::Resources { source, .. } => io_errno(source),
        }
    }
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

/// Why an object could not be made, or not be resized.
#[derive(Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The device has as many as it allows (A29).
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
    /// There is no such engine.
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
    /// Objects that work together are in one engine.
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
    /// Objects of XRC and others do not go together.
    #[error("{0}")]
    Xrc(&'static str),
    /// No descriptor for the eventfd.
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
    /// The transport refused.
    #[error(transparent)]
    Qp(#[from] ModifyQpError),
    /// The transport refused.
    #[error(transparent)]
    Srq(#[from] SrqError),
    /// Packets of this size would not pass the link.
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
    /// The address vector names a source that is not this device.
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

/// Why a connection was not asked for, answered or ended.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The connection manager refused.
    #[error(transparent)]
    Cm(#[from] CmError),
    /// The queue pair refused.
    #[error(transparent)]
    Qp(#[from] ModifyError),
    /// The ends of an extended reliable connection are not alike (X6).
    #[error(
        "of XRC the XRC_INI queue pair calls and the XRC_TGT queue pair accepts, not otherwise"
    )]
    WrongEnd,
    /// A UD queue pair has no connection.
    #[error("a UD queue pair has no peer: resolve the service instead, and send to what it names")]
    Datagram,
}

impl ConnectionError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        match self {
            ConnectionError::Cm(CmError::PortTaken(_)) => raw(Errno::ADDRINUSE),
            ConnectionError::Cm(CmError::TooMany { .. }) => raw(Errno::NOMEM),
            ConnectionError::Cm(_) | ConnectionError::WrongEnd | ConnectionError::Datagram => {
                raw(Errno::INVAL)
            }
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

/// Why a multicast attach or detach failed.
#[derive(Error)]
#[non_exhaustive]
pub enum McastError {
    /// No such QP.
    #[error(transparent)]
    NoSuchObject(#[from] NoSuchObject),
    /// Only UD QPs can receive multicast.
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
    /// It was not attached.
    #[error("the queue pair is not attached to {0}")]
    NotAttached(IpAddr),
    /// The kernel refused to join the group.
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
    ModifyError,
    ConnectionError,
    McastError
);
