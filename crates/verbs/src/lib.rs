//! RDMA verbs for Rust, on a software NIC that runs inside the process.
//!
//! The nouns are those of libibverbs. A device needs no hardware, no kernel module and no privilege: it is opened on
//! an address of the machine ([`device_list`]), any of 127.0.0.0/8 included, and sends RoCEv2 packets from UDP port
//! 4791. Each object keeps alive what it depends on and goes away when it is dropped, in whatever order a program
//! drops things:
//!
//! ```text
//! device_list() -> Context -> ProtectionDomain -> MemoryRegion, MemoryWindow, AddressHandle
//!                     |              |
//!                     |              +-> SharedReceiveQueue, QueuePair
//!                     |                        ^
//!                     +-> XrcDomain -----------+
//!                     +-> CompChannel -> CompletionQueue -----^
//!                     |
//!                     +-> EventChannel -> CmId
//! ```
//!
//! # A complete program
//!
//! Two devices on an in-process switch; one writes into the memory of the other.
//!
//! ```
//! use std::{error::Error, net::IpAddr, time::Duration};
//! use uroce_verbs::*;
//!
//! fn open(fabric: &LoopbackFabric, ip: &str) -> Result<(MemoryRegion, CompletionQueue, QueuePair), Box<dyn Error>> {
//!     let context = Context::builder().address(ip.parse::<IpAddr>()?).loopback(fabric).open()?;
//!     let pd = context.alloc_pd()?;
//!     let mr = pd.alloc_mr(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//!     let cq = context.create_cq(16)?;
//!     let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
//!     Ok((mr, cq, qp)) // the context and the domain live on in these
//! }
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     let fabric = LoopbackFabric::new();
//!     let (here, cq, qp) = open(&fabric, "10.0.0.1")?;
//!     let (there, _cq, peer) = open(&fabric, "10.0.0.2")?;
//!     qp.connect(&peer.endpoint(), &ConnectOptions::default())?;
//!     peer.connect(&qp.endpoint(), &ConnectOptions::default())?;
//!
//!     here.write(0, b"hello")?;
//!     qp.post_send(&[SendWr::write(1, &[here.sge(..5)], there.remote()).signaled()])?;
//!     cq.wait_one(Duration::from_secs(5))?.result()?;
//!
//!     let mut seen = [0; 5];
//!     there.read(0, &mut seen)?;
//!     assert_eq!(&seen, b"hello");
//!     Ok(())
//! }
//! ```
//!
//! Over a network the two halves are two programs, [`Context::builder`] gets the address of a
//! network interface, and the [`Endpoint`]s and [`RemoteSlice`]s travel over any other channel, such as a TCP
//! connection: both have a text form and a binary form. `cargo run --example two_processes` runs such a program.
//! Or one program listens on a port and the other connects to its address and that port, as with rdma_cm, and either
//! may be a program that uses librdmacm: see [`EventChannel`].
//!
//! # Memory that a peer can change
//!
//! A `&[u8]` promises that the bytes do not change. A peer with an rkey keeps no such promise, so
//! no call of this crate makes a slice of registered memory: [`MemoryRegion`] copies in and out, and
//! offers atomic access to 8-byte words. Nor is any buffer borrowed by a work request: what a work
//! request may touch is looked up, under its key, at the moment a packet is made or arrives. A
//! region that was deregistered is simply no longer found, and the request fails with an
//! explanation. Memory that the library did not allocate (a mapped file, the heap of C) is registered through the one unsafe
//! function [`Region::from_raw`].
//!
//! # When something fails
//!
//! The text of every error says what happened, whose fault it was and what to do; `Debug` prints the same text as
//! `Display`, so a `main` that returns the error shows it. That holds for failed completions too:
//! [`WorkCompletion::result`] gives an error whose text explains the status, such as "transport retry counter
//! exceeded: peer 10.0.0.2 answered nothing ..."; see [`WorkError`] for an example.
//!
//! A letter and a number in parentheses, such as (R76) or (B36), name a rule in docs/conformance.md, with the section
//! of the InfiniBand specification and the tests of it.
//!
//! # Progress
//!
//! A call that posts or polls drives the NIC. Between such calls, a progress thread
//! answers peers; [`ContextBuilder::progress_thread`] turns it off for programs that poll all the time.
//! All objects are `Send` and `Sync`.
//!
//! No call waits for a completion or for a peer except those that take a `timeout`: [`CompletionQueue::wait`] and
//! [`wait_one`](CompletionQueue::wait_one) poll until the time is over, `next_event` of [`CompChannel`] and
//! [`EventChannel`] and [`Context::next_async_event`] sleep.
//!
//! # Features
//!
//! `serde`: `Serialize` and `Deserialize` for [`Endpoint`] and [`RemoteSlice`]. Not a default.
#![forbid(unsafe_code)]

mod address_handle;
mod cm;
mod comp_channel;
mod completion_queue;
mod connection;
mod context;
mod context_builder;
mod device_list;
mod endpoint;
mod error;
mod memory_region;
mod memory_window;
mod protection_domain;
mod queue_pair;
mod queue_pair_builder;
mod range;
mod remote;
#[cfg(feature = "serde")]
mod serde_forms;
mod shared_receive_queue;
mod wait;
mod work_completion;
mod work_request;
mod xrc_domain;

pub use address_handle::{AddressHandle, AddressHandleAttr};
pub use cm::{CmEvent, CmId, CmIdError, ConnParam, EventChannel, RDMA_UDP_QKEY};
pub use comp_channel::CompChannel;
pub use completion_queue::CompletionQueue;
pub use connection::ConnectOptions;
pub use context::Context;
pub use context_builder::{ContextBuilder, Recording};
pub use device_list::{DeviceInfo, device_list};
pub use endpoint::Endpoint;
pub use error::{
    AddressHandleError, AllocMrError, BadText, ConnectError, CreateQueuePairError,
    CreateXrcSrqError, ForeignObject, PostError, PostReason,
};
pub use memory_region::MemoryRegion;
pub use memory_window::MemoryWindow;
pub use protection_domain::ProtectionDomain;
pub use queue_pair::QueuePair;
pub use queue_pair_builder::QueuePairBuilder;
pub use remote::RemoteSlice;
pub use shared_receive_queue::SharedReceiveQueue;
pub use uroce_device::cm::message::TransportService;
pub use uroce_device::cm::{
    Ari, CmError, CommId, ConnectionRequest, IpCm, PortSpace, RejReason, ServiceId, SidrStatus,
    TooLong,
};
pub use uroce_device::datapath::{
    Caps, FaultCounters, LoopbackFabric, PcapError, PcapFile, RuleCount,
};
pub use uroce_device::fault::{Plan as FaultPlan, RuleError};
pub use uroce_device::transport::{
    AddressVector, AsyncEvent, Cause, CqId, FlushReason, ModifyQpError, Notify, QpAttr, QpAttrMask,
    QpCaps, QpInit, QpState, QpType, SendFlags, SrqAttr, SrqError, SrqId, WcFlags, WcOpcode,
    WcStatus, XrcdId,
};
pub use uroce_device::wire::{BadGid, DropReason, GRH_AREA_LEN, Gid, Mtu, NakCode, Psn, Qpn};
pub use uroce_device::{
    CmEventKind, ConnectionError, CqEvent, CreateError, DatapathChoice, DeviceAttr, DeviceLimits,
    FaultError, Faults, McastError, ModifyError, NoSuchObject, OpenError, PortAttr, PortState,
    ROCE_PORT, UnknownDatapath, XdpMode,
};
pub use uroce_memory::{
    Access, AccessError, AllocError, AllocMwError, AtomicError, DeregError, Lkey, MrId, MwId,
    MwType, OutOfRange, PdError, RegMrError, Region, ReregError, Rkey, Sge,
};
pub use work_completion::{WaitError, WorkCompletion, WorkError};
pub use work_request::{RecvWr, SendWr};
pub use xrc_domain::XrcDomain;
