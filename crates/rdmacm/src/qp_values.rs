//! rdma_init_qp_attr(3): what a queue pair that the program moves itself needs for each step.

use libc::c_int;
use uroce_device::cm::{Link, PortSpace};
use uroce_device::memory::Access;
use uroce_device::transport::{AddressVector, QpAttrMask as Mask, QpState, QpType};
use uroce_ibverbs::ah::attr_of;
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::qp_attr::state;
use uroce_ibverbs::return_value::minus_one;
use uroce_ibverbs::{in_out, object_of};
use uroce_verbs_abi::ibv_qp_attr;
use uroce_verbs_abi::{RDMA_UDP_QKEY, rdma_cm_id};

use crate::conn_param::acceptance;
use crate::id::{Id, id_of};

/// Pause (code) that a peer is asked for when no receive is posted: 655 ms, the longest, as with the
/// kernel. Programs ask for few retries and count on it.
const MIN_RNR_TIMER: u8 = 0;

/// rdma_init_qp_attr(3). The state in `attr` says which step.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    minus_one(|| {
        let (inner, attr, mask) = (object_of!(id_of(id))?, in_out!(attr)?, not_null(mask)?);
        let step = attr.qp_state;
        // SAFETY: integers.
        *attr = unsafe { zeroed() };
        attr.qp_state = step;
        let named = if inner.space == PortSpace::Udp {
            datagram_values(step, attr)?
        } else {
            // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
            values(inner, unsafe { type_of(id) }, step, attr)?
        };
        // SAFETY: not null, and so room that the program has for the result.
        unsafe { *mask = named.bits().cast_signed() };
        Ok(())
    })
}

fn datagram_values(step: c_int, attr: &mut ibv_qp_attr) -> Result<Mask, Errno> {
    (attr.port_num, attr.qkey) = (1, RDMA_UDP_QKEY);
    mask(QpType::Ud, state(step)?)
}

/// What the id connects: RC unless it is an end of XRC.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn type_of(id: *const rdma_cm_id) -> QpType {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let number = unsafe { (*id).qp_type };
    let is_it = |end: &QpType| *end as c_int == number;
    [QpType::XrcIni, QpType::XrcTgt].into_iter().find(is_it).unwrap_or(QpType::Rc)
}

fn values(inner: &Id, qp_type: QpType, step: c_int, attr: &mut ibv_qp_attr) -> Result<Mask, Errno> {
    let to = state(step);
    if matches!(to, Ok(QpState::Init)) {
        attr.port_num = 1;
        attr.qp_access_flags = (Access::REMOTE_WRITE | Access::REMOTE).bits();
        return mask(qp_type, QpState::Init);
    }
    let (link, to) = (link_of(inner)?, to?);
    match to {
        QpState::Rtr => ready_to_receive(inner, &link, attr)?,
        QpState::Rts => ready_to_send(&link, attr),
        _ => return Err(INVALID),
    }
    mask(qp_type, to)
}

/// What the step to a state must name; there are no others than these.
pub(super) fn mask(qp_type: QpType, to: QpState) -> Result<Mask, Errno> {
    let from = match to {
        QpState::Init => QpState::Reset,
        QpState::Rtr => QpState::Init,
        QpState::Rts => QpState::Rtr,
        _ => return Err(INVALID),
    };
    Ok(Mask::required(qp_type, from, to))
}

fn ready_to_receive(inner: &Id, link: &Link, attr: &mut ibv_qp_attr) -> Result<(), Errno> {
    let local = inner.state().used.as_ref().ok_or(INVALID)?.address;
    attr.ah_attr = attr_of(&AddressVector {
        hop_limit: link.hop_limit,
        traffic_class: link.traffic_class,
        flow_label: link.flow_label,
        ..AddressVector::new(local, link.remote)
    });
    attr.path_mtu = c_int::from(link.path_mtu);
    attr.dest_qp_num = link.remote_qpn.get();
    attr.rq_psn = link.rq_psn.get();
    attr.max_dest_rd_atomic = link.max_dest_rd_atomic;
    attr.min_rnr_timer = MIN_RNR_TIMER;
    Ok(())
}

fn ready_to_send(link: &Link, attr: &mut ibv_qp_attr) {
    attr.sq_psn = link.sq_psn.get();
    attr.timeout = link.ack_timeout;
    attr.retry_cnt = link.retry_count;
    attr.rnr_retry = link.rnr_retry_count;
    attr.max_rd_atomic = link.max_rd_atomic;
}

/// What the exchange has settled: of a call or a request, when it was accepted; of a request before, as if it were
/// accepted with everything that its caller wants.
fn link_of(inner: &Id) -> Result<Link, Errno> {
    let state = inner.state();
    if let Some(link) = &state.link {
        return Ok(**link);
    }
    let (used, connection) = (state.used.as_ref(), state.connection);
    let (used, connection) = (used.ok_or(INVALID)?, connection.ok_or(INVALID)?);
    Ok(used.open_device.device.cm().link_with(connection, &acceptance(&state, None))?)
}
