//! The system calls that have no safe wrapper. All `unsafe` of this crate is below this module.

pub(crate) mod credentials;
pub(crate) mod exit;
pub mod fork;
pub(crate) mod interface;
pub mod option;
pub(crate) mod signals;
pub(crate) mod steering;
