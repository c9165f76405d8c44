//! What librdmacm can do with a kernel and we cannot.

use libc::c_int;
use uroce_ibverbs::errno::{NOT_SUPPORTED, set_errno};

/// Functions that return -1 and set errno.
macro_rules! not_supported {
    ($($name:ident)*) => {$(
        /// Not supported: -1 with EOPNOTSUPP.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> c_int {
            set_errno(NOT_SUPPORTED);
            -1
        }
    )*};
}
not_supported! {
    rdma_get_remote_ece rdma_reject_ece rdma_set_local_ece
}
