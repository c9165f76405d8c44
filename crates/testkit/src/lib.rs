//! What the tests of several crates use. No crate uses it but for its tests.
//!
//! - [`namespace`]: network namespaces of a test, and wires between them;
//! - [`allocations`]: how often a thread allocates;
//! - [`checks`]: what every datapath must do;
//! - [`wait_until`]: waiting for a condition.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "an allocator is unsafe code by its trait")]
pub mod allocations;
pub mod checks;
#[allow(unsafe_code, reason = "a thread leaves its network namespace")]
pub mod namespace;
mod wait;

pub use wait::wait_until;
