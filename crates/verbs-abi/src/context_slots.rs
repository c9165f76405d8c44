//! The extended functions of a context, which lie before it.

use libc::{c_int, c_uint, c_void};

use crate::Slot;
use crate::attr::{ibv_alloc_dm_attr, ibv_modify_cq_attr, ibv_td_init_attr, ibv_xrcd_init_attr};
use crate::cq_ex::ibv_cq_ex;
use crate::device::{ibv_device_attr_ex, ibv_port_attr, ibv_values_ex};
use crate::extended::{
    ibv_buf, ibv_dm, ibv_dmah, ibv_dmah_init_attr, ibv_mr_init_attr, ibv_td, ibv_xrcd,
};
use crate::init_attr::{
    ibv_cq_init_attr_ex, ibv_parent_domain_init_attr, ibv_qp_init_attr_ex, ibv_qp_open_attr,
    ibv_srq_init_attr_ex,
};
use crate::objects::{ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_srq};
use crate::work::ibv_sge;

/// `struct verbs_context` without the context at its end. What is before `query_port` came with rdma-core 58 to 65;
/// a program looks at a slot only if `sz` covers it, counted from the end. An empty slot makes the
/// inline function answer EOPNOTSUPP.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_slots {
    pub free_buf: Option<unsafe extern "C" fn(*mut ibv_buf)>,
    pub alloc_buf:
        Option<unsafe extern "C" fn(*mut ibv_pd, usize, *mut *mut ibv_buf) -> *mut c_void>,
    pub dm_export_dmabuf_fd: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>,
    pub reg_mr_ex: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_mr_init_attr) -> *mut ibv_mr>,
    pub dealloc_dmah: Option<unsafe extern "C" fn(*mut ibv_dmah) -> c_int>,
    pub alloc_dmah:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_dmah_init_attr) -> *mut ibv_dmah>,
    pub query_port:
        Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
    pub advise_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, c_int, u32, *mut ibv_sge, u32) -> c_int>,
    pub alloc_null_mr: Slot,
    pub counters: [Slot; 4],
    pub reg_dm_mr:
        Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr>,
    pub alloc_dm:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm>,
    pub free_dm: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>,
    pub flow_action: [Slot; 3],
    pub modify_qp_rate_limit: Slot,
    pub alloc_parent_domain: Option<
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
    >,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
    pub alloc_td:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>,
    pub post_srq_ops: Slot,
    pub wq: [Slot; 5],
    pub query_rt_values:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
    pub create_cq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
    pub private: *mut c_void,
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *const c_void,
            *mut ibv_device_attr_ex,
            usize,
        ) -> c_int,
    >,
    pub destroy_flow: Slot,
    pub placeholder2: Slot,
    pub create_flow: Slot,
    pub placeholder1: Slot,
    pub open_qp:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp>,
    pub create_qp_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
    pub create_srq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
    pub open_xrcd:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd>,
    /// The only one that is called without a look whether it is there.
    pub close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>,
    pub placeholder3: u64,
    pub sz: usize,
}

/// The extended functions lie before the context that programs get a pointer to.
#[repr(C)]
pub struct verbs_context {
    pub slots: verbs_slots,
    pub context: ibv_context,
}
