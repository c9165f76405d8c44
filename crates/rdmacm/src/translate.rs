//! Events, from the device to the program.

use std::net::{IpAddr, SocketAddr};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::c_int;
use uroce_device::cm::{CommId, ConnectionReply, ConnectionRequest, Ece, IpCm, SidrStatus};
use uroce_device::transport::AddressVector;
use uroce_device::wire::Qpn;
use uroce_device::{CmEvent, CmEventKind};
use uroce_ibverbs::ah::attr_of;
use uroce_ibverbs::open_device::OpenDevice;
use uroce_ibverbs::qp::live_qp;
use uroce_verbs_abi::{
    IBV_QPS_RTS, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDRINFO_ERROR,
    RDMA_CM_EVENT_ADDRINFO_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_CONNECT_REQUEST,
    RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED,
    RDMA_CM_EVENT_MULTICAST_JOIN, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_RESOLVED,
    RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_USER, RDMA_UDP_QKEY,
    rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_ud_param,
};

use crate::event::{Told, give, told};
use crate::id::{id_of, make, path_to, set_path_record, settle};
use crate::queue_pair::flush;
use crate::registry::{self, Counted, Served, by_cookie, by_name};

/// The event as the program gets it; `None`: its id is gone.
pub(crate) fn translate(event: CmEvent) -> Option<*mut rdma_cm_event> {
    match event.kind {
        CmEventKind::ConnectRequest(request) => {
            let listener = listener_of(event.cookie, event.id)?;
            let from = (request.remote, request.ece);
            let id = called(&listener, event.id, &request.ip, from)?;
            Some(give_called(id, listener, requested(*request)))
        }
        CmEventKind::ResolveRequest { remote, ip, private_data, .. } => {
            let listener = listener_of(event.cookie, event.id)?;
            let id = called(&listener, event.id, &ip, (remote, Ece::default()))?;
            Some(give_called(id, listener, told(RDMA_CM_EVENT_CONNECT_REQUEST, 0, private_data)))
        }
        kind => {
            // The listener may have gone before the connection that came to it.
            let id = by_name(event.cookie, event.id)
                .or_else(|| own(by_cookie(event.cookie)?, event.id))?;
            let told = about(id.id, kind)?;
            let about = id.id;
            Some(give(about, null_mut(), id.give(), told))
        }
    }
}

/// The listener that a request came to. If another thread has destroyed it meanwhile, the caller is told that nobody takes
/// its call.
fn listener_of(cookie: u64, connection: CommId) -> Option<Counted> {
    let listener = by_cookie(cookie);
    if listener.is_none()
        && let Some(open_device) = registry::device_of(cookie)
    {
        open_device.device.cm().release(connection);
    }
    listener
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
    let mut told = told(RDMA_CM_EVENT_CONNECT_REQUEST, 0, request.private_data);
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

/// What the peer has answered a call, if it was one of ours.
fn replied(event: c_int, reply: Option<ConnectionReply>, private_data: Box<[u8]>) -> Told {
    let mut told = told(event, 0, private_data);
    let Some(reply) = reply else { return told };
    // SAFETY: connections use this member.
    let conn: &mut rdma_conn_param = unsafe { &mut told.param.conn };
    conn.responder_resources = reply.responder_resources;
    conn.initiator_depth = reply.initiator_depth;
    conn.flow_control = u8::from(reply.flow_control);
    conn.rnr_retry_count = reply.rnr_retry_count;
    conn.srq = u8::from(reply.srq);
    conn.qp_num = reply.remote_qpn.get();
    told
}

fn about(id: *mut rdma_cm_id, kind: CmEventKind) -> Option<Told> {
    let nothing = Box::default;
    Some(match kind {
        CmEventKind::AddrResolved => told(RDMA_CM_EVENT_ADDR_RESOLVED, 0, nothing()),
        CmEventKind::RouteResolved => told(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, nothing()),
        CmEventKind::AddrinfoResolved { errno: 0 } => {
            told(RDMA_CM_EVENT_ADDRINFO_RESOLVED, 0, nothing())
        }
        CmEventKind::AddrinfoResolved { errno } => {
            told(RDMA_CM_EVENT_ADDRINFO_ERROR, -errno, nothing())
        }
        CmEventKind::User { status, arg } => {
            let mut told = told(RDMA_CM_EVENT_USER, status, nothing());
            told.param.arg = arg;
            told
        }
        CmEventKind::Established { reply, private_data } => {
            note_ready(id);
            replied(RDMA_CM_EVENT_ESTABLISHED, reply, private_data)
        }
        CmEventKind::Accepted { link, reply, private_data } => {
            // SAFETY: the id is alive.
            let mut state = unsafe { id_of(id) }.ok()?.state();
            (state.link, state.remote_ece) = (Some(link), reply.ece);
            replied(RDMA_CM_EVENT_CONNECT_RESPONSE, Some(reply), private_data)
        }
        CmEventKind::MulticastJoined { group } => return joined(id, group),
        CmEventKind::Rejected { reason, private_data, .. } => {
            // SAFETY: the id is alive.
            unsafe { flush(id) };
            told(RDMA_CM_EVENT_REJECTED, c_int::from(reason.0), private_data)
        }
        CmEventKind::ConnectError(error) => {
            // SAFETY: the id is alive.
            unsafe { flush(id) };
            told(RDMA_CM_EVENT_CONNECT_ERROR, -error.errno(), nothing())
        }
        CmEventKind::Unreachable => told(RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT, nothing()),
        CmEventKind::Disconnected { unanswered, private_data } => {
            let status = if unanswered { -libc::ETIMEDOUT } else { 0 };
            told(RDMA_CM_EVENT_DISCONNECTED, status, private_data)
        }
        CmEventKind::TimewaitExit => told(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, nothing()),
        CmEventKind::Resolved { status, qpn, qkey, private_data } => {
            if status != SidrStatus::VALID {
                return Some(told(RDMA_CM_EVENT_UNREACHABLE, c_int::from(status.0), private_data));
            }
            let mut told = told(RDMA_CM_EVENT_ESTABLISHED, 0, private_data);
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
    let mut told = told(RDMA_CM_EVENT_MULTICAST_JOIN, 0, Box::default());
    // SAFETY: datagrams use this member.
    let ud: &mut rdma_ud_param = unsafe { &mut told.param.ud };
    ud.private_data = context;
    let traffic_class = state.options.traffic_class();
    ud.ah_attr = attr_of(&AddressVector { traffic_class, ..path_to(group, local) });
    (ud.qp_num, ud.qkey) = (Qpn::MULTICAST.get(), RDMA_UDP_QKEY);
    Some(told)
}

/// The queue pair of a connection that stands can send; programs may look at its state.
fn note_ready(id: *mut rdma_cm_id) {
    // SAFETY: the id is alive. The queue pair is looked up first: a program may have destroyed it by `ibv_destroy_qp`,
    // which leaves its address in the id. Nobody destroys it while it is written to: the manual pages forbid a program to
    // do that during a call, and an `OwnedId` takes events under the lock under which its queue pair is destroyed.
    unsafe {
        let qp = (*id).qp;
        if live_qp(qp).is_ok() {
            (*qp).state = IBV_QPS_RTS;
        }
    }
}

/// A call: the listener stays as long as the event.
fn give_called(id: *mut rdma_cm_id, listener: Counted, told: Told) -> *mut rdma_cm_event {
    let listen_id = listener.id;
    give(id, listen_id, listener.give(), told)
}

/// The id of a request that came to `listener`. A caller for whom none can be made is told that nobody takes its call.
fn called(
    listener: &Served,
    connection: CommId,
    ip: &Option<IpCm>,
    from: (IpAddr, Ece),
) -> Option<*mut rdma_cm_id> {
    let open_device = listener.open_device.as_ref()?;
    let id = make_called((listener.id, open_device), connection, ip, from);
    if id.is_none() {
        open_device.device.cm().release(connection);
    }
    id
}

fn make_called(
    (listener, open_device): (*mut rdma_cm_id, &Arc<OpenDevice>),
    connection: CommId,
    ip: &Option<IpCm>,
    (remote, ece): (IpAddr, Ece),
) -> Option<*mut rdma_cm_id> {
    // SAFETY: a registered id is alive.
    let (inner, c) = unsafe { (id_of(listener).ok()?, &*listener) };
    let used =
        inner.state().listens.iter().find_map(|(used, _)| {
            Arc::ptr_eq(&used.open_device, open_device).then(|| used.clone())
        })?;
    let id = make(c.channel, c.context, inner.space, (inner.waits.load(Ordering::Relaxed), false))
        .ok()?;
    // SAFETY: just made.
    let child = unsafe { id_of(id) }.ok()?;
    let port = inner.state().local.map_or(0, |local| local.port());
    let peer = SocketAddr::new(remote, ip.as_ref().map_or(0, |ip| ip.source_port));
    let mut state = child.state();
    state.connection = Some(connection);
    state.peer = Some(peer);
    state.remote_ece = ece;
    // SAFETY: just made.
    unsafe {
        settle(id, &mut state, used.clone(), port);
        set_path_record(id, &mut state, &used);
    }
    drop(state);
    // From now on other threads may get events of it, and destroy it.
    registry::add_name(id, &child.unacknowledged, open_device, connection);
    Some(id)
}
