//! The system calls that have no safe wrapper. All `unsafe` of this crate is below this module.

pub(crate) mod packet;
pub(crate) mod rx_ring;
