//! What the tests of several crates use. No crate uses it but for its tests.
//!
//! - [`namespace`]: network namespaces of a test, and wires between them;
//! - [`icmp`]: messages that anybody can forge;
//! - [`allocations`]: how often a thread allocates;
//! - [`checks`]: what every datapath must do;
//! - [`sandbox`]: system calls that a child process is refused, as by a container or an old kernel;
//! - [`wait_until`]: waiting for a condition.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "an allocator is unsafe code by its trait")]
pub mod allocations;
pub mod checks;
pub mod icmp;
#[allow(unsafe_code, reason = "a thread leaves its network namespace")]
pub mod namespace;
#[allow(unsafe_code, reason = "a filter is set between fork and exec")]
pub mod sandbox;
mod wait;

pub use wait::wait_until;
