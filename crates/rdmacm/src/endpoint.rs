//! Ids that wait for their events themselves, and endpoints, which are such ids.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex, PoisonError};

use libc::c_int;
use uroce_device::cm::PortSpace;

use super::abi::{rdma_addrinfo, rdma_cm_event, rdma_cm_id};
use super::channel::channel_of;
use super::event::{CONNECT_REQUEST, REJECTED, keep};
use super::id::{self, id_of, is_inherited, rdma_bind_addr, rdma_destroy_id};
use super::migrate::migrate;
use super::queue_pair::{rdma_create_qp, rdma_destroy_qp};
use super::resolve::{rdma_resolve_addr, rdma_resolve_route};
use super::shared_receive::rdma_destroy_srq;
use crate::abi::{ibv_pd, ibv_qp_init_attr};
use crate::errno::{Errno, INVALID};
use crate::outcome::{minus_one, value};
use crate::query::not_null;

/// `RAI_PASSIVE`.
const PASSIVE: c_int = 1;
/// Nothing here waits that long.
const TIMEOUT_MS: c_int = 2_000;

/// What each request of a listening endpoint gets: the protection domain and the queue pair that its
/// `rdma_create_ep` was given.
struct Wanted {
    pd: *mut ibv_pd,
    init: ibv_qp_init_attr,
}

// SAFETY: the pointers are handed on as the program gave them.
unsafe impl Send for Wanted {}

static WANTED: LazyLock<Mutex<HashMap<usize, Wanted>>> = LazyLock::new(Mutex::default);

/// Waits for the event of the call that has just been made, if the id has no channel of the
/// program's; the event stays with the id until the next call.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn complete(id: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: by the contract.
    unsafe {
        if !id_of(id)?.waits.load(Ordering::Relaxed) {
            return Ok(());
        }
        let event = next_of(id)?;
        keep(id, event);
        match ((*event).status, (*event).event) {
            (0, _) => Ok(()),
            (_, REJECTED) => Err(Errno(libc::ECONNREFUSED)),
            (status, _) if status < 0 => Err(Errno(-status)),
            _ => Err(Errno(libc::ECONNRESET)),
        }
    }
}

/// The next event of this id; those of others stay for them.
///
/// # Safety
/// By the contract.
unsafe fn next_of(id: *mut rdma_cm_id) -> Result<*mut rdma_cm_event, Errno> {
    // SAFETY: by the contract.
    let channel = unsafe { channel_of((*id).channel)? };
    let mut others = Vec::new();
    let found = loop {
        match channel.next() {
            // SAFETY: an event that nobody else has.
            Ok(event) if unsafe { concerns(event, id) } => break Ok(event),
            Ok(event) => others.push(event),
            Err(errno) => break Err(errno),
        }
    };
    others.into_iter().for_each(|event| channel.park(event));
    found
}

/// # Safety
/// The event is alive.
unsafe fn concerns(event: *mut rdma_cm_event, id: *mut rdma_cm_id) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if (*event).event == CONNECT_REQUEST { (*event).listen_id == id } else { (*event).id == id }
    }
}

/// rdma_create_ep(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_ep(
    out: *mut *mut rdma_cm_id,
    info: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one(|| {
        let (out, info) = (not_null(out)?, not_null(info)?);
        // SAFETY: by the contract.
        unsafe {
            let udp = (*info).ai_port_space == PortSpace::Udp as c_int;
            let space = if udp { PortSpace::Udp } else { PortSpace::Tcp };
            let id = id::create(null_mut(), null_mut(), space)?;
            (*id).qp_type = (*info).ai_qp_type;
            if let Err(errno) = set_up(id, &*info, pd, init) {
                rdma_destroy_ep(id);
                return Err(errno);
            }
            *out = id;
        }
        Ok(())
    })
}

/// # Safety
/// By the contract.
unsafe fn set_up(
    id: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: by the contract.
    unsafe {
        if info.ai_flags & PASSIVE != 0 {
            done(rdma_bind_addr(id, info.ai_src_addr))?;
            if let Some(init) = init.as_ref() {
                let wanted = Wanted { pd, init: of_type(init, info) };
                WANTED.lock().unwrap_or_else(PoisonError::into_inner).insert(id.addr(), wanted);
            }
            return Ok(());
        }
        done(rdma_resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, TIMEOUT_MS))?;
        done(rdma_resolve_route(id, TIMEOUT_MS))?;
        let Some(init) = init.as_mut() else { return Ok(()) };
        *init = of_type(init, info);
        done(rdma_create_qp(id, pd, init))
    }
}

/// The queue pair has the type of the address, whatever the program left in its attributes.
fn of_type(init: &ibv_qp_init_attr, info: &rdma_addrinfo) -> ibv_qp_init_attr {
    ibv_qp_init_attr { qp_type: info.ai_qp_type, ..*init }
}

/// The result of a call that returns -1 and sets errno.
pub(crate) fn done(result: c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// rdma_destroy_ep(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    value((), || {
        // SAFETY: by the contract.
        unsafe {
            if is_inherited(id) {
                return;
            }
            if id_of(id).is_err() {
                return;
            }
            WANTED.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.addr());
            if !(*id).qp.is_null() {
                rdma_destroy_qp(id);
            }
            if !(*id).srq.is_null() {
                rdma_destroy_srq(id);
            }
            rdma_destroy_id(id);
        }
    });
}

/// rdma_get_request(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_get_request(
    listener: *mut rdma_cm_id,
    out: *mut *mut rdma_cm_id,
) -> c_int {
    minus_one(|| {
        let out = not_null(out)?;
        // SAFETY: by the contract.
        unsafe {
            if !id_of(listener)?.waits.load(Ordering::Relaxed) {
                return Err(INVALID);
            }
            let event = next_of(listener)?;
            if (*event).event != CONNECT_REQUEST {
                keep(listener, event);
                return Err(INVALID);
            }
            let id = (*event).id;
            keep(id, event);
            // The listener, and with it its channel, may go first.
            migrate(id, null_mut())?;
            if let Some((pd, mut init)) = wanted(listener) {
                done(rdma_create_qp(id, pd, &raw mut init))?;
            }
            *out = id;
        }
        Ok(())
    })
}

fn wanted(listener: *mut rdma_cm_id) -> Option<(*mut ibv_pd, ibv_qp_init_attr)> {
    let all = WANTED.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(&listener.addr()).map(|wanted| (wanted.pd, wanted.init))
}
