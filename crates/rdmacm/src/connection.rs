//! Listening, calling, accepting, refusing, ending.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use libc::{c_int, c_void};
use uroce_device::cm::{
    Acceptance, Answer, Call, CommId, PortSpace, Question, RejReason, ServiceId, SidrStatus, State,
};
use uroce_device::wire::Qpn;
use uroce_device::{Device, Interface};

use super::abi::{rdma_cm_id, rdma_conn_param};
use super::channel::channel_of;
use super::contexts::{self, Used};
use super::ending::tell_at_exit;
use super::endpoint::complete;
use super::id::{Id, State as IdState, bind, id_of};
use super::registry;
use crate::errno::{Errno, INVALID};
use crate::outcome::call;
use crate::settings;

/// READs and atomics in flight, each way, if the program wants as many as there can be.
const MOST_READS: u8 = 128;
/// Calls that wait for an answer, if the program does not care.
const BACKLOG: usize = 1024;
/// How often a program that refuses a call looks whether the refusal has left.
const SEEN_OFF: u32 = 10;
/// The time between two looks.
const PAUSE: Duration = Duration::from_micros(100);
/// The Q_Key of services of datagrams (`RDMA_UDP_QKEY`).
pub(crate) const UDP_QKEY: u32 = 0x0123_4567;

/// What a program says when it calls or accepts, in our words.
pub(crate) struct Param {
    qpn: Qpn,
    responder_resources: u8,
    initiator_depth: u8,
    flow_control: bool,
    retry_count: u8,
    rnr_retry_count: u8,
    private_data: Vec<u8>,
}

/// # Safety
/// By the contract.
unsafe fn param_of(id: *mut rdma_cm_id, param: *const rdma_conn_param) -> Param {
    let most = MOST_READS;
    // SAFETY: by the contract.
    let (qp, given) = unsafe { ((*id).qp, param.as_ref()) };
    // SAFETY: by the contract.
    let own = (!qp.is_null()).then(|| unsafe { (*qp).qp_num });
    let Some(given) = given else {
        return Param {
            qpn: Qpn::new(own.unwrap_or(0)),
            responder_resources: most,
            initiator_depth: most,
            flow_control: false,
            retry_count: 7,
            rnr_retry_count: 7,
            private_data: Vec::new(),
        };
    };
    Param {
        qpn: Qpn::new(own.unwrap_or(given.qp_num)),
        responder_resources: given.responder_resources.min(most),
        initiator_depth: given.initiator_depth.min(most),
        flow_control: given.flow_control != 0,
        retry_count: given.retry_count.min(7),
        rnr_retry_count: given.rnr_retry_count.min(7),
        // SAFETY: by the contract.
        private_data: unsafe { bytes(given.private_data, given.private_data_len) },
    }
}

/// # Safety
/// `length` bytes, or null.
unsafe fn bytes(data: *const c_void, length: u8) -> Vec<u8> {
    if data.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), usize::from(length)) }.to_vec()
}

/// rdma_listen(3). An id that is bound to no device listens on all of its family.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    call("rdma_listen", || {
        // SAFETY: by the contract.
        let inner = unsafe { id_of(id)? };
        let backlog = usize::try_from(backlog).ok().filter(|&n| n > 0).unwrap_or(BACKLOG);
        let mut state = inner.state();
        if !state.listens.is_empty() || state.connection.is_some() {
            return Err(INVALID);
        }
        if state.local.is_none() {
            let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            // SAFETY: by the contract.
            unsafe { bind(id, inner, &mut state, any)? };
        }
        let service = ServiceId::new(inner.space, state.local.map_or(0, |local| local.port()));
        // SAFETY: by the contract.
        let channel = unsafe { channel_of((*id).channel)? };
        for used in devices_of(&state)? {
            let cookie = registry::add(id, &used.card);
            if let Err(error) =
                used.card.device.cm_listen(service, backlog, &channel.events, cookie)
            {
                // It listens on all of them or on none.
                stop_listening(&mut state);
                return Err(error.into());
            }
            let (port, address) = (service.port(), used.address);
            crate::log::tell(&format_args!("listening for calls to port {port} of {address}"));
            state.listens.push((used, service));
        }
        Ok(())
    })
}

/// Takes no more calls.
pub(super) fn stop_listening(state: &mut IdState) {
    for (used, service) in state.listens.drain(..) {
        // It listened until now, so this cannot fail.
        let _ = used.card.device.cm_unlisten(service);
    }
}

/// The devices on which an id listens.
fn devices_of(state: &IdState) -> Result<Vec<Used>, Errno> {
    if let Some(used) = state.used.clone() {
        return Ok(vec![used]);
    }
    let to = state.local.ok_or(INVALID)?.ip();
    let only_family = state.options.only_family(to);
    let fits = |device: &Interface| !only_family || device.address.is_ipv4() == to.is_ipv4();
    let devices: Vec<Used> =
        settings::devices().into_iter().filter(fits).flat_map(contexts::on).collect();
    if devices.is_empty() {
        crate::log::explain(&format_args!("there is no device to listen on for calls to {to}"));
        return Err(Errno(libc::ENODEV));
    }
    Ok(devices)
}

/// rdma_connect(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_connect(
    id: *mut rdma_cm_id,
    param: *mut rdma_conn_param,
) -> c_int {
    call("rdma_connect", || {
        // SAFETY: by the contract.
        let (inner, param) = unsafe { (id_of(id)?, param_of(id, param)) };
        // SAFETY: by the contract.
        let channel = unsafe { channel_of((*id).channel)? };
        let mut state = inner.state();
        if state.connection.is_some() || !state.listens.is_empty() {
            return Err(INVALID);
        }
        let (used, peer) = (state.used.clone().ok_or(INVALID)?, state.peer.ok_or(INVALID)?);
        let port = state.local.map_or(0, |local| local.port());
        let service = ServiceId::new(inner.space, peer.port());
        let (device, cookie) = (&used.card.device, registry::add(id, &used.card));
        let connection = if inner.space == PortSpace::Udp {
            let private_data = param.private_data;
            let question =
                Question { source_port: port, private_data, ..Question::new(peer.ip(), service) };
            device.cm_resolve(&question, &channel.events, cookie)?
        } else {
            let call = call_of(&state, param, (peer.ip(), service, port));
            // SAFETY: by the contract.
            if unsafe { (*id).qp.is_null() } {
                device.cm_connect_only(&call, &channel.events, cookie)?
            } else {
                device.cm_connect(&call, &channel.events, cookie)?
            }
        };
        state.connection = Some(connection);
        drop(state);
        registry::add_name(id, &used.card, connection);
        // SAFETY: by the contract.
        unsafe { complete(id) }
    })
}

fn call_of(state: &IdState, param: Param, (peer, service, port): (IpAddr, ServiceId, u16)) -> Call {
    let call = Call::new(peer, service, param.qpn, state.start_psn);
    // As the kernel has it: the path is as long as the program's timeout says.
    let wanted = state.options.ack_timeout.map(|timeout| timeout.saturating_sub(1));
    Call {
        source_port: port,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control,
        retry_count: param.retry_count,
        rnr_retry_count: param.rnr_retry_count,
        private_data: param.private_data,
        packet_lifetime: wanted.unwrap_or(call.packet_lifetime),
        ack_timeout: state.options.ack_timeout,
        traffic_class: state.options.traffic_class(),
        ..call
    }
}

/// The device and the connection of an id.
fn connected(inner: &Id) -> Result<(Used, CommId), Errno> {
    let state = inner.state();
    Ok((state.used.clone().ok_or(INVALID)?, state.connection.ok_or(Errno(libc::ENOTCONN))?))
}

/// rdma_accept(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_accept(
    id: *mut rdma_cm_id,
    param: *mut rdma_conn_param,
) -> c_int {
    call("rdma_accept", || {
        // SAFETY: by the contract.
        let (inner, param) = unsafe { (id_of(id)?, param_of(id, param)) };
        let (used, connection) = connected(inner)?;
        if inner.space == PortSpace::Udp {
            let (status, qpn, private_data) = (SidrStatus::VALID, param.qpn, param.private_data);
            let answer = Answer { status, qpn, qkey: UDP_QKEY, private_data };
            return Ok(used.card.device.cm_answer(connection, &answer)?);
        }
        let acceptance = acceptance(&inner.state(), Some(param));
        // SAFETY: by the contract.
        if unsafe { (*id).qp.is_null() } {
            used.card.device.cm_accept_only(connection, &acceptance)?;
        } else {
            used.card.device.cm_accept(connection, &acceptance)?;
        }
        // SAFETY: by the contract.
        unsafe { complete(id) }
    })
}

/// How a request is accepted; without parameters, with as many READs as its caller wants.
pub(crate) fn acceptance(state: &IdState, param: Option<Param>) -> Acceptance {
    let acceptance = Acceptance::new(Qpn::new(0), state.start_psn);
    let acceptance = Acceptance { ack_timeout: state.options.ack_timeout, ..acceptance };
    let Some(param) = param else {
        let (responder_resources, initiator_depth) = (MOST_READS, MOST_READS);
        return Acceptance { responder_resources, initiator_depth, ..acceptance };
    };
    Acceptance {
        qpn: param.qpn,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control,
        rnr_retry_count: param.rnr_retry_count,
        private_data: param.private_data,
        ..acceptance
    }
}

/// rdma_reject(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_reject(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    call("rdma_reject", || {
        // SAFETY: by the contract.
        let (inner, private_data) = unsafe { (id_of(id)?, bytes(data, length)) };
        let (used, connection) = connected(inner)?;
        let device = &used.card.device;
        if inner.space == PortSpace::Udp {
            let refusal = Answer { private_data, ..Answer::refusal(SidrStatus::REJECTED) };
            return Ok(device.cm_answer(connection, &refusal)?);
        }
        device.cm_reject(connection, RejReason::CONSUMER, &private_data)?;
        see_off(device);
        Ok(())
    })
}

/// rdma_disconnect(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    call("rdma_disconnect", || {
        // SAFETY: by the contract.
        let (used, connection) = connected(unsafe { id_of(id)? })?;
        let device = &used.card.device;
        // The peer was faster, and this only confirms that it is over.
        if matches!(device.cm_state(connection), None | Some(State::DreqSent | State::Timewait)) {
            return Ok(());
        }
        device.cm_disconnect(connection, &[])?;
        tell_at_exit();
        // SAFETY: by the contract.
        unsafe { complete(id) }
    })
}

/// A refusal for another process on this address may have come back to this one, which must pass it on
/// before it ends.
fn see_off(device: &Device) {
    for _ in 0..SEEN_OFF {
        device.drive_unless_busy();
        std::thread::sleep(PAUSE);
    }
}

/// rdma_establish(3): of connections with a queue pair of the program's own. The device establishes
/// the others by itself.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    call("rdma_establish", || {
        // SAFETY: by the contract.
        let (inner, has_qp) = unsafe { (id_of(id)?, !(*id).qp.is_null()) };
        if has_qp {
            return Err(INVALID);
        }
        let (used, connection) = connected(inner)?;
        Ok(used.card.device.cm_establish(connection)?)
    })
}

/// `IBV_EVENT_COMM_EST`.
const COMM_EST: c_int = 4;

/// rdma_notify(3): a queue pair that the program readied itself has heard of its peer. The device sees by itself what
/// the others receive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_notify(id: *mut rdma_cm_id, event: c_int) -> c_int {
    call("rdma_notify", || {
        if event != COMM_EST {
            return Err(INVALID);
        }
        // SAFETY: by the contract.
        let (used, connection) = connected(unsafe { id_of(id)? })?;
        used.card.device.cm_handle_comm_est(connection);
        Ok(())
    })
}
