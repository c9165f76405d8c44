//! What the program wants for each request of a listening endpoint.

use std::fmt;

use uroce_verbs_abi::{ibv_pd, ibv_qp_init_attr};

/// What each request of a listening endpoint gets: the protection domain and the queue pair that its
/// `rdma_create_ep` was given.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) pd: *mut ibv_pd,
    pub(crate) init: ibv_qp_init_attr,
}

// SAFETY: the pointers are handed on as the program gave them.
unsafe impl Send for Wanted {}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("pd", &self.pd).finish_non_exhaustive()
    }
}
