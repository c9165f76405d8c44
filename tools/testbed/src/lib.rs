//! What the tools do on this machine: they build the workspace, install it, run programs in network namespaces, and
//! remove all of it in the end.
//!
//! `cargo xtask` is made of it, so it has next to no dependencies.
#![forbid(unsafe_code)]

pub mod cleanup;
pub mod error;
pub mod install;
pub mod netns;
pub mod packages;
pub mod process;
pub mod workspace;
