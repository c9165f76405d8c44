//! Functions of libibverbs that need a kernel or hardware we do not have: they answer as rdma-core
//! does on a device without the feature.

use std::ptr::null_mut;

use libc::{c_int, c_void};

use crate::abi::IBV_FORK_UNNEEDED;
use crate::errno::{NOT_SUPPORTED, set_errno};

/// EOPNOTSUPP, as a slot of a table of functions.
pub(crate) unsafe extern "C" fn unsupported() -> c_int {
    libc::EOPNOTSUPP
}

/// Functions that return 0 or an errno value. (The arguments are of no interest; in all C calling conventions of Linux the
/// caller removes them.)
macro_rules! no_counter {
    ($($name:ident)*) => {$(
        /// Not supported: nothing counts completions but completion queues.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> c_int {
            set_errno(NOT_SUPPORTED);
            libc::EOPNOTSUPP
        }
    )*};
}
no_counter! {
    _ibv_query_comp_cntr_caps ibv_destroy_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr
    ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_read_comp_cntr ibv_read_err_comp_cntr
    ibv_qp_attach_comp_cntr
}

/// ibv_create_comp_cntr(3): ENOTSUP, as its manual page has it for devices without them.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_create_comp_cntr() -> *mut c_void {
    set_errno(NOT_SUPPORTED);
    null_mut()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;

    #[test]
    fn no_device_has_completion_counters() {
        let functions: [(&str, extern "C" fn() -> c_int); 9] = [
            ("_ibv_query_comp_cntr_caps", _ibv_query_comp_cntr_caps),
            ("ibv_destroy_comp_cntr", ibv_destroy_comp_cntr),
            ("ibv_set_comp_cntr", ibv_set_comp_cntr),
            ("ibv_set_err_comp_cntr", ibv_set_err_comp_cntr),
            ("ibv_inc_comp_cntr", ibv_inc_comp_cntr),
            ("ibv_inc_err_comp_cntr", ibv_inc_err_comp_cntr),
            ("ibv_read_comp_cntr", ibv_read_comp_cntr),
            ("ibv_read_err_comp_cntr", ibv_read_err_comp_cntr),
            ("ibv_qp_attach_comp_cntr", ibv_qp_attach_comp_cntr),
        ];
        for (name, function) in functions {
            set_errno(Errno(0));
            assert_eq!((function(), Errno::last()), (libc::ENOTSUP, NOT_SUPPORTED), "{name}");
        }
        set_errno(Errno(0));
        assert!(ibv_create_comp_cntr().is_null());
        assert_eq!(Errno::last(), NOT_SUPPORTED);
    }
}
