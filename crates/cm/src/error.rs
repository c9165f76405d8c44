//! Why a command was refused.

use std::net::IpAddr;

use thiserror::Error;

use crate::{CommId, ServiceId, TooLong};

/// Why the connection manager refused a command: a mistake of the calling program, or a limit. Nothing has changed,
/// and nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CmError {
    /// The connection ended and its TIMEWAIT is over, or it never was: make a new one.
    #[error("there is no connection {0} any more: it ended, or it was released")]
    NoSuchConnection(CommId),
    /// The connection is in a state that does not allow the command; `need` says what to wait for.
    #[error("connection {id} is in {state}, where this makes no sense: {need}")]
    WrongState {
        /// The connection.
        id: CommId,
        /// Its state.
        state: &'static str,
        /// What to wait for.
        need: &'static str,
    },
    /// Another listener has the port: choose another port, or drop that listener.
    #[error(
        "{0} is taken by another listener on this address: choose another port, or end that one"
    )]
    PortTaken(ServiceId),
    /// The process has no descriptor left for the name by which other processes on this address find the listener:
    /// raise the limit with `ulimit -n`.
    #[error(
        "the system does not let {0} be found by the processes on this address: raise the limit of \
         descriptors with `ulimit -n`"
    )]
    Unfindable(ServiceId),
    /// No listener of this device has this service, so there is none to end.
    #[error("nobody listens on {0} here")]
    NotListening(ServiceId),
    /// The device has as many connections as it allows: drop some.
    #[error("this device has {limit} connections already: release some, or raise max_connections")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// One end is IPv4, the other IPv6: open the device on an address of the peer's version.
    #[error(
        "{remote} and this device ({local}) are of different IP versions: \
         open the device on an address of the peer's version"
    )]
    OtherFamily {
        /// The peer.
        remote: IpAddr,
        /// The device's address.
        local: IpAddr,
    },
    /// More private data than the message has room for: send less.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}
