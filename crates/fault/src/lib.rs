//! Faults on demand for RoCEv2 packets.
//!
//! Nothing here has a clock, a socket or a random source of its own: packets, times and the seed are
//! arguments, so that a run can be repeated exactly.
#![forbid(unsafe_code)]

mod direction;

pub use direction::Direction;
