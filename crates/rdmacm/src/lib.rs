//! librdmacm: connections by address and port, on the connection manager of the device.
//!
//! What needs a kernel (connections over AF_IB) answers EOPNOTSUPP: every name of librdmacm is here,
//! for none of them may reach the system's library, which knows nothing of our ids.

mod addrinfo;
pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod contexts;
mod ending;
pub(crate) mod endpoint;
pub(crate) mod event;
pub(crate) mod id;
pub(crate) mod migrate;
mod multicast;
mod options;
mod ports;
mod qp_values;
pub(crate) mod queue_pair;
mod registry;
pub(crate) mod resolve;
mod shared_receive;
pub(crate) mod sockaddr;
mod unsupported;

pub(crate) use uroce_verbs_abi as abi;

#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod tests;
