//! Why a command was refused.

use std::net::IpAddr;

use thiserror::Error;

use crate::{CommId, ServiceId, TooLong};

/// Why a command was refused. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CmError {
    /// The connection ended and its TIMEWAIT is over, or it never was.
    #[error("there is no connection {0} any more: it ended, or it was released")]
    NoSuchConnection(CommId),
    /// Out of turn.
    #[error("connection {id} is in {state}, where this makes no sense: {need}")]
    WrongState {
        /// The connection.
        id: CommId,
        /// Its state.
        state: &'static str,
        /// What to wait for.
        need: &'static str,
    },
    /// Two listeners on one port.
    #[error(
        "{0} is taken by another listener on this address: choose another port, or end that one"
    )]
    PortTaken(ServiceId),
    /// No name or descriptor for it.
    #[error(
        "the system does not let {0} be found by the processes on this address: raise the limit of \
         descriptors with `ulimit -n`"
    )]
    Unfindable(ServiceId),
    /// Nothing is there.
    #[error("nobody listens on {0} here")]
    NotListening(ServiceId),
    /// More connections than the device allows.
    #[error("this device has {limit} connections already: release some, or raise max_connections")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// One end is IPv4, the other IPv6.
    #[error(
        "{remote} and this device ({local}) are of different IP versions: \
         open the device on an address of the peer's version"
    )]
    OtherFamily {
        /// The peer.
        remote: IpAddr,
        /// The device.
        local: IpAddr,
    },
    /// Private data.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}
