//! Events, from the device to the program.

use std::ffi::CStr;
use std::net::IpAddr;
use std::ptr::null_mut;

use libc::{c_char, c_int};
use uroce_device::cm::{CommId, ConnectionRequest, SidrStatus};
use uroce_device::transport::AddressVector;
use uroce_device::wire::Qpn;
use uroce_device::{CmEvent, CmEventKind};

use super::abi::{rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_param, rdma_ud_param};
use super::connection::UDP_QKEY;
use super::id::{self, id_of};
use super::registry::{Counted, by_cookie, by_name};
use crate::ah::attr_of;
use crate::object::{Object, zeroed};

pub(crate) const ADDR_RESOLVED: c_int = 0;
const ROUTE_RESOLVED: c_int = 2;
pub(crate) const CONNECT_REQUEST: c_int = 4;
const CONNECT_RESPONSE: c_int = 5;
pub(crate) const CONNECT_ERROR: c_int = 6;
pub(crate) const UNREACHABLE: c_int = 7;
pub(crate) const REJECTED: c_int = 8;
pub(crate) const ESTABLISHED: c_int = 9;
pub(crate) const DISCONNECTED: c_int = 10;
const MULTICAST_JOIN: c_int = 12;
const TIMEWAIT_EXIT: c_int = 15;
/// `IBV_QPS_RTS`.
const RTS: c_int = 3;

/// What an event that the program has holds on to.
struct Held {
    /// Its private data.
    _data: Box<[u8]>,
    /// The id that is not destroyed before the event is acknowledged: for a request the listener.
    counted: *mut rdma_cm_id,
}

type Whole = Object<rdma_cm_event, Held>;

/// What an event says beside its type.
struct Told {
    event: c_int,
    status: c_int,
    data: Box<[u8]>,
    param: rdma_event_param,
}

fn told(event: c_int, status: c_int, data: Box<[u8]>) -> Told {
    // SAFETY: integers and null pointers.
    let mut param: rdma_event_param = unsafe { zeroed() };
    // In both forms the private data comes first.
    param.conn.private_data = if data.is_empty() { std::ptr::null() } else { data.as_ptr().cast() };
    param.conn.private_data_len = u8::try_from(data.len()).unwrap_or(u8::MAX);
    Told { event, status, data, param }
}

/// The event as the program gets it; `None`: its id is gone.
pub(crate) fn translate(event: CmEvent) -> Option<*mut rdma_cm_event> {
    let listener = by_cookie(event.cookie)?;
    match event.kind {
        CmEventKind::ConnectRequest(request) => {
            let id = id::called(&listener, event.id, &request.ip, request.remote)?;
            Some(give_called(id, listener, requested(*request)))
        }
        CmEventKind::ResolveRequest { remote, ip, private_data, .. } => {
            let id = id::called(&listener, event.id, &ip, remote)?;
            Some(give_called(id, listener, told(CONNECT_REQUEST, 0, private_data)))
        }
        kind => {
            let id = by_name(&listener.card, event.id).or_else(|| own(listener, event.id))?;
            let told = about(id.id, kind)?;
            let id = id.give();
            Some(give(id, null_mut(), id, told))
        }
    }
}

/// An event that names no id of its own is about the id whose cookie it bears, unless that one listens: then it is
/// about one that was called and is gone.
fn own(id: Counted, connection: CommId) -> Option<Counted> {
    // SAFETY: what is counted is alive.
    let is_own = connection == CommId::NONE
        || unsafe { id_of(id.id) }.is_ok_and(|inner| inner.state().listens.is_empty());
    is_own.then_some(id)
}

fn requested(request: ConnectionRequest) -> Told {
    let mut told = told(CONNECT_REQUEST, 0, request.private_data);
    // SAFETY: connections use this member.
    let conn: &mut rdma_conn_param = unsafe { &mut told.param.conn };
    conn.responder_resources = request.responder_resources;
    conn.initiator_depth = request.initiator_depth;
    conn.flow_control = u8::from(request.flow_control);
    conn.retry_count = request.retry_count;
    conn.rnr_retry_count = request.rnr_retry_count;
    conn.srq = u8::from(request.srq);
    conn.qp_num = request.remote_qpn.get();
    told
}

fn about(id: *mut rdma_cm_id, kind: CmEventKind) -> Option<Told> {
    let nothing = Box::default;
    Some(match kind {
        CmEventKind::AddrResolved => told(ADDR_RESOLVED, 0, nothing()),
        CmEventKind::RouteResolved => told(ROUTE_RESOLVED, 0, nothing()),
        CmEventKind::Established { private_data } => {
            note_ready(id);
            told(ESTABLISHED, 0, private_data)
        }
        CmEventKind::Accepted { link, private_data } => {
            // SAFETY: the id is alive.
            unsafe { id_of(id) }.ok()?.state().link = Some(link);
            told(CONNECT_RESPONSE, 0, private_data)
        }
        CmEventKind::MulticastJoined { group } => return joined(id, group),
        CmEventKind::Rejected { reason, private_data } => {
            told(REJECTED, c_int::from(reason.0), private_data)
        }
        CmEventKind::ConnectError(error) => told(CONNECT_ERROR, -error.errno(), nothing()),
        CmEventKind::Unreachable => told(UNREACHABLE, -libc::ETIMEDOUT, nothing()),
        CmEventKind::Disconnected { private_data } => told(DISCONNECTED, 0, private_data),
        CmEventKind::TimewaitExit => told(TIMEWAIT_EXIT, 0, nothing()),
        CmEventKind::Resolved { status, qpn, qkey, private_data } => {
            if status != SidrStatus::VALID {
                return Some(told(UNREACHABLE, c_int::from(status.0), private_data));
            }
            let mut told = told(ESTABLISHED, 0, private_data);
            // SAFETY: datagrams use this member; the id is alive.
            let ud: &mut rdma_ud_param = unsafe { &mut told.param.ud };
            // SAFETY: as above.
            ud.ah_attr = attr_of(&unsafe { id_of(id) }.ok().and_then(|id| id.path())?);
            (ud.qp_num, ud.qkey) = (qpn.get(), qkey);
            told
        }
        _ => return None,
    })
}

/// How to send to a group; in the place of private data is what the program gave when it joined.
fn joined(id: *mut rdma_cm_id, group: IpAddr) -> Option<Told> {
    // SAFETY: the id is alive.
    let inner = unsafe { id_of(id) }.ok()?;
    let state = inner.state();
    let local = state.used.as_ref()?.address;
    let context = state.joined.iter().find(|joined| joined.group == group)?.context;
    let mut told = told(MULTICAST_JOIN, 0, Box::default());
    // SAFETY: datagrams use this member.
    let ud: &mut rdma_ud_param = unsafe { &mut told.param.ud };
    ud.private_data = context;
    let traffic_class = state.options.traffic_class();
    ud.ah_attr = attr_of(&AddressVector { traffic_class, ..path_to(group, local) });
    (ud.qp_num, ud.qkey) = (Qpn::MULTICAST.get(), UDP_QKEY);
    Some(told)
}

/// The queue pair of a connection that stands can send; programs may look at its state.
fn note_ready(id: *mut rdma_cm_id) {
    // SAFETY: the id is alive, and so is its queue pair.
    unsafe {
        if let Some(qp) = (*id).qp.as_mut() {
            qp.state = RTS;
        }
    }
}

/// A call: the listener stays as long as the event.
fn give_called(id: *mut rdma_cm_id, listener: Counted, told: Told) -> *mut rdma_cm_event {
    let listener = listener.give();
    give(id, listener, listener, told)
}

/// `counted` was counted already.
fn give(
    id: *mut rdma_cm_id,
    listen_id: *mut rdma_cm_id,
    counted: *mut rdma_cm_id,
    told: Told,
) -> *mut rdma_cm_event {
    let Told { event, status, data, param } = told;
    // The data stays where it is when its box moves.
    Whole::create(
        rdma_cm_event { id, listen_id, event, status, param },
        Held { _data: data, counted },
    )
}

/// Frees an event; its id may be destroyed then.
///
/// # Safety
/// The program had it, or nobody; nobody uses it any more.
pub(crate) unsafe fn acknowledge(event: *mut rdma_cm_event) {
    // SAFETY: the caller's promise; an id outlives its events.
    unsafe {
        let counted = Whole::of(event).map(|held| held.counted);
        Whole::destroy(event);
        if let Some(Ok(id)) = counted.map(|id| id_of(id)) {
            id.unacknowledged.acknowledge(1);
        }
    }
}

/// The event is the id's from now on, or none is if it is null; the one that the id had is freed.
///
/// # Safety
/// A living id, and an event that nobody else has.
pub(super) unsafe fn keep(id: *mut rdma_cm_id, event: *mut rdma_cm_event) {
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
    const NAMES: [&CStr; 16] = [
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
    ];
    let name = usize::try_from(event).ok().and_then(|index| NAMES.get(index));
    name.copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}

/// The path to a peer, for address handles.
pub(crate) fn path_to(remote: IpAddr, local: IpAddr) -> AddressVector {
    AddressVector::new(local, remote)
}
