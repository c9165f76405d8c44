//! Why a call of a `CmId` failed.

use thiserror::Error;
use uroce_device::ConnectionError;
use uroce_device::cm::{CmError, PortSpace};

use crate::error::ForeignObject;

/// Why a call of a [`CmId`](crate::CmId) failed: a mistake of the calling program, or a limit. Nothing was sent, and the
/// id is as it was. What the peer or the network does wrong comes as an event instead.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CmIdError {
    /// The device refused: the queue pair is in another state, say.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The connection manager refused: the port is taken, say.
    #[error(transparent)]
    Cm(#[from] CmError),
    /// The queue pair belongs to another [`Context`](crate::Context) than the event channel of the id.
    #[error(transparent)]
    Foreign(#[from] ForeignObject),
    /// The id has no peer yet: call [`resolve_addr`](crate::CmId::resolve_addr) before.
    #[error("this id has no peer yet: call resolve_addr() before")]
    NotResolved,
    /// The id listens or has a connection already: create another id for the next one.
    #[error("this id listens or has a connection already: make another one for the next")]
    InUse,
    /// The id has neither a connection nor a request.
    #[error("this id has no connection: it was neither called nor has it called")]
    NotConnected,
    /// A connection in the port space of datagrams, or a datagram service in one of connections.
    #[error("this does not exist in port space {space:?}: {instead}")]
    WrongSpace {
        /// Port space of the id.
        space: PortSpace,
        /// The call that fits this port space.
        instead: &'static str,
    },
    /// All ports of the port space are taken on this device: drop some ids.
    #[error("no free port was found: end some listeners of this device")]
    NoPort,
}

uroce_memory::debug_is_display!(CmIdError);
