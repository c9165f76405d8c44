//! Why a key does not give an access.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::access::Access;

/// Why a key does not give the access asked for.
///
/// If a peer's request named the key, it is answered by a NAK "remote access error" (R28), and the fault is the peer's
/// or in what it was told about the memory. If a work request of this side named the key, its completion is
/// LOC_PROT_ERR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// No registration has this key: never made, already gone, or a wrong variant byte.
    #[error("no memory is registered under key {key:#010x}; it was never valid or is gone")]
    UnknownKey {
        /// The key asked for.
        key: u32,
    },
    /// The key belongs to another protection domain than the queue pair.
    #[error("the key is of another protection domain than the queue pair; create both in one")]
    WrongPd,
    /// The registration lacks a right that the access needs: register the memory with it.
    #[error("the access needs {needed:?} but the registration grants only {granted:?}")]
    NoAccess {
        /// What the access needs.
        needed: Access,
        /// What the registration has.
        granted: Access,
    },
    /// The range is not inside the registration, or goes beyond 2^64.
    #[error("{len} bytes at {va:#x} are not inside the registered range {start:#x}..{end:#x}")]
    OutOfRange {
        /// First address asked for.
        va: u64,
        /// Bytes asked for.
        len: u64,
        /// First address there is.
        start: u64,
        /// First address after it; `u64::MAX` also stands for 2^64.
        end: u64,
    },
    /// A region of all memory is used where the program has none, or none that may be written.
    #[error(
        "at {va:#x} the program has mapped no memory for this access; map it before it is used"
    )]
    NotMapped {
        /// First address asked for.
        va: u64,
    },
    /// A type 2 window is used through another queue pair than the one it was bound on (R96).
    #[error("the type 2 window is bound to another queue pair; bind one on this queue pair")]
    WrongQp,
    /// The window is not bound to any memory.
    #[error("the memory window is not bound; bind it before the key is given to a peer")]
    NotBound,
    /// The list of SGEs has fewer bytes than the operation.
    #[error("the scatter/gather list is {missing} bytes too short for the message")]
    ListTooShort {
        /// Bytes that found no place.
        missing: u64,
    },
}
