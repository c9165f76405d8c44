//! Why a call of a `CmId` failed.

use thiserror::Error;
use uroce_device::ConnectionError;
use uroce_device::cm::{CmError, PortSpace};

use crate::error::ForeignObject;

/// Why a call of a [`CmId`](crate::CmId) failed. Nothing was sent.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CmIdError {
    /// The device refused.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The connection manager refused.
    #[error(transparent)]
    Cm(#[from] CmError),
    /// A queue pair of another device.
    #[error(transparent)]
    Foreign(#[from] ForeignObject),
    /// No address yet.
    #[error("this id has no peer yet: call resolve_addr() before")]
    NotResolved,
    /// One id, one use.
    #[error("this id listens or has a connection already: make another one for the next")]
    InUse,
    /// Neither a connection nor a request.
    #[error("this id has no connection: it was neither called nor has it called")]
    NotConnected,
    /// A connection in a port space of datagrams, or the other way round.
    #[error("this does not exist in port space {space:?}: {instead}")]
    WrongSpace {
        /// The id's.
        space: PortSpace,
        /// What does.
        instead: &'static str,
    },
    /// All ports are taken.
    #[error("no free port was found: end some listeners of this device")]
    NoPort,
}

uroce_memory::debug_is_display!(CmIdError);
