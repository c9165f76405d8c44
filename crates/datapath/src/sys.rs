//! The system calls that have no safe wrapper. All `unsafe` of this crate is below this module.

pub(crate) mod credentials;
pub(crate) mod exit;
pub mod fork;
pub(crate) mod interface;
pub(crate) mod option;
pub(crate) mod packet;
pub(crate) mod rx_ring;
pub(crate) mod signals;
pub(crate) mod steering;
pub(crate) mod udp;
pub(crate) mod uring;
