//! Memory regions: what registers, changes and lists them, and what they refuse.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::access::Access;
use crate::id::{MrId, PdId};
use crate::key::{Lkey, Rkey};
use crate::raw::Region;

/// A registered region: its name and its key in both roles (the number is the same).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mr {
    /// Name for rereg and dereg.
    pub id: MrId,
    /// Key for SGEs.
    pub lkey: Lkey,
    /// Key for peers.
    pub rkey: Rkey,
}

/// A registered region as a list of them shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MrInfo {
    /// Its name and keys.
    pub mr: Mr,
    /// Its protection domain.
    pub pd: PdId,
    /// Address of its first byte, as users of the keys see it.
    pub iova: u64,
    /// Bytes.
    pub len: u64,
    /// What may be done with it.
    pub access: Access,
}

/// What [`crate::MemTable::rereg_mr`] changes; `None` keeps.
#[derive(Debug, Clone, Default)]
pub struct Rereg {
    /// Another protection domain (`IBV_REREG_MR_CHANGE_PD`).
    pub pd: Option<PdId>,
    /// Other rights (`IBV_REREG_MR_CHANGE_ACCESS`).
    pub access: Option<Access>,
    /// Other memory and its first address (`IBV_REREG_MR_CHANGE_TRANSLATION`).
    pub translation: Option<(Region, u64)>,
}

/// Why a region was not registered.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegMrError {
    /// No such protection domain.
    #[error("the protection domain does not exist (any more); use one that alloc_pd returned")]
    UnknownPd,
    /// Access flags that this library does not know.
    #[error("access flags {bits:#x} have unknown bits; use the flags of this library's Access")]
    UnknownAccess {
        /// The flags as given.
        bits: u32,
    },
    /// REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE: add LOCAL_WRITE.
    #[error("REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well; add it to the access flags")]
    NeedsLocalWrite,
    /// FLUSH_PERSISTENT, which this device cannot fulfil: memory of a process does not survive a power failure.
    #[error(
        "FLUSH_PERSISTENT promises that data survive a power failure, which this device cannot make \
         true; use FLUSH_GLOBAL, and let the program make its memory persistent"
    )]
    NotPersistent,
    /// The addresses of the region would go beyond 2^64: choose a lower one.
    #[error("{len} bytes from address {iova:#x} go beyond 2^64; choose a lower address")]
    AddressWrap {
        /// First address asked for.
        iova: u64,
        /// Bytes of the region.
        len: u64,
    },
    /// The region is larger than the device allows: split it.
    #[error("a region of {len} bytes is larger than the device's limit of {limit}; split it")]
    TooLarge {
        /// Bytes of the region.
        len: u64,
        /// The limit, `max_mr_size` of the device.
        limit: u64,
    },
    /// The device has no room for another region (`ENOMEM`).
    #[error("the device holds its limit of {limit} memory regions; free one or raise the limit")]
    TooMany {
        /// The limit, `max_mr` of the device.
        limit: u32,
    },
}

/// Why a region was not re-registered; it is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReregError {
    /// No such region.
    #[error("this memory region does not exist (any more); register it again")]
    Unknown,
    /// Windows are bound to it (`EBUSY`).
    #[error("{windows} memory windows are bound to the region; invalidate or free them first")]
    Busy {
        /// How many.
        windows: u32,
    },
    /// The new values are not valid for a registration.
    #[error(transparent)]
    Reg(#[from] RegMrError),
}

/// Why a region was not deregistered.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeregError {
    /// No such region.
    #[error("this memory region does not exist (any more); it was deregistered before")]
    Unknown,
    /// Windows are bound to it (`EBUSY`, B40).
    #[error("{windows} memory windows are bound to the region; invalidate or free them first")]
    Busy {
        /// How many.
        windows: u32,
    },
}

debug_is_display!(RegMrError, ReregError, DeregError);
