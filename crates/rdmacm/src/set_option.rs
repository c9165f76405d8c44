//! rdma_set_option(3).

use libc::{c_int, c_void};
use uroce_device::CmEventKind;
use uroce_device::cm::PortSpace;
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::call;
use uroce_verbs_abi::{
    RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
    RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_TOS, rdma_cm_id,
};

use crate::channel::post;
use crate::id::{Id, id_of, set_path_record};
use crate::ports;

/// The field has 5 bits.
const MOST_ACK_TIMEOUT: u8 = 31;
/// `struct ibv_path_data`: flags, four reserved bytes, and a path record of 64 bytes.
const PATH_DATA: usize = 72;
/// Both ways, for data and management: the only paths that a kernel takes
/// (`IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL`).
const PATH_FLAGS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 5;
/// Where the lifetime of packets stands in it; the upper two bits say how it is meant.
const PATH_LIFETIME: usize = 8 + 56;

/// rdma_set_option(3).
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
                (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => set_path(id, inner, value, length)?,
                _ => return Err(Errno(libc::ENOSYS)),
            }
        }
        Ok(())
    })
}

/// The way to the peer, given instead of looked up by `rdma_resolve_route`. As with a kernel on RoCE, addresses are those
/// that were resolved, and the system routes; the lifetime of packets counts.
///
/// # Safety
/// A living id; null, or `length` bytes.
unsafe fn set_path(
    id: *mut rdma_cm_id,
    inner: &Id,
    value: *const c_void,
    length: usize,
) -> Result<(), Errno> {
    let value = not_null(value.cast_mut())?.cast::<u8>();
    if length == 0 || !length.is_multiple_of(PATH_DATA) {
        return Err(INVALID);
    }
    // SAFETY: the caller's promise.
    let paths = unsafe { std::slice::from_raw_parts(value, length) }.chunks_exact(PATH_DATA);
    let flags = |path: &[u8]| path.first_chunk().copied().map(u32::from_ne_bytes);
    let path = paths.into_iter().find(|path| flags(path) == Some(PATH_FLAGS)).ok_or(INVALID)?;
    let mut state = inner.state();
    let used = state.before_connecting()?;
    state.options.packet_lifetime = Some(path[PATH_LIFETIME] & MOST_ACK_TIMEOUT);
    // SAFETY: a living id, by the caller's promise.
    unsafe { set_path_record(id, &mut state, &used) };
    drop(state);
    // SAFETY: a living id, by the caller's promise.
    unsafe { post(id, Some(&used), CmEventKind::RouteResolved) }
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

/// It can be taken back only while the id has no port.
fn set_reuse(id: *mut rdma_cm_id, inner: &Id, reuse: bool) -> Result<(), Errno> {
    let mut state = inner.state();
    if !state.listens.is_empty() || (!reuse && state.local.is_some()) {
        return Err(INVALID);
    }
    state.options.reuse = reuse;
    if let Some(local) = state.local {
        ports::set_reuse(id, inner.space, local.port(), reuse);
    }
    Ok(())
}

/// It decides whose calls a listener takes, so it comes before the id listens or calls.
pub(crate) fn set_only_family(inner: &Id, only: bool) -> Result<(), Errno> {
    let mut state = inner.state();
    if !state.listens.is_empty() || state.peer.is_some() {
        return Err(INVALID);
    }
    state.options.only_family = Some(only);
    Ok(())
}

fn set_ack_timeout(inner: &Id, timeout: u8) -> Result<(), Errno> {
    // Datagrams are not acknowledged.
    if timeout > MOST_ACK_TIMEOUT || inner.space == PortSpace::Udp {
        return Err(INVALID);
    }
    inner.state().options.ack_timeout = Some(timeout);
    Ok(())
}
