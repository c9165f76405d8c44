//! The functions of librdmacm on the userspace NIC: connections by address and port, on the connection
//! manager of the device.
//!
//! ```text
//!   rdma_create_id, rdma_connect, ...      OwnedId, OwnedQueuePair: the same for Rust
//!                 \                          /
//!                  id: what an rdma_cm_id stands for
//!                 /                          \
//!   channel, translate: events to C        registry, ports: ids of this process
//! ```
//!
//! An object is a C struct with what we keep about it behind it, as in `uroce-ibverbs`, whose contract with C holds
//! here too. What needs a kernel (connections over AF_IB) answers EOPNOTSUPP: every name of librdmacm is here,
//! for none of them may reach the system's library, which knows nothing of our ids.
#![allow(clippy::missing_safety_doc, reason = "the contract with C, in the text of uroce-ibverbs")]

mod addrinfo;
mod bind;
mod channel;
mod conn_param;
mod connection;
mod contexts;
mod create;
mod destroy;
mod ece;
mod ending;
mod endpoint;
mod event;
mod id;
mod listen;
mod migrate;
mod multicast;
mod options;
mod owned_id;
mod owned_qp;
mod path_record;
mod ports;
mod qp_values;
mod queue_pair;
mod registry;
pub mod resolve;
mod resolved_names;
mod set_option;
mod shared_receive;
pub mod sockaddr;
mod translate;
mod wait;
mod wanted;

pub use owned_id::{ConnectionEvent, OwnedId, Request};
pub use owned_qp::{OwnedQueuePair, QueueSizes};
#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod argument_tests;
#[cfg(test)]
mod fork_tests;
#[cfg(test)]
mod tests;
