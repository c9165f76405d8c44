//! The host that the NIC runs on, as datapaths and devices see it.
//!
//! - [`interface`]: addresses of this host, and the interfaces that they belong to;
//! - [`option`], [`enlarge`], [`bpf`]: options of sockets, and the programs that they run;
//! - [`BindError`], [`PortHolder`]: why a UDP port cannot be had, and who has it;
//! - [`symbols`], [`verbs_names`]: what a program takes from libraries, and whether ours have it;
//! - [`environment`]: environment variables, as far as they can be believed;
//! - [`lock_until`]: a lock whose holder may never let go;
//! - [`process`], [`fork`], [`at_exit`], [`Thread`]: processes, forks, exits and threads in a program that is not ours.
//!
//! Most of it is asked for once, when a datapath or a device is opened. Nothing here knows RoCE packets.
#![deny(unsafe_code)]

pub mod address;
mod bind_error;
pub mod bpf;
mod buffer;
mod descriptor_table;
pub mod environment;
pub mod interface;
mod lock;
mod port_holder;
pub mod process;
pub mod symbols;
#[allow(unsafe_code, reason = "system calls without a safe wrapper")]
mod sys;
mod thread;
pub mod verbs_names;

pub use bind_error::{BindError, check_local};
pub use buffer::{Buffer, enlarge};
pub use descriptor_table::make_room_for_descriptors;
pub use lock::lock_until;
pub use port_holder::PortHolder;
pub use sys::exit::at_exit;
pub use sys::signals::NoSigpipe;
pub use sys::{fork, option};
pub use thread::Thread;
