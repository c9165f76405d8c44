//! rdma_set_option(3).

use std::net::IpAddr;

use libc::{c_int, c_void};

use super::abi::rdma_cm_id;
use super::id::{Id, id_of};
use super::ports;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::outcome::call;
use crate::query::not_null;

/// `RDMA_OPTION_ID` and its options.
const LEVEL_ID: c_int = 0;
const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;
/// `RDMA_OPTION_IB` and its option.
const LEVEL_IB: c_int = 1;
const IB_PATH: c_int = 1;
/// The field has 5 bits.
const MOST_ACK_TIMEOUT: u8 = 31;
/// Whether IPv6 sockets take IPv4 as well, unless they say.
const BINDV6ONLY: &str = "/proc/sys/net/ipv6/bindv6only";

/// What a program has set for an id.
#[derive(Debug, Default)]
pub(super) struct Options {
    tos: u8,
    pub(super) reuse: bool,
    only_family: Option<bool>,
    /// ACK timeout (code).
    pub(super) ack_timeout: Option<u8>,
}

impl Options {
    /// Traffic class of the packets of a connection.
    pub(super) fn traffic_class(&self) -> u8 {
        self.tos
    }

    /// An id that is bound to this address, if it stands for any, takes calls of its own family only.
    pub(super) fn only_family(&self, address: IpAddr) -> bool {
        address.is_ipv4() || self.only_family.unwrap_or_else(system_only_family)
    }
}

fn system_only_family() -> bool {
    std::fs::read_to_string(BINDV6ONLY).is_ok_and(|text| text.trim() == "1")
}

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
        // SAFETY: by the contract.
        let inner = unsafe { id_of(id)? };
        // SAFETY: by the contract, a value as long as is said.
        unsafe {
            match (level, name) {
                (LEVEL_ID, TOS) => inner.state().options.tos = byte(value, length)?,
                (LEVEL_ID, REUSEADDR) => set_reuse(id, inner, flag(value, length)?)?,
                (LEVEL_ID, AFONLY) => set_only_family(inner, flag(value, length)?)?,
                (LEVEL_ID, ACK_TIMEOUT) => set_ack_timeout(inner, byte(value, length)?)?,
                (LEVEL_IB, IB_PATH) => {
                    crate::log::explain(
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
