//! Binding a window to a part of a region (R94, R95).
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::access::Access;
use crate::access_error::AccessError;
use crate::id::{MwId, PdId};
use crate::key::{Lkey, Rkey};
use crate::registration::{Extent, Registration, RegistrationKind};
use crate::window::MwType;

/// A BIND_MW work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MwBind {
    /// The window.
    pub mw: MwId,
    /// The region, by its key.
    pub mr: Lkey,
    /// The key it shall have, with the window's index and any variant. A type 1 window whose caller
    /// asks for another index, or for the key it has, gets an unpredictable key.
    pub new_rkey: Rkey,
    /// First byte, as an address of the region.
    pub va: u64,
    /// Bytes. 0 unbinds a type 1 window.
    pub length: u64,
    /// Remote rights, and [`Access::ZERO_BASED`] for type 2B.
    pub access: Access,
    /// Protection domain of the queue pair.
    pub pd: PdId,
    /// Number of the queue pair.
    pub qpn: u32,
}

/// Why a window was not bound; it is as it was (the completion is MW_BIND_ERR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BindError {
    /// No such window.
    #[error("this memory window does not exist (any more); allocate one")]
    UnknownMw,
    /// No region has this key.
    #[error("no memory region has lkey {lkey}; use the lkey of a live region")]
    UnknownMr {
        /// The key asked for.
        lkey: Lkey,
    },
    /// Window, region and queue pair are not of one protection domain (C10-72).
    #[error("window, region and queue pair must be of one protection domain; create them in one")]
    WrongPd,
    /// The region was not registered for windows (C10-73).
    #[error("the region does not have MW_BIND; register it with that access flag")]
    NoMwBind,
    /// Remote write or atomic onto a region that the NIC may not write (C10-74).
    #[error("a window for remote write or atomic needs a region with LOCAL_WRITE; register it so")]
    NeedsLocalWrite,
    /// A right that a window cannot give.
    #[error("a window cannot grant {access:?}; use remote rights of the region only")]
    BadAccess {
        /// The offending rights.
        access: Access,
    },
    /// The range is not inside the region (C10-75), or goes beyond 2^64 (B7).
    #[error("{len} bytes at {va:#x} are not inside the region {start:#x}..{end:#x}")]
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
    /// Zero-based addressing with a type 1 window (o10-36.2.2).
    #[error("a type 1 window and its region cannot be zero-based; use a type 2 window")]
    ZeroBased,
    /// The type 2 window is still bound (o10-37.2.30).
    #[error("the type 2 window is bound already; invalidate it first")]
    AlreadyBound,
    /// A type 2 window of no bytes (o10-37.2.40).
    #[error("a type 2 window cannot be bound to 0 bytes; post a local invalidate to unbind it")]
    ZeroLength,
    /// The index of the wanted key is not the window's (o10-37.2.34).
    #[error(
        "rkey {new} does not belong to the window; only the low 8 bits of {current} may change"
    )]
    WrongIndex {
        /// The key asked for.
        new: Rkey,
        /// The window's key.
        current: Rkey,
    },
}

impl MwBind {
    /// Whether it may be done to this window.
    pub(crate) fn check(&self, mw_type: MwType, window: &Registration) -> Result<(), BindError> {
        if window.pd != self.pd {
            return Err(BindError::WrongPd);
        }
        check_type(mw_type, window, self)
    }

    /// The extent that the window would have, in this registration.
    pub(crate) fn extent(&self, mw_type: MwType, mr: &Registration) -> Result<Extent, BindError> {
        let (RegistrationKind::Mr { .. }, Some(extent)) = (&mr.kind, &mr.extent) else {
            return Err(BindError::UnknownMr { lkey: self.mr });
        };
        if mr.pd != self.pd {
            return Err(BindError::WrongPd);
        }
        check_rights(mw_type, extent, self)?;
        let (va, len) = (self.va, self.length);
        let Some(into) = extent.locate(va, len) else {
            return Err(out_of_range(extent, va, len));
        };
        let start = if self.access.contains(Access::ZERO_BASED) { 0 } else { va };
        let offset = extent.offset + into as usize;
        let region = extent.region.clone();
        Ok(Extent { access: self.access, start, length: len, region, offset })
    }
}

/// What the two types forbid, each in its own way.
fn check_type(mw_type: MwType, window: &Registration, bind: &MwBind) -> Result<(), BindError> {
    match mw_type {
        MwType::Type1 if bind.access.contains(Access::ZERO_BASED) => Err(BindError::ZeroBased),
        MwType::Type1 => Ok(()),
        MwType::Type2B if window.extent.is_some() => Err(BindError::AlreadyBound),
        MwType::Type2B if bind.length == 0 => Err(BindError::ZeroLength),
        MwType::Type2B if bind.new_rkey.index() != Rkey(window.key).index() => {
            Err(BindError::WrongIndex { new: bind.new_rkey, current: Rkey(window.key) })
        }
        MwType::Type2B => Ok(()),
    }
}

/// The region must allow what the window is to grant.
fn check_rights(mw_type: MwType, mr: &Extent, bind: &MwBind) -> Result<(), BindError> {
    let grantable = Access::REMOTE_CHANGE
        | Access::REMOTE_READ
        | Access::ZERO_BASED
        | mr.access & Access::FLUSH_GLOBAL;
    let excess = bind.access - grantable;
    if !excess.is_empty() {
        return Err(BindError::BadAccess { access: excess });
    }
    if !mr.access.contains(Access::MW_BIND) {
        return Err(BindError::NoMwBind);
    }
    if mw_type == MwType::Type1 && mr.access.contains(Access::ZERO_BASED) {
        return Err(BindError::ZeroBased);
    }
    if bind.access.intersects(Access::REMOTE_CHANGE) && !mr.access.contains(Access::LOCAL_WRITE) {
        return Err(BindError::NeedsLocalWrite);
    }
    Ok(())
}

fn out_of_range(mr: &Extent, va: u64, len: u64) -> BindError {
    match mr.out_of_range(va, len) {
        AccessError::OutOfRange { va, len, start, end } => {
            BindError::OutOfRange { va, len, start, end }
        }
        _ => unreachable!("out_of_range makes an OutOfRange"),
    }
}
