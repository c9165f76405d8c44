//! libibverbs and librdmacm of the userspace NIC, as programs load them: the functions of `uroce-ibverbs`, `uroce-rdmacm`
//! and `uroce-rsockets` in one archive, of which `cargo xtask dist` links shared libraries.
//!
//! ```text
//!   program (ibv_rc_pingpong, rping, rstream, NCCL, ...)
//!      | ibv_*          | rdma_*        | r*: module rsocket      | open, dlopen, ...: interpose, loading
//!      v                v               v                         v
//!   uroce-ibverbs <- uroce-rdmacm <- uroce-rsockets            the C library, with paths of our devices
//!      v
//!   uroce-device
//! ```
//!
//! Both libraries are one, since a second copy would have devices of its own. Their symbols, with the versions that
//! rdma-core gives them, are in `libibverbs.map` and `librdmacm.map`.
#![allow(clippy::missing_safety_doc, reason = "the contract with C, in the text of uroce-ibverbs")]

mod interpose;
mod loading;
mod netlink_socket;
mod rsocket;

// Their functions have the names of C, and no Rust code here calls them.
use {uroce_ibverbs as _, uroce_rdmacm as _};
