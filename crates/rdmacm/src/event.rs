//! Events as the program has them.

use std::ffi::CStr;
use std::sync::Arc;

use libc::{c_char, c_int};
use uroce_ibverbs::errno::Errno;
use uroce_ibverbs::object::{Object, zeroed};
use uroce_ibverbs::unacknowledged::Unacknowledged;
use uroce_verbs_abi::{rdma_cm_event, rdma_cm_id, rdma_event_param};

use crate::conn_param::bytes;

/// What an event that the program has holds on to.
struct Held {
    /// Its private data.
    _data: Box<[u8]>,
    /// Counts the events of the id that is not destroyed before this one is acknowledged: for a request the listener.
    counted: Arc<Unacknowledged>,
}

type EventObject = Object<rdma_cm_event, Held>;

/// What an event says beside its type.
pub(crate) struct Told {
    event: c_int,
    status: c_int,
    data: Box<[u8]>,
    pub(crate) param: rdma_event_param,
}

pub(crate) fn told(event: c_int, status: c_int, data: Box<[u8]>) -> Told {
    // SAFETY: integers and null pointers.
    let mut param: rdma_event_param = unsafe { zeroed() };
    // In both forms the private data comes first.
    param.conn.private_data = if data.is_empty() { std::ptr::null() } else { data.as_ptr().cast() };
    param.conn.private_data_len = u8::try_from(data.len()).unwrap_or(u8::MAX);
    Told { event, status, data, param }
}

/// The event for the program; `counted` was counted already.
pub(crate) fn give(
    id: *mut rdma_cm_id,
    listen_id: *mut rdma_cm_id,
    counted: Arc<Unacknowledged>,
    told: Told,
) -> *mut rdma_cm_event {
    let Told { event, status, data, param } = told;
    // The data stays where it is when its box moves.
    EventObject::create(
        rdma_cm_event { id, listen_id, event, status, param },
        Held { _data: data, counted },
    )
}

/// The same event, counted for another id: that of a request for the id that was made for it, so that the listener may
/// go first.
///
/// # Safety
/// An event that has no other owner, and is not used any more.
pub(crate) unsafe fn recounted(
    event: *mut rdma_cm_event,
    counted: &Arc<Unacknowledged>,
) -> *mut rdma_cm_event {
    // SAFETY: the caller's promise; the private data is as long as the event says, and lives as long as it.
    unsafe {
        let (c, conn) = (&*event, (*event).param.conn);
        let data = bytes(conn.private_data, conn.private_data_len).into_boxed_slice();
        let mut told = told(c.event, c.status, data);
        let private_data = told.param.conn.private_data;
        told.param = c.param;
        told.param.conn.private_data = private_data;
        counted.add();
        let same = give(c.id, c.listen_id, Arc::clone(counted), told);
        acknowledge(event);
        same
    }
}

/// ENOENT: there is no event at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn find(event: *const rdma_cm_event) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { EventObject::live_any_process(event) }.map(|_| ())
}

/// Frees an event; its id may be destroyed then.
///
/// # Safety
/// An event that is not used any more.
pub(crate) unsafe fn acknowledge(event: *mut rdma_cm_event) {
    // SAFETY: the caller's promise; an id outlives its events.
    unsafe {
        let counted = EventObject::of(event).map(|held| Arc::clone(&held.counted));
        EventObject::destroy(event);
        if let Some(counted) = counted {
            counted.acknowledge(1);
        }
    }
}

/// The event is the id's from now on, or none is if it is null; the one that the id had is freed.
///
/// # Safety
/// A living id, and null or an event that has no other owner.
pub(crate) unsafe fn keep(id: *mut rdma_cm_id, event: *mut rdma_cm_event) {
    // SAFETY: the caller's promise; an event that an id has is its own.
    unsafe {
        let old = std::mem::replace(&mut (*id).event, event);
        if !old.is_null() {
            acknowledge(old);
        }
    }
}

/// rdma_event_str(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rdma_event_str(event: c_int) -> *const c_char {
    const NAMES: [&CStr; 19] = [
        c"RDMA_CM_EVENT_ADDR_RESOLVED",
        c"RDMA_CM_EVENT_ADDR_ERROR",
        c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        c"RDMA_CM_EVENT_ROUTE_ERROR",
        c"RDMA_CM_EVENT_CONNECT_REQUEST",
        c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        c"RDMA_CM_EVENT_CONNECT_ERROR",
        c"RDMA_CM_EVENT_UNREACHABLE",
        c"RDMA_CM_EVENT_REJECTED",
        c"RDMA_CM_EVENT_ESTABLISHED",
        c"RDMA_CM_EVENT_DISCONNECTED",
        c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        c"RDMA_CM_EVENT_MULTICAST_JOIN",
        c"RDMA_CM_EVENT_MULTICAST_ERROR",
        c"RDMA_CM_EVENT_ADDR_CHANGE",
        c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
        c"RDMA_CM_EVENT_ADDRINFO_ERROR",
        c"RDMA_CM_EVENT_USER",
    ];
    let name = usize::try_from(event).ok().and_then(|index| NAMES.get(index));
    name.copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}
