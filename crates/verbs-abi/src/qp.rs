//! Queue pairs and shared receive queues.

use libc::{c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t};

use super::{ibv_ah, ibv_context, ibv_cq, ibv_mw, ibv_mw_bind_info, ibv_pd, ibv_sge};

#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_int,
    pub qp_type: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

type Ex = *mut ibv_qp_ex;

#[repr(C)]
pub struct ibv_qp_ex {
    pub qp_base: ibv_qp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub ops: ibv_qp_ex_ops,
}

/// The functions of `struct ibv_qp_ex`, from `wr_atomic_cmp_swp` on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_ex_ops {
    pub wr_atomic_cmp_swp: unsafe extern "C" fn(Ex, u32, u64, u64, u64),
    pub wr_atomic_fetch_add: unsafe extern "C" fn(Ex, u32, u64, u64),
    pub wr_bind_mw: unsafe extern "C" fn(Ex, *mut ibv_mw, u32, *const ibv_mw_bind_info),
    pub wr_local_inv: unsafe extern "C" fn(Ex, u32),
    pub wr_rdma_read: unsafe extern "C" fn(Ex, u32, u64),
    pub wr_rdma_write: unsafe extern "C" fn(Ex, u32, u64),
    pub wr_rdma_write_imm: unsafe extern "C" fn(Ex, u32, u64, u32),
    pub wr_send: unsafe extern "C" fn(Ex),
    pub wr_send_imm: unsafe extern "C" fn(Ex, u32),
    pub wr_send_inv: unsafe extern "C" fn(Ex, u32),
    pub wr_send_tso: unsafe extern "C" fn(Ex, *mut c_void, u16, u16),
    pub wr_set_ud_addr: unsafe extern "C" fn(Ex, *mut ibv_ah, u32, u32),
    pub wr_set_xrc_srqn: unsafe extern "C" fn(Ex, u32),
    pub wr_set_inline_data: unsafe extern "C" fn(Ex, *const c_void, usize),
    pub wr_set_inline_data_list: unsafe extern "C" fn(Ex, usize, *const ibv_data_buf),
    pub wr_set_sge: unsafe extern "C" fn(Ex, u32, u64, u32),
    pub wr_set_sge_list: unsafe extern "C" fn(Ex, usize, *const ibv_sge),
    pub wr_start: unsafe extern "C" fn(Ex),
    pub wr_complete: unsafe extern "C" fn(Ex) -> c_int,
    pub wr_abort: unsafe extern "C" fn(Ex),
    pub wr_atomic_write: unsafe extern "C" fn(Ex, u32, u64, *const c_void),
    /// Since rdma-core 47.
    pub wr_flush: unsafe extern "C" fn(Ex, u32, u64, usize, u8, u8),
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_data_buf {
    pub addr: *const c_void,
    pub length: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

/// The first fields are those of [`ibv_qp_init_attr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_init_attr_ex {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: [u64; 3],
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

#[repr(C)]
pub struct ibv_xrcd {
    pub context: *mut ibv_context,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_xrcd_init_attr {
    pub comp_mask: u32,
    pub fd: c_int,
    pub oflags: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_open_attr {
    pub comp_mask: u32,
    pub qp_num: u32,
    pub xrcd: *mut ibv_xrcd,
    pub qp_context: *mut c_void,
    pub qp_type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: c_int,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub cq: *mut ibv_cq,
    pub tm_cap: [u32; 2],
}
