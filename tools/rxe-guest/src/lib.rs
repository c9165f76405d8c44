//! A Linux kernel with rxe and the stock RDMA programs, in a virtual machine at the other end of a wire.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod apt;
mod cache;
mod config;
pub mod faults;
mod folder;
mod guest;
mod image;
mod kernel;
mod kvm;
mod machine;
mod mailbox;
pub mod namespace;
mod recipe;
pub mod script;
pub mod supplies;

pub use config::{GuestConfig, Seat};
pub use guest::{Guest, Job, Output};
pub use image::build;
pub use kernel::Kernel;
