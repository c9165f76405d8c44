//! One UDP port for the processes of all users.
//!
//! - [`PortService`] holds the port of one or more addresses by a datapath of its own, and gives each client
//!   a slot (the upper 8 bits of its queue pair numbers) and two rings of packets in shared memory;
//! - [`ServedDatapath`] is the datapath of a client;
//! - [`serves`] tells whether a service serves an address, and [`status`] what it has counted.
//!
//! Two clients that send to each other get a link: rings of their own, which the service has no part in.
//!
//! A client trusts the service, which it has chosen by the path of its socket. The service trusts no client:
//! whatever it reads from shared memory and messages is checked, and copied before it is used. No client trusts another
//! one at the end of a link, and does the same.
#![deny(unsafe_code)]

mod client;
mod control;
mod head;
mod message;
mod ring;
mod sent_packet;
mod server;
mod status;
#[allow(unsafe_code, reason = "memory that is shared with another process")]
mod sys;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use uroce_host::environment;

pub use client::{AttachRefused, ServedDatapath, serves, status};
pub use server::{PortService, ServiceOptions};
pub use status::{AddressCounts, AddressStatus, ClientStatus};
pub use sys::activation::inherited_listener;

/// The environment variable with the path of the service's socket.
pub const SOCKET_VARIABLE: &str = "UROCE_SERVE_SOCKET";

/// Where the socket of the service is if the environment does not say.
pub const DEFAULT_SOCKET: &str = "/run/uroce/serve.sock";

/// The path of the service's socket.
#[must_use]
pub fn socket_path() -> PathBuf {
    environment::variable(SOCKET_VARIABLE).map_or_else(|| DEFAULT_SOCKET.into(), PathBuf::from)
}

/// A number for the network namespace of this process; 0 if the system does not show it.
fn network_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/net").map_or(0, |stat| stat.st_ino)
}
