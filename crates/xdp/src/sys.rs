//! System calls and shared memory that have no safe wrapper.

pub(crate) mod area;
pub(crate) mod bpf;
pub(crate) mod interface;
pub(crate) mod ring;
pub(crate) mod socket;
