//! A software RDMA NIC inside the application's process.
//!
//! ```text
//!   application threads                      progress thread (optional)
//!   post_* / poll_cq / ...                   sleeps in poll(2), spins after traffic
//!            \                                  /
//!             +------- a lock: an Engine ------+       (one of DeviceConfig::engines)
//!                            |
//!        receive -> checks -> QueuePair -> transmit      (sans-IO: uroce-transport)
//!                            |
//!                        Datapath                        (UDP sockets, in-process switch)
//! ```
//!
//! [`Device::open`] binds one address. With several engines each is as above, with its own socket:
//! two of them share nothing on the data path (docs/adr/016-engines.md). A poll of a CQ drives the
//! engine in the same call: no hand-off between threads on the fast path. A progress thread answers
//! peers while the application does not poll. Without one ([`DeviceConfig::progress_thread`] =
//! false) everything happens inside calls, which is what deterministic tests want.
//!
//! Received packets are checked in the order of docs/wire.md, cheap checks before expensive ones; a
//! packet that fails is counted under its drop reason and never answered. Handles are plain numbers
//! without lifetimes; `uroce-verbs` puts safe types around them.
#![forbid(unsafe_code)]

mod affinity;
mod async_events;
mod clock;
mod cm_channel;
mod comp_channel;
mod config;
mod counters;
mod datapath_choice;
mod device;
mod driver;
mod engine;
mod engines;
mod error;
mod event_channel;
mod event_list;
mod eventfd;
mod faults;
#[doc(hidden)]
pub mod fuzzing;
mod gid;
mod gsi_redirect;
mod interface;
mod inventory;
pub mod limits;
mod local;
mod port;
mod port_watch;
mod processor;
mod report;
mod resource;
mod spin_budget;
mod yield_backoff;

pub use async_events::AsyncEvents;
pub use clock::VirtualClock;
pub use cm_channel::{CmChannel, CmEvent, CmEventKind};
pub use comp_channel::{CompChannel, CqEvent};
pub use config::{DeviceConfig, ROCE_PORT};
pub use counters::hw_counter_names;
pub use datapath_choice::{DatapathChoice, UnknownDatapath};
pub use device::{
    ConnectionManager, CqAttr, Device, DeviceMemory, XrcDomains, datapath_for_service,
};
pub use engine::QpRequest;
pub use error::{
    ConnectionError, CounterError, CreateError, DestroyError, McastError, ModifyError,
    NoSuchObject, OpenError,
};
pub use event_channel::{EventChannel, EventOwner, OwnedEvent};
pub use faults::{FaultError, Faults};
pub use gsi_redirect::gsi_redirect;
pub use interface::{Interface, interface_of, interfaces, interfaces_hidden};
pub use limits::DeviceLimits;
pub use port::{DeviceAttr, PortAttr, PortState};
pub use report::{DeviceReport, Silent, SilentReason, device_reports};
pub use resource::{BadResource, Resource, ResourceKind};
/// The types of connection management, as they appear in this crate's signatures.
pub use uroce_cm as cm;
/// The datapath's types, as they appear in this crate's signatures.
pub use uroce_datapath as datapath;
/// The types of fault rules, as they appear in this crate's signatures.
pub use uroce_fault as fault;
/// The host's types, as they appear in this crate's signatures.
pub use uroce_host as host;
/// The memory crate's types, as they appear in this crate's signatures.
pub use uroce_memory as memory;
/// The AF_PACKET datapath's types, as they appear in this crate's signatures.
pub use uroce_packet as packet;
/// The transport's types, as they appear in this crate's signatures.
pub use uroce_transport as transport;
/// The UDP datapath's types, as they appear in this crate's signatures.
pub use uroce_udp as udp;
/// The wire types, as they appear in this crate's signatures.
pub use uroce_wire as wire;
pub use uroce_xdp::XdpMode;
