//! Registered memory of a software RDMA NIC: protection domains, memory regions, memory windows,
//! their keys, and the one check that stands between a packet and a byte.
//!
//! * [`Region`] is a handle of bytes: an allocation of ours, or foreign memory.
//! * [`MemTable`] holds the registrations of a device. [`MemTable::check`] turns what a packet
//!   claims (key, address, length, right) into an [`MrSlice`], which copies and does atomics.
//! * [`MrSlice`] borrows the table, so a registration cannot go away under a running copy.
//!
//! No clock, no lock, no source of randomness: the seed of the keys is an argument. No code, inside
//! the crate or outside, ever gets a Rust reference to a registered byte; the module `raw`
//! says why, and holds all the unsafe code.
//!
//! Keys: an lkey or rkey is a 24-bit index and an 8-bit variant, all 32 bits drawn from ChaCha
//! (see `registrations`); 0 is never a key. A memory region has one key for both uses.
//!
//! ```
//! use uroce_memory::{Access, AccessError, MemLimits, MemTable, Region, Requirer};
//!
//! let seed = [7; 32]; // fresh random bytes, in production
//! let mut table = MemTable::new(seed, MemLimits::default());
//! let pd = table.alloc_pd()?;
//! let region = Region::alloc(4096)?;
//! let mr = table.reg_mr(pd, region.clone(), 0x1000, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//!
//! // A packet claims a right on an address; the table decides.
//! let by = Requirer { pd, qpn: 17 };
//! let slice = table.check(mr.rkey.0, by, Access::REMOTE_WRITE, 0x1010, 5)?;
//! slice.copy_in(0, b"hello")?;
//! let refused = table.check(mr.rkey.0, by, Access::REMOTE_READ, 0x1010, 5);
//! assert!(matches!(refused, Err(AccessError::NoAccess { .. })));
//!
//! let mut seen = [0; 5];
//! region.read(0x10, &mut seen)?;
//! assert_eq!(&seen, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

#[macro_use]
mod sentence;

mod access;
mod access_error;
mod bind;
mod bounds;
mod errno;
mod id;
mod invalidate;
mod key;
mod limits;
mod mr;
#[doc(hidden)]
pub mod mutation;
mod pd;
#[allow(unsafe_code)]
mod raw;
mod registration;
mod registrations;
mod sge;
mod stamped;
mod table;
mod window;

pub use access::Access;
pub use access_error::AccessError;
pub use bind::{BindError, MwBind};
pub use bounds::{AtomicError, CopyError, OutOfRange};
pub use id::{MrId, MwId, PdId};
pub use invalidate::InvalidateError;
pub use key::{Lkey, Rkey};
pub use limits::MemLimits;
pub use mr::{DeregError, Mr, MrInfo, RegMrError, Rereg, ReregError};
pub use pd::PdError;
pub use raw::{
    AllocError, LongCopies, Region, fault_in, long_copies, multiplied_crc, set_long_copies,
};
pub use registration::{MrSlice, Requirer};
pub use sge::{Sge, SgeError};
pub use table::MemTable;
pub use window::{AllocMwError, DeallocMwError, Mw, MwType};
