//! RDMA connection management (IBTA volume 1, chapter 12) as the kernel's `rdma_cm` speaks it on
//! RoCEv2: how two ends find each other's queue pair, first PSN and path.
//!
//! Nothing here has a clock, a socket or a thread, and no bytes from the wire can make it panic.
//! [`Mad`] reads and writes the 256 bytes that travel through QP1; the messages in it are plain
//! values with every field of their layout. [`AgentRequest`] is a question of network management about the device,
//! which is answered without a state. [`Cm`] is the connection manager of a device:
//!
//! ```text
//!   connect, listen, accept, ...        poll_event
//!              |                            ^
//!         +----v----------------------------+----+
//!         | Cm: admission, table, one state      |   poll_timeout,
//!         |     machine for each connection      |   handle_timeout
//!         +----^----------------------------+----+
//!              |                            v
//!         handle_mad                  poll_transmit        (QP 1)
//! ```
//!
//! The caller of [`Cm`] owns the queue pairs: a [`Link`] has the values to set one up with.
#![forbid(unsafe_code)]

mod addressee;
mod agent;
mod ari;
mod attribute;
mod budget;
mod call;
mod cm;
mod comm_id;
mod connection;
mod ece;
mod error;
mod event;
mod exchange;
mod half_open;
mod id_source;
mod identity;
mod ip_cm;
pub mod limits;
mod link;
mod listener;
mod mad;
pub mod message;
mod mutation;
mod outbox;
mod private_data;
mod proven;
mod rej_reason;
mod reopening;
mod resolution;
mod service_id;
mod sidr_status;
mod table;
mod time;
mod time_code;
mod time_order;

pub use addressee::{Addressee, addressee};
pub use agent::{AgentRequest, PortCounters};
pub use ari::Ari;
pub use attribute::Attribute;
pub use call::{Acceptance, Call};
pub use cm::Cm;
pub use comm_id::CommId;
pub use connection::State;
pub use ece::Ece;
pub use error::CmError;
pub use event::{ConnectionReply, ConnectionRequest, Event};
pub use identity::Identity;
pub use ip_cm::{BadIpCm, IpCm};
pub use limits::CmLimits;
pub use link::Link;
pub use mad::{GSI_QKEY, MAD_LEN, Mad, MadError};
pub use message::Message;
pub use outbox::Outgoing;
pub use private_data::{PrivateData, TooLong};
pub use rej_reason::RejReason;
pub use resolution::{Answer, Question};
pub use service_id::{PortSpace, ServiceId};
pub use sidr_status::SidrStatus;
pub use time::Time;
pub use time_code::{ack_timeout, response_time};
