//! libibverbs and librdmacm on the userspace NIC: the C interfaces, so that unmodified programs run on
//! it.
//!
//! ```text
//!   program (ibv_rc_pingpong, ib_write_bw, ...)
//!      | exported functions: ibv_create_qp, ...     | inline functions of verbs.h: ibv_post_send, ...
//!      v                                            v
//!   qp.rs, cq.rs, ...                            tables of functions in ibv_context, ibv_qp_ex, ibv_cq_ex
//!      +---------------------- handles ----------------+
//!                                 v
//!                            uroce-device
//! ```
//!
//! A C object is one allocation: first the struct that the program sees, then what we keep about it
//! (module `object`). All contexts of one address share one device of the process (module `card`).
//!
//! # The contract with C
//!
//! Every exported function relies on what the manual pages of rdma-core ask of a program, and all
//! `// SAFETY:` lines that say "by the contract" mean this: a pointer is either null, where this
//! library checks for it, or points to an object that came from the matching create function and was
//! not destroyed (control verbs answer ENOENT for what was, and for what is of another kind; posting and polling
//! do not look); arrays have the length that is passed with them; an object is not destroyed while
//! another thread uses it; memory that is registered stays mapped until it is deregistered.
//!
//! No panic leaves the library: each entry runs under `outcome`, which turns one into EIO.

mod ah;
mod async_event;
mod card;
mod channel;
mod clock;
mod context;
#[cfg(test)]
mod contract_tests;
mod cq;
mod cq_event;
mod cq_ex;
mod device_list;
mod dm;
mod domain;
mod errno;
#[cfg(test)]
mod fork_tests;
mod gid;
mod import;
mod interpose;
mod kernel_only;
#[cfg(test)]
mod layout_tests;
#[cfg(test)]
mod limits_tests;
mod loading;
mod log;
mod mcast;
mod mr;
mod mw;
mod names;
mod object;
#[cfg(test)]
mod oracle_tests;
mod outcome;
mod pd;
mod post_recv;
mod post_send;
#[cfg(test)]
mod posting_tests;
mod qp;
mod qp_attr;
mod qp_ex;
mod query;
mod rate;
mod rdmacm;
mod rsocket;
mod settings;
#[cfg(test)]
mod signal_tests;
mod srq;
mod sysfs;
mod sysfs_counters;
mod sysfs_tree;
mod unsupported;
mod wr_builder;
mod xrc_target;
#[cfg(test)]
mod xrc_tests;
mod xrcd;

use uroce_verbs_abi as abi;
