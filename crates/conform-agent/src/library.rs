//! libibverbs and librdmacm, loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::sockaddr;
use thiserror::Error;
use uroce_verbs_abi::{
    ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_gid,
    ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_ex, ibv_qp_init_attr,
    ibv_srq, ibv_srq_init_attr, rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_channel,
};

use crate::outcome::{Tried, failed};

/// Why a library cannot be used.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// There is none.
    #[error("cannot load {library}: {why}")]
    Missing {
        /// Its file name.
        library: &'static str,
        /// What the loader says.
        why: String,
    },
    /// It is older than rdma-core 28, or something else.
    #[error("{library} has no {function}: rdma-core 28 or newer is needed")]
    TooOld {
        /// Its file name.
        library: &'static str,
        /// What it lacks.
        function: &'static str,
    },
}

pub(crate) type QueryGidEx =
    unsafe extern "C" fn(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, usize) -> c_int;

/// A library: the file name under which every distribution has it, its functions, and how it is loaded.
macro_rules! functions {
    ($library:ident $file:literal { $($name:ident($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        #[doc = concat!("Functions of ", $file, ". The library stays loaded for good.")]
        pub(crate) struct $library {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $library {
            /// Loads it.
            pub(crate) fn load() -> Result<$library, LibraryError> {
                let handle = open(concat!($file, "\0"))
                    .map_err(|why| LibraryError::Missing { library: $file, why })?;
                Ok($library {
                    $($name: {
                        let found = symbol(handle, concat!(stringify!($name), "\0"));
                        let function = stringify!($name);
                        let found =
                            found.ok_or(LibraryError::TooOld { library: $file, function })?;
                        // SAFETY: the function of this name has this type since rdma-core 28.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    Library "libibverbs.so.1" {
        ibv_get_device_list(*mut c_int) -> *mut *mut ibv_device;
        ibv_free_device_list(*mut *mut ibv_device);
        ibv_get_device_name(*mut ibv_device) -> *const c_char;
        ibv_open_device(*mut ibv_device) -> *mut ibv_context;
        ibv_query_device(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        ibv_query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        ibv_query_gid(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
        ibv_alloc_pd(*mut ibv_context) -> *mut ibv_pd;
        ibv_dealloc_pd(*mut ibv_pd) -> c_int;
        ibv_reg_mr(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
        ibv_dereg_mr(*mut ibv_mr) -> c_int;
        ibv_create_comp_channel(*mut ibv_context) -> *mut ibv_comp_channel;
        ibv_destroy_comp_channel(*mut ibv_comp_channel) -> c_int;
        ibv_create_cq(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
        ibv_destroy_cq(*mut ibv_cq) -> c_int;
        ibv_get_cq_event(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events(*mut ibv_cq, u32);
        ibv_create_srq(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
        ibv_destroy_srq(*mut ibv_srq) -> c_int;
        ibv_create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        ibv_modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        ibv_query_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
        ibv_destroy_qp(*mut ibv_qp) -> c_int;
        ibv_qp_to_qp_ex(*mut ibv_qp) -> *mut ibv_qp_ex;
        ibv_get_async_event(*mut ibv_context, *mut ibv_async_event) -> c_int;
        ibv_ack_async_event(*mut ibv_async_event);
    }
}

functions! {
    CmLibrary "librdmacm.so.1" {
        rdma_create_event_channel() -> *mut rdma_event_channel;
        rdma_destroy_event_channel(*mut rdma_event_channel);
        rdma_create_id(*mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, c_int) -> c_int;
        rdma_destroy_id(*mut rdma_cm_id) -> c_int;
        rdma_bind_addr(*mut rdma_cm_id, *mut sockaddr) -> c_int;
        rdma_listen(*mut rdma_cm_id, c_int) -> c_int;
        rdma_get_src_port(*mut rdma_cm_id) -> u16;
        rdma_resolve_addr(*mut rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
        rdma_resolve_route(*mut rdma_cm_id, c_int) -> c_int;
        rdma_connect(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_establish(*mut rdma_cm_id) -> c_int;
        rdma_accept(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_reject(*mut rdma_cm_id, *const c_void, u8) -> c_int;
        rdma_disconnect(*mut rdma_cm_id) -> c_int;
        rdma_init_qp_attr(*mut rdma_cm_id, *mut ibv_qp_attr, *mut c_int) -> c_int;
        rdma_get_cm_event(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
        rdma_ack_cm_event(*mut rdma_cm_event) -> c_int;
    }
}

impl CmLibrary {
    /// The library, if the system lets this process use it: `/dev/infiniband/rdma_cm` may be missing.
    pub(crate) fn usable(self) -> Tried<CmLibrary> {
        // SAFETY: a function without arguments.
        let channel = unsafe { (self.rdma_create_event_channel)() };
        if channel.is_null() {
            return failed("rdma_create_event_channel");
        }
        // SAFETY: it was just made, and has no ids.
        unsafe { (self.rdma_destroy_event_channel)(channel) };
        Ok(self)
    }
}

/// `_ibv_query_gid_ex`, which rdma-core has since 32.
pub(crate) fn query_gid_ex() -> Option<QueryGidEx> {
    let found = symbol(open("libibverbs.so.1\0").ok()?, "_ibv_query_gid_ex\0")?;
    // SAFETY: the function of this name has this type since rdma-core 32.
    Some(unsafe { std::mem::transmute::<*mut c_void, QueryGidEx>(found) })
}

/// Loads the library; `file` ends with a zero.
fn open(file: &str) -> Result<*mut c_void, String> {
    // SAFETY: a name with a zero at its end; the library's own initialisers are as safe as those of a program that is
    // linked with it.
    let handle = unsafe { libc::dlopen(file.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: the text of the last failure of this thread, if there is one.
    let text = unsafe { libc::dlerror() };
    let why = if text.is_null() {
        String::new()
    } else {
        // SAFETY: a C string, valid until the next call of the loader.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Err(why)
}

/// `name` ends with a zero.
fn symbol(handle: *mut c_void, name: &str) -> Option<*mut c_void> {
    // SAFETY: a library that is loaded, and a name with a zero at its end.
    let found = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
    (!found.is_null()).then_some(found)
}
