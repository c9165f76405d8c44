//! Memory windows.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::id::MwId;
use crate::key::Rkey;

/// The kind of a window. Type 2A is not offered (o10-37.2.31 allows only one of 2A and 2B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MwType {
    /// Usable through every queue pair of its domain; every bind makes a new key.
    Type1,
    /// Usable only through the queue pair it was bound on; the caller owns the variant byte.
    Type2B,
}

/// A window: its name and its key, which is of use once the window is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mw {
    /// Name for bind and dealloc.
    pub id: MwId,
    /// Its key for now.
    pub rkey: Rkey,
}

/// Why no window was made.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocMwError {
    /// No such protection domain.
    #[error("the protection domain does not exist (any more); use one that alloc_pd returned")]
    UnknownPd,
    /// The device has no room for another window (`ENOMEM`).
    #[error("the device holds its limit of {limit} memory windows; free one or raise the limit")]
    TooMany {
        /// The limit, `max_mw` of the device.
        limit: u32,
    },
    /// The device has several engines, which have no memory windows (`EOPNOTSUPP`): open it with one engine.
    #[error("a device with several engines has no memory windows; open it with one engine")]
    Unsupported,
}

/// Why a window was not freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeallocMwError {
    /// No such window.
    #[error("this memory window does not exist (any more); it was freed before")]
    Unknown,
}

debug_is_display!(AllocMwError);
