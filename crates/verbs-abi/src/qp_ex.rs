//! Queue pairs with a function for each kind of work request.

use libc::{c_int, c_uint, c_void};

use crate::objects::{ibv_ah, ibv_mw, ibv_mw_bind_info, ibv_qp};
use crate::work::{ibv_data_buf, ibv_sge};

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
