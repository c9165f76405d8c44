//! Calling, accepting, refusing, ending.

use std::net::IpAddr;
use std::time::Duration;

use libc::{c_int, c_void};
use uroce_device::Device;
use uroce_device::cm::{
    Answer, Call, CommId, PortSpace, Question, RejReason, ServiceId, SidrStatus, State,
};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::call;
use uroce_verbs_abi::{IBV_EVENT_COMM_EST, RDMA_UDP_QKEY, rdma_cm_id, rdma_conn_param};

use crate::channel::channel_of;
use crate::conn_param::{Param, acceptance, bytes, param_of};
use crate::contexts::Used;
use crate::ending::tell_at_exit;
use crate::id::{Id, State as IdState, id_of};
use crate::queue_pair::flush;
use crate::registry;
use crate::wait::complete;

/// How often a program that refuses a call looks whether the refusal has left.
const SEEN_OFF: u32 = 10;
/// The time between two looks.
const PAUSE: Duration = Duration::from_micros(100);
/// rdma_connect(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_connect(
    id: *mut rdma_cm_id,
    param: *mut rdma_conn_param,
) -> c_int {
    call("rdma_connect", || {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let (inner, param) = unsafe { (id_of(id)?, param_of(id, param)) };
        // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
        let channel = unsafe { channel_of((*id).channel)? };
        let mut state = inner.state();
        if state.connection.is_some() || !state.listens.is_empty() || state.path_record.is_none() {
            return Err(INVALID);
        }
        let (used, peer) = (state.used.clone().ok_or(INVALID)?, state.peer.ok_or(INVALID)?);
        let port = state.local.map_or(0, |local| local.port());
        let service = ServiceId::new(inner.space, peer.port());
        let (device, cookie) = (
            &used.open_device.device,
            registry::add(id, &inner.unacknowledged, Some(&used.open_device)),
        );
        let connection = if inner.space == PortSpace::Udp {
            let private_data = param.private_data;
            let question =
                Question { source_port: port, private_data, ..Question::new(peer.ip(), service) };
            device.cm().resolve(&question, &channel.events, cookie)?
        } else {
            let call = call_of(&state, param, (peer.ip(), service, port));
            // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
            if unsafe { (*id).qp.is_null() } {
                device.cm().connect_only(&call, &channel.events, cookie)?
            } else {
                device.cm().connect(&call, &channel.events, cookie)?
            }
        };
        state.connection = Some(connection);
        drop(state);
        registry::add_name(id, &inner.unacknowledged, &used.open_device, connection);
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
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
        srq: param.srq,
        private_data: param.private_data,
        packet_lifetime: state.options.packet_lifetime.or(wanted).unwrap_or(call.packet_lifetime),
        ack_timeout: state.options.ack_timeout,
        traffic_class: state.options.traffic_class(),
        ece: state.local_ece,
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
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let (inner, param) = unsafe { (id_of(id)?, param_of(id, param)) };
        let (used, connection) = connected(inner)?;
        if inner.space == PortSpace::Udp {
            let (status, qpn, private_data) = (SidrStatus::VALID, param.qpn, param.private_data);
            let answer = Answer { status, qpn, qkey: RDMA_UDP_QKEY, private_data };
            return Ok(used.open_device.device.cm().answer(connection, &answer)?);
        }
        let acceptance = acceptance(&inner.state(), Some(param));
        let cm = used.open_device.device.cm();
        // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
        if unsafe { (*id).qp.is_null() } {
            // The program may ask for it by rdma_init_qp_attr afterwards, when the request is answered.
            let link = cm.link_with(connection, &acceptance)?;
            cm.accept_only(connection, &acceptance)?;
            inner.state().link = Some(Box::new(link));
        } else {
            cm.accept(connection, &acceptance)?;
        }
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe { complete(id) }
    })
}

/// rdma_reject(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_reject(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: the arguments are those of a call from C.
    call("rdma_reject", || unsafe { reject_for(RejReason::CONSUMER, id, data, length) })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn reject_for(
    reason: RejReason,
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> Result<(), Errno> {
    // SAFETY: null, or as many bytes as the program says.
    let (inner, private_data) = unsafe { (id_of(id)?, bytes(data, length)) };
    let (used, connection) = connected(inner)?;
    let device = &used.open_device.device;
    if inner.space == PortSpace::Udp {
        let refusal = Answer { private_data, ..Answer::refusal(SidrStatus::REJECTED) };
        return Ok(device.cm().answer(connection, &refusal)?);
    }
    device.cm().reject(connection, reason, &private_data)?;
    see_off(device);
    Ok(())
}

/// rdma_disconnect(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    call("rdma_disconnect", || {
        let inner = object_of!(id_of(id))?;
        let told = tell_peer(inner);
        // Programs wait for their receives to come back, also where there never was a connection.
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe { flush(id) };
        if !told? {
            return Ok(());
        }
        tell_at_exit();
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe { complete(id) }
    })
}

/// Tells the peer that the connection is over. False: there is none that stands, or the peer was faster, and this only
/// confirms that it is over.
fn tell_peer(inner: &Id) -> Result<bool, Errno> {
    let (used, connection) = connected(inner)?;
    let cm = used.open_device.device.cm();
    if !matches!(cm.state(connection), Some(State::Established | State::RepSent)) {
        return Ok(false);
    }
    // The peer may be faster still.
    Ok(cm.disconnect(connection, &[]).is_ok())
}

/// A refusal for another process on this address may have come back to this one, which must pass it on
/// before it ends.
fn see_off(device: &Device) {
    for _ in 0..SEEN_OFF {
        device.drive();
        std::thread::sleep(PAUSE);
    }
}

/// rdma_establish(3): of connections with a queue pair of the program's own. The device establishes
/// the others by itself.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    call("rdma_establish", || {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let (inner, has_qp) = unsafe { (id_of(id)?, !(*id).qp.is_null()) };
        if has_qp {
            return Err(INVALID);
        }
        let (used, connection) = connected(inner)?;
        Ok(used.open_device.device.cm().establish(connection)?)
    })
}

/// rdma_notify(3): a queue pair that the program readied itself has heard of its peer. The device sees by itself what
/// the others receive.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_notify(id: *mut rdma_cm_id, event: c_int) -> c_int {
    call("rdma_notify", || {
        if event != IBV_EVENT_COMM_EST {
            return Err(INVALID);
        }
        let (used, connection) = connected(object_of!(id_of(id))?)?;
        used.open_device.device.cm().handle_comm_est(connection);
        Ok(())
    })
}
