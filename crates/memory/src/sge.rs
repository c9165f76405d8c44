//! Scatter/gather elements.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::access_error::AccessError;
use crate::key::Lkey;

/// A piece of local memory in a work request, with the layout of `struct ibv_sge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Sge {
    /// First address, as the region was registered.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Key of the region.
    pub lkey: Lkey,
}

/// Which SGE of a list failed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("SGE {index}: {error}")]
pub struct SgeError {
    /// Position in the list; the length of the list if the list is too short.
    pub index: usize,
    /// The reason.
    pub error: AccessError,
}
