//! RoCEv2 over UDP sockets of the kernel: the datapaths that work everywhere, without any privilege.
//!
//! - [`UdpDatapath`]: one socket receives, one for each source port sends; the default;
//! - [`UringDatapath`]: the same sockets by io_uring;
//! - [`SlotDatapath`]: a share of either, for one of several processes on an address;
//! - [`SplicePipe`]: datagrams out of memory without a copy;
//! - [`probe`]: which of the kernel's offloads are there.
//!
//! All buffers exist after set-up; no call for a packet allocates, but where a route gets a socket of its own for bulk data.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod fuzzing;
pub mod probe;
mod slot;
#[allow(unsafe_code, reason = "system calls without a safe wrapper")]
mod sys;
mod udp;
mod uring;

pub use slot::{SlotDatapath, slots_taken};
pub use sys::splice::SplicePipe;
pub use udp::{UdpConfig, UdpDatapath};
pub use uring::{UringDatapath, UringError};
