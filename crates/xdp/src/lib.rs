//! The AF_XDP datapath: packets go straight between a network interface and the program's memory.
//!
//! [`XdpDatapath`] is a [`Datapath`](uroce_datapath::Datapath) with the lowest cost for small
//! packets. It needs privileges (see [`XdpError::Permission`]) and one interface whose XDP hook is
//! free; everything that is not RoCE for its address passes untouched.
//!
//! ```text
//! interface -> redirect program -> receive ring -> UMEM chunk -> FrameReader -> RxPacket
//!                   | not ours        (bounds checked, ownership checked)
//!                   v
//!              the kernel's stack
//! payload in a UMEM slot -> headers before it -> transmit ring -> interface
//! ```
//!
//! Values that the kernel writes to shared memory are checked: indices against the size of the
//! ring, addresses against what the kernel was given. `docs/adr/009-af-xdp.md` says why the rings
//! are our own, and what was measured.
#![deny(unsafe_code)]

mod bare;
mod config;
mod datapath;
mod error;
mod gro_frame;
mod mode;
mod open;
pub mod probe;
mod problem;
mod program;
mod queue;
mod reassembly;
mod refill;
mod retry;
mod rx_filters;
mod rx_queue;
mod steering;
#[allow(unsafe_code, reason = "system calls without a safe wrapper, memory shared with the kernel")]
mod sys;
mod tx_queue;
#[allow(unsafe_code, reason = "hands out the bytes of shared memory by who holds them")]
mod umem;

pub use bare::BareEnd;
pub use config::XdpConfig;
pub use datapath::XdpDatapath;
pub use error::XdpError;
pub use mode::XdpMode;
