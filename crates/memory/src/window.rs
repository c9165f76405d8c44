//! Memory windows: making, binding, invalidating.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::registration::{Extent, Kind, Registration};
use crate::{Access, AccessError, Lkey, MemTable, MwId, PdError, PdId, Rkey};

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

/// A BIND_MW work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MwBind {
    /// The window.
    pub mw: MwId,
    /// The region, by its key.
    pub mr: Lkey,
    /// Type 2B: the key it shall have, with the window's index and any variant. Type 1: ignored.
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

/// Why no window was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocMwError {
    /// No such protection domain.
    #[error("the protection domain does not exist (any more); use one that alloc_pd returned")]
    UnknownPd,
    /// The device has no room for another window (`ENOMEM`).
    #[error("the device holds its limit of {limit} memory windows; free one or raise the limit")]
    TooMany {
        /// [`crate::MemLimits::max_mw`].
        limit: u32,
    },
}

/// Why a window was not freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeallocMwError {
    /// No such window.
    #[error("this memory window does not exist (any more); it was freed before")]
    Unknown,
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

/// Why nothing was invalidated (R41). Remote: NAK remote access. Local: LOC_QP_OP / MW_BIND_ERR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidateError {
    /// Nothing has this key; the variant byte counts too (B24).
    #[error("no memory window has rkey {rkey}; it was never valid or is gone")]
    UnknownKey {
        /// The key asked for.
        rkey: Rkey,
    },
    /// The key of a region made by the registration call, with or without windows.
    #[error("{} may not invalidate a registered region; deregister it instead", who(*remote))]
    Region {
        /// Whether a peer asked.
        remote: bool,
    },
    /// A type 1 window.
    #[error("{} may not invalidate a type 1 window; bind it to 0 bytes instead", who(*remote))]
    Type1 {
        /// Whether a peer asked.
        remote: bool,
    },
    /// The window is of another protection domain.
    #[error("the window is of another protection domain than the queue pair; create both in one")]
    WrongPd,
    /// The window is bound to another queue pair.
    #[error("the window is bound to another queue pair; invalidate it through that one")]
    WrongQp,
    /// The window is not bound.
    #[error("the window is not bound, so there is nothing to invalidate; bind it first")]
    NotBound,
}

fn who(remote: bool) -> &'static str {
    if remote {
        "a peer's SEND_WITH_INVALIDATE"
    } else {
        "a local invalidate"
    }
}

impl MemTable {
    /// Makes an unbound window.
    ///
    /// # Errors
    /// [`AllocMwError`].
    pub fn alloc_mw(&mut self, pd: PdId, mw_type: MwType) -> Result<Mw, AllocMwError> {
        let limit = self.limits.max_mw;
        if self.mws >= limit {
            return Err(AllocMwError::TooMany { limit });
        }
        self.retain_pd(pd)
            .map_err(|_: PdError| AllocMwError::UnknownPd)?;
        self.mws += 1;
        let kind = Kind::Mw {
            mw_type,
            mr: 0,
            qpn: 0,
        };
        let (id, key) = self.register(Registration {
            key: 0,
            pd,
            kind,
            extent: None,
        });
        Ok(Mw {
            id: MwId(id),
            rkey: Rkey(key),
        })
    }

    /// Frees a window, bound or not; its key is never valid again.
    ///
    /// # Errors
    /// [`DeallocMwError::Unknown`].
    pub fn dealloc_mw(&mut self, id: MwId) -> Result<(), DeallocMwError> {
        self.mw_parts(id).ok_or(DeallocMwError::Unknown)?;
        self.unbind(id.0);
        self.unregister(id.0);
        self.mws -= 1;
        Ok(())
    }

    /// Key of a window as it is now; `None` if it does not exist.
    pub fn mw(&self, id: MwId) -> Option<Mw> {
        let (_, entry) = self.mw_parts(id)?;
        Some(Mw {
            id,
            rkey: Rkey(entry.key),
        })
    }

    /// Binds a window to a part of a region (R94) and returns its key; every older key of the
    /// window is dead then (R95). A type 1 window that is bound moves; a type 2B window must be
    /// invalidated first, and may get the same key again (B40).
    ///
    /// # Errors
    /// [`BindError`]; the window then is as it was.
    pub fn bind_mw(&mut self, bind: &MwBind) -> Result<Rkey, BindError> {
        let (mw_type, window) = self.mw_parts(bind.mw).ok_or(BindError::UnknownMw)?;
        if window.pd != bind.pd {
            return Err(BindError::WrongPd);
        }
        check_type(mw_type, window, bind)?;
        if bind.length == 0 {
            self.unbind(bind.mw.0);
            return Ok(self.change_key(mw_type, bind));
        }
        let (mr, extent) = self.bindable(mw_type, bind)?;
        self.unbind(bind.mw.0);
        if let Some(window) = self.registrations.get_mut(bind.mw.0) {
            window.extent = Some(extent);
            window.kind = Kind::Mw {
                mw_type,
                mr,
                qpn: bind.qpn,
            };
        }
        self.count_window(mr, 1);
        Ok(self.change_key(mw_type, bind))
    }

    /// Ends the binding of a type 2B window, for a LOCAL_INV work request or (`remote`) for a
    /// SEND_WITH_INVALIDATE. Type 1 windows and regions are refused either way, as are windows
    /// of another domain or queue pair (R41, B24).
    ///
    /// # Errors
    /// [`InvalidateError`], with nothing changed.
    pub fn invalidate(
        &mut self,
        rkey: Rkey,
        pd: PdId,
        qpn: u32,
        remote: bool,
    ) -> Result<(), InvalidateError> {
        let unknown = InvalidateError::UnknownKey { rkey };
        let (id, entry) = self.named(rkey.0).map_err(|_: AccessError| unknown)?;
        if entry.pd != pd {
            return Err(InvalidateError::WrongPd);
        }
        match entry.kind {
            Kind::Mr { .. } => return Err(InvalidateError::Region { remote }),
            Kind::Mw {
                mw_type: MwType::Type1,
                ..
            } => {
                return Err(InvalidateError::Type1 { remote });
            }
            Kind::Mw { .. } if entry.extent.is_none() => return Err(InvalidateError::NotBound),
            Kind::Mw { qpn: bound, .. } if bound != qpn => return Err(InvalidateError::WrongQp),
            Kind::Mw { .. } => {}
        }
        self.unbind(id);
        Ok(())
    }

    /// Unbinds the type 2B windows of a queue pair that is being destroyed, so that a later
    /// queue pair with the same number does not inherit them. Returns how many there were.
    pub fn unbind_windows_of(&mut self, qpn: u32) -> usize {
        if self.mws == 0 {
            return 0;
        }
        let owned = |r: &Registration| {
            r.extent.is_some()
                && matches!(r.kind, Kind::Mw { mw_type: MwType::Type2B, qpn: q, .. } if q == qpn)
        };
        let ids: Vec<u64> = self
            .registrations
            .iter()
            .filter(|(_, r)| owned(r))
            .map(|(id, _)| id)
            .collect();
        ids.iter().for_each(|&id| self.unbind(id));
        ids.len()
    }

    fn mw_parts(&self, id: MwId) -> Option<(MwType, &Registration)> {
        let entry = self.registrations.get(id.0)?;
        match entry.kind {
            Kind::Mw { mw_type, .. } => Some((mw_type, entry)),
            Kind::Mr { .. } => None,
        }
    }

    /// The region's id and the extent that the window would have.
    fn bindable(&self, mw_type: MwType, bind: &MwBind) -> Result<(u64, Extent), BindError> {
        let unknown = BindError::UnknownMr { lkey: bind.mr };
        let (id, mr) = self.named(bind.mr.0).map_err(|_: AccessError| unknown)?;
        let (Kind::Mr { .. }, Some(extent)) = (&mr.kind, &mr.extent) else {
            return Err(unknown);
        };
        if mr.pd != bind.pd {
            return Err(BindError::WrongPd);
        }
        check_rights(mw_type, extent, bind)?;
        let (va, len) = (bind.va, bind.length);
        let Some(into) = extent.locate(va, len) else {
            return Err(out_of_range(extent, va, len));
        };
        let start = if bind.access.contains(Access::ZERO_BASED) {
            0
        } else {
            va
        };
        let offset = extent.offset + into as usize;
        let region = extent.region.clone();
        Ok((
            id,
            Extent {
                access: bind.access,
                start,
                length: len,
                region,
                offset,
            },
        ))
    }

    /// Gives a window that was just bound (or unbound) its key.
    fn change_key(&mut self, mw_type: MwType, bind: &MwBind) -> Rkey {
        match mw_type {
            MwType::Type1 => self.rekey(bind.mw.0),
            MwType::Type2B => self.revary(bind.mw.0, bind.new_rkey),
        }
        self.mw(bind.mw)
            .expect("the caller has just found this window")
            .rkey
    }

    fn revary(&mut self, id: u64, new: Rkey) {
        if let Some(entry) = self.registrations.get_mut(id) {
            let old = std::mem::replace(&mut entry.key, new.0);
            self.keys.revary(old, new.0);
        }
    }

    fn unbind(&mut self, id: u64) {
        let Some(entry) = self.registrations.get_mut(id) else {
            return;
        };
        if let Kind::Mw { mr, .. } = entry.kind
            && entry.extent.take().is_some()
        {
            self.count_window(mr, -1);
        }
    }

    fn count_window(&mut self, mr: u64, by: i32) {
        let entry = self.registrations.get_mut(mr).map(|entry| &mut entry.kind);
        let Some(Kind::Mr { windows }) = entry else {
            unreachable!("a region outlives the windows bound to it")
        };
        *windows = windows
            .checked_add_signed(by)
            .expect("each unbind follows a bind");
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
            Err(BindError::WrongIndex {
                new: bind.new_rkey,
                current: Rkey(window.key),
            })
        }
        MwType::Type2B => Ok(()),
    }
}

/// The region must allow what the window is to grant.
fn check_rights(mw_type: MwType, mr: &Extent, bind: &MwBind) -> Result<(), BindError> {
    let grantable = Access::REMOTE_CHANGE
        | Access::REMOTE_READ
        | Access::ZERO_BASED
        | mr.access & Access::FLUSH;
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
        AccessError::OutOfRange {
            va,
            len,
            start,
            end,
        } => BindError::OutOfRange {
            va,
            len,
            start,
            end,
        },
        _ => unreachable!("out_of_range makes an OutOfRange"),
    }
}
