//! What only makes sense with a kernel driver. These names must be there because libraries of
//! providers (libmlx5, libefa) are linked against them, and programs against those; nothing calls them
//! with a device of ours.

use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;

use libc::{c_char, c_int, c_void};

use crate::errno::{Errno, set_errno};

const NO_KERNEL: Errno = Errno(libc::ENOSYS);

/// Functions that return 0 or an errno value, or nothing.
macro_rules! no_command {
    ($($name:ident)*) => {$(
        /// There is no kernel driver to give a command to.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> c_int {
            libc::ENOSYS
        }
    )*};
}
no_command! {
    __ioctl_final_num_attrs __verbs_log execute_ioctl ibv_cmd_advise_mr ibv_cmd_alloc_dm
    ibv_cmd_alloc_mw ibv_cmd_alloc_pd ibv_cmd_attach_mcast ibv_cmd_close_xrcd ibv_cmd_create_ah
    ibv_cmd_create_counters ibv_cmd_create_cq ibv_cmd_create_cq_ex ibv_cmd_create_flow
    ibv_cmd_create_flow_action_esp ibv_cmd_create_qp ibv_cmd_create_qp_ex ibv_cmd_create_qp_ex2
    ibv_cmd_create_rwq_ind_table ibv_cmd_create_srq ibv_cmd_create_srq_ex ibv_cmd_create_wq
    ibv_cmd_dealloc_mw ibv_cmd_dealloc_pd ibv_cmd_dereg_mr ibv_cmd_destroy_ah
    ibv_cmd_destroy_counters ibv_cmd_destroy_cq ibv_cmd_destroy_flow ibv_cmd_destroy_flow_action
    ibv_cmd_destroy_qp ibv_cmd_destroy_rwq_ind_table ibv_cmd_destroy_srq ibv_cmd_destroy_wq
    ibv_cmd_detach_mcast ibv_cmd_free_dm ibv_cmd_get_context ibv_cmd_modify_cq
    ibv_cmd_modify_flow_action_esp ibv_cmd_modify_qp ibv_cmd_modify_qp_ex ibv_cmd_modify_srq
    ibv_cmd_modify_wq ibv_cmd_open_qp ibv_cmd_open_xrcd ibv_cmd_poll_cq ibv_cmd_post_recv
    ibv_cmd_post_send ibv_cmd_post_srq_recv ibv_cmd_query_context ibv_cmd_query_device_any
    ibv_cmd_query_mr ibv_cmd_query_port ibv_cmd_query_qp ibv_cmd_query_srq ibv_cmd_read_counters
    ibv_cmd_reg_dm_mr ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr ibv_cmd_req_notify_cq
    ibv_cmd_rereg_mr ibv_cmd_resize_cq verbs_init_cq verbs_register_driver_34 verbs_set_ops
    verbs_uninit_context
    ibv_cmd_alloc_dmah ibv_cmd_create_comp_cntr ibv_cmd_create_cq_ex2 ibv_cmd_destroy_comp_cntr
    ibv_cmd_export_dmabuf_fd ibv_cmd_free_dmah ibv_cmd_inc_comp_cntr ibv_cmd_inc_err_comp_cntr
    ibv_cmd_qp_attach_comp_cntr ibv_cmd_query_comp_cntr_caps ibv_cmd_query_port_speed
    ibv_cmd_read_comp_cntr ibv_cmd_read_err_comp_cntr ibv_cmd_reg_mr_ex ibv_cmd_set_comp_cntr
    ibv_cmd_set_err_comp_cntr ibv_dmabuf_heap_cc_shared_init ibv_dmabuf_heap_destroy
    ibv_dmabuf_heap_free verbs_register_driver_65
    ibv_register_driver ibv_read_ibdev_sysfs_file ibv_copy_ah_attr_from_kern ibv_copy_path_rec_from_kern
    ibv_copy_path_rec_to_kern ibv_copy_qp_attr_from_kern
}

/// Functions that return an object.
macro_rules! no_kernel_object {
    ($($name:ident)*) => {$(
        /// There is no kernel driver that the object could belong to.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> *mut c_void {
            set_errno(NO_KERNEL);
            null_mut()
        }
    )*};
}
no_kernel_object! { _verbs_init_and_alloc_context ibv_dmabuf_heap_alloc verbs_open_device }

/// Where sysfs is mounted.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// A setting that providers change: whether objects may be destroyed after their device was unplugged.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)] // its name in C
pub(crate) static verbs_allow_disassociate_destroy: AtomicBool = AtomicBool::new(false);
