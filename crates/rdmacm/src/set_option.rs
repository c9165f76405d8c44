//! rdma_set_option(3).

use libc::{c_int, c_void};
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::call;
use uroce_verbs_abi::{
    RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
    RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_TOS, rdma_cm_id,
};

use crate::id::{Id, id_of};
use crate::ports;

/// The field has 5 bits.
const MOST_ACK_TIMEOUT: u8 = 31;
/// rdma_set_option(3). Paths of InfiniBand cannot be set: on RoCE, the routes of the system are the paths.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: usize,
) -> c_int {
    call("rdma_set_option", || {
        let inner = object_of!(id_of(id))?;
        // SAFETY: null, or a value as long as the program says.
        unsafe {
            match (level, name) {
                (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => {
                    inner.state().options.tos = byte(value, length)?
                }
                (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
                    set_reuse(id, inner, flag(value, length)?)?
                }
                (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
                    set_only_family(inner, flag(value, length)?)?
                }
                (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => {
                    set_ack_timeout(inner, byte(value, length)?)?
                }
                (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => {
                    uroce_ibverbs::log::explain(
                        &"RDMA_OPTION_IB_PATH is for InfiniBand: the system routes RoCE",
                    );
                    return Err(NOT_SUPPORTED);
                }
                _ => return Err(Errno(libc::ENOSYS)),
            }
        }
        Ok(())
    })
}

/// # Safety
/// Null, or `length` bytes.
unsafe fn byte(value: *const c_void, length: usize) -> Result<u8, Errno> {
    let value = not_null(value.cast_mut())?.cast::<u8>();
    if length != size_of::<u8>() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { *value })
}

/// # Safety
/// Null, or `length` bytes.
unsafe fn flag(value: *const c_void, length: usize) -> Result<bool, Errno> {
    let value = not_null(value.cast_mut())?.cast::<c_int>();
    if length != size_of::<c_int>() {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise; it may lie anywhere.
    Ok(unsafe { value.read_unaligned() } != 0)
}

fn set_reuse(id: *mut rdma_cm_id, inner: &Id, reuse: bool) -> Result<(), Errno> {
    let mut state = inner.state();
    if !state.listens.is_empty() {
        return Err(INVALID);
    }
    state.options.reuse = reuse;
    if let Some(local) = state.local {
        ports::set_reuse(id, inner.space, local.port(), reuse);
    }
    Ok(())
}

/// It decides what a port excludes, so it comes before the id has one.
fn set_only_family(inner: &Id, only: bool) -> Result<(), Errno> {
    let mut state = inner.state();
    if state.local.is_some() {
        return Err(INVALID);
    }
    state.options.only_family = Some(only);
    Ok(())
}

fn set_ack_timeout(inner: &Id, timeout: u8) -> Result<(), Errno> {
    if timeout > MOST_ACK_TIMEOUT {
        return Err(INVALID);
    }
    inner.state().options.ack_timeout = Some(timeout);
    Ok(())
}
