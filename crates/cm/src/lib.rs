//! RDMA connection management (IBTA volume 1, chapter 12) as the kernel's `rdma_cm` speaks it on
//! RoCEv2: how two ends find each other's queue pair, first PSN and path.
//!
//! Nothing here has a clock, a socket or a thread, and no bytes from the wire can make it panic.
//! [`Mad`] reads and writes the 256 bytes that travel through QP1; the messages in it are plain
//! values with every field of their layout.
#![forbid(unsafe_code)]

mod attribute;
mod comm_id;
mod ip_cm;
mod mad;
pub mod message;
mod private_data;
mod rej_reason;
mod service_id;
mod sidr_status;
mod time_code;

pub use attribute::Attribute;
pub use comm_id::CommId;
pub use ip_cm::{BadIpCm, IpCm};
pub use mad::{GSI_QKEY, MAD_LEN, Mad, MadError};
pub use message::Message;
pub use private_data::{PrivateData, TooLong};
pub use rej_reason::RejReason;
pub use service_id::{PortSpace, ServiceId};
pub use sidr_status::SidrStatus;
pub use time_code::{ack_timeout, response_time};
