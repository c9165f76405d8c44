//! The functions of libibverbs on the userspace NIC: the C interface, so that unmodified programs run on it.
//!
//! ```text
//!   program (ibv_rc_pingpong, ib_write_bw, ...)
//!      | exported functions: ibv_create_qp, ...     | inline functions of verbs.h: ibv_post_send, ...
//!      v                                            v
//!   qp_create, cq_create, ...                    tables of functions in ibv_context, ibv_qp_ex, ibv_cq_ex
//!      +---------------------- handles ----------------+
//!                                 v
//!                            uroce-device
//! ```
//!
//! A C object is one allocation: first the struct that the program sees, then what we keep about it
//! ([`object`]). All contexts of one address share one device of the process ([`open_device`]).
//!
//! # The contract with C
//!
//! Every exported function relies on what the manual pages of rdma-core ask of a program: a pointer is either null, where this
//! library checks for it, or points to an object that came from the matching create function and was
//! not destroyed (control verbs answer ENOENT for what was, and for what is of another kind; posting and polling
//! do not look); arrays have the length that is passed with them; an object is not destroyed while
//! another thread uses it; memory that is registered stays mapped until it is deregistered.
//!
//! No panic leaves the library: each entry runs under [`return_value`], which turns one into EIO.
#![allow(clippy::missing_safety_doc, reason = "the contract with C, above")]

pub mod ah;
pub mod arg;
#[cfg(test)]
mod argument_tests;
mod async_event;
mod buf;
pub mod cancellation;
pub mod channel;
mod clock;
mod comp_cntr;
pub mod context;
#[cfg(test)]
mod contract_tests;
pub mod cq;
pub mod cq_create;
mod cq_event;
mod cq_ex;
pub mod descriptor;
pub mod device_list;
mod device_memory;
mod dm;
mod dmah;
mod domain;
pub mod errno;
pub mod exit_hook;
mod fork_locks;
#[cfg(test)]
mod fork_tests;
mod gid;
mod import;
mod kernel_only;
#[cfg(test)]
mod limits_tests;
pub mod log;
mod mcast;
mod mr;
mod mr_ex;
mod mw;
mod names;
mod not_cancelled;
pub mod object;
pub mod open;
pub mod open_device;
#[cfg(test)]
mod oracle_tests;
pub mod owned_mr;
pub mod pd;
mod post_recv;
mod post_send;
#[cfg(test)]
mod posting_tests;
pub mod qp;
pub mod qp_attr;
pub mod qp_create;
mod qp_ex;
mod query;
mod rate;
pub mod rdma_netlink;
pub mod restart;
pub mod return_value;
pub mod settings;
mod sge;
#[cfg(test)]
mod signal_tests;
pub mod srq;
pub mod sysfs;
pub mod sysfs_counters;
pub mod sysfs_tree;
pub mod udp_arrival;
pub mod unacknowledged;
mod unsupported;
mod use_count;
#[cfg(test)]
mod verb_tests;
mod wr_builder;
mod xrc_target;
#[cfg(test)]
mod xrc_tests;
pub mod xrcd;

use uroce_verbs_abi as abi;
