//! Functions of libibverbs that need a kernel or hardware we do not have: they answer as rdma-core
//! does on a device without the feature.

use libc::c_int;

use crate::abi::IBV_FORK_UNNEEDED;
use crate::errno::{NOT_SUPPORTED, set_errno};

/// EOPNOTSUPP, as a slot of a table of functions.
pub(crate) unsafe extern "C" fn unsupported() -> c_int {
    libc::EOPNOTSUPP
}

/// ibv_set_ece(3): as a provider without enhanced connection establishment.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_set_ece() -> c_int {
    set_errno(NOT_SUPPORTED);
    libc::EOPNOTSUPP
}

/// ibv_query_qp_data_in_order(3): 0, no promise about the order of bytes within a message.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_query_qp_data_in_order() -> c_int {
    0
}

/// ibv_resolve_eth_l2_from_gid(3): the operating system does Ethernet for us.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_resolve_eth_l2_from_gid() -> c_int {
    libc::EOPNOTSUPP
}

/// ibv_fork_init(3). A child process has the memory but not the device, whether this is called or not.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// ibv_is_fork_initialized(3). The answer is about memory: what a NIC writes after a fork is seen by the parent, also
/// where parent and child share a page until one of them writes to it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_is_fork_initialized() -> c_int {
    // Registered memory is ordinary memory of the process.
    IBV_FORK_UNNEEDED
}

/// Part of fork support; nothing is needed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_dontfork_range() -> c_int {
    0
}

/// Part of fork support; nothing is needed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_dofork_range() -> c_int {
    0
}
