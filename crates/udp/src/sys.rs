//! The system calls that have no safe wrapper. All `unsafe` of this crate is below this module.

pub(crate) mod splice;
pub(crate) mod udp;
pub(crate) mod uring;
