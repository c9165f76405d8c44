//! librdmacm: connections by address and port, on the connection manager of the device.
//!
//! What needs a kernel (connections over AF_IB, rsockets) answers EOPNOTSUPP: every name of librdmacm is here, for none of them may reach the system's library, which
//! knows nothing of our ids.

pub(crate) mod abi;
mod addrinfo;
mod channel;
mod connection;
mod contexts;
mod endpoint;
mod event;
mod id;
mod multicast;
mod qp_values;
mod queue_pair;
mod registry;
mod resolve;
mod sockaddr;
mod unsupported;

#[cfg(test)]
mod tests;
