//! What was found for a name and a service.

use std::net::SocketAddr;

use libc::c_int;

/// An answer of `rdma_getaddrinfo`, before a program has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResolvedNames {
    pub(crate) flags: c_int,
    /// Port space and type of the queue pair.
    pub(crate) spaces: (c_int, c_int),
    pub(crate) source: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
}
