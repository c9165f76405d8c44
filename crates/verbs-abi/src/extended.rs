//! Objects that only the extended functions make: XRC and thread domains, device memory, and what rdma-core has since 58:
//! buffers of the device, DMA handles and completion counters.

use libc::{c_int, c_void};

use crate::objects::ibv_context;

#[repr(C)]
pub struct ibv_xrcd {
    pub context: *mut ibv_context,
}

#[repr(C)]
pub struct ibv_td {
    pub context: *mut ibv_context,
}

#[repr(C)]
pub struct ibv_dm {
    pub context: *mut ibv_context,
    pub memcpy_to_dm: unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int,
    pub memcpy_from_dm: unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int,
    pub comp_mask: u32,
    pub handle: u32,
}

/// Since rdma-core 65. Programs do not look into it: what is in it is ours.
#[repr(C)]
pub struct ibv_buf {
    pub addr: *mut c_void,
}

/// Since rdma-core 58.
#[repr(C)]
pub struct ibv_dmah {
    pub context: *mut ibv_context,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_dmah_init_attr {
    pub comp_mask: u32,
    pub cpu_id: u32,
    pub ph: u8,
    pub tph_mem_type: u8,
}

/// Since rdma-core 58; `buf` since 65, which `comp_mask` says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mr_init_attr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut ibv_dmah,
    pub buf: *mut ibv_buf,
}

/// Since rdma-core 65.
#[repr(C)]
pub struct ibv_comp_cntr {
    pub context: *mut ibv_context,
    pub handle: u32,
}

/// Since rdma-core 65.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_comp_cntr_init_attr {
    pub comp_mask: u32,
    pub r#type: c_int,
    pub flags: u32,
}

/// Since rdma-core 65.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ibv_comp_cntr_caps {
    pub max_value: u64,
    pub max_counters: u32,
    pub supported_qp_attach_ops: u32,
}

/// Since rdma-core 65.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_attach_comp_cntr_attr {
    pub comp_mask: u32,
    pub op_mask: u32,
}
