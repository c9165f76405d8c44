//! `ibv_modify_qp` and `ibv_query_qp`.

use libc::c_int;
use uroce_device::memory::Access;
use uroce_device::transport::{QpAttr, QpAttrMask, QpInit, QpState, QpType};
use uroce_device::wire::Mtu;

use crate::abi::{IBV_QP_RATE_LIMIT, ibv_qp, ibv_qp_attr, ibv_qp_init_attr};
use crate::ah::{attr_of, path_from};
use crate::arg::not_null;
use crate::context::Ctx;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::zeroed;
use crate::qp::{cap_of, live_qp};
use crate::return_value::status;
use crate::{input, object_of};

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Sqe,
    QpState::Err,
];

/// ibv_modify_qp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    status(|| {
        let (inner, attr) = (object_of!(live_qp(qp))?, input!(attr)?);
        let mask = mask.cast_unsigned();
        if mask & IBV_QP_RATE_LIMIT.cast_unsigned() != 0 {
            return Err(NOT_SUPPORTED);
        }
        let mask = QpAttrMask::from_bits(mask).ok_or(INVALID)? - ignored(inner.qp_type);
        inner.device().modify_qp(inner.qpn, &to_device(&inner.ctx, attr, mask)?, mask)?;
        if mask.contains(QpAttrMask::STATE) {
            // SAFETY: the queue pair was found, and programs only read the field.
            unsafe { (*qp).state = attr.qp_state };
        }
        Ok(())
    })
}

/// What programs name for an end of XRC as if it were both; the kernel's interface drops it, too.
fn ignored(qp_type: QpType) -> QpAttrMask {
    match qp_type {
        QpType::XrcIni => QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER,
        QpType::XrcTgt => {
            QpAttrMask::MAX_QP_RD_ATOMIC | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY
        }
        QpType::Rc | QpType::Uc | QpType::Ud => QpAttrMask::empty(),
    }
}

/// The state with this number.
///
/// # Errors
/// EINVAL: there is none.
pub fn state(number: c_int) -> Result<QpState, Errno> {
    usize::try_from(number).ok().and_then(|index| STATES.get(index)).copied().ok_or(INVALID)
}

/// Fields that the mask does not name may hold anything; they are not looked at.
fn to_device(ctx: &Ctx, attr: &ibv_qp_attr, mask: QpAttrMask) -> Result<QpAttr, Errno> {
    let mut to = QpAttr {
        en_sqd_async_notify: attr.en_sqd_async_notify != 0,
        pkey_index: attr.pkey_index,
        port: attr.port_num,
        qkey: attr.qkey,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        rq_psn: attr.rq_psn & 0xff_ffff,
        sq_psn: attr.sq_psn & 0xff_ffff,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        dest_qpn: attr.dest_qp_num,
        path_mig_state: attr.path_mig_state as u8,
        ..QpAttr::default()
    };
    if mask.contains(QpAttrMask::STATE) {
        to.state = state(attr.qp_state)?;
    }
    if mask.contains(QpAttrMask::CUR_STATE) {
        to.cur_state = state(attr.cur_qp_state)?;
    }
    if mask.contains(QpAttrMask::ACCESS_FLAGS) {
        to.access = Access::from_bits(attr.qp_access_flags).ok_or(INVALID)?;
    }
    if mask.contains(QpAttrMask::PATH_MTU) {
        let code = u8::try_from(attr.path_mtu).map_err(|_| INVALID)?;
        to.path_mtu = Mtu::from_code(code).ok_or(INVALID)?;
    }
    if mask.contains(QpAttrMask::AV) {
        to.av = Some(path_from(ctx, &attr.ah_attr)?);
    }
    Ok(to)
}

/// ibv_query_qp(3). All attributes are returned, whatever the mask asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        let inner = object_of!(live_qp(qp))?;
        let (now, created) = inner.device().query_qp(inner.qpn)?;
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            *not_null(attr)? = from_device(&now, &created);
            (*qp).state = now.state as c_int;
            *not_null(init)? = ibv_qp_init_attr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: cap_of(created.caps),
                qp_type: created.qp_type as c_int,
                sq_sig_all: c_int::from(created.signal_all),
            };
        }
        Ok(())
    })
}

fn from_device(from: &QpAttr, created: &QpInit) -> ibv_qp_attr {
    // SAFETY: integers.
    let mut attr: ibv_qp_attr = unsafe { zeroed() };
    attr.qp_state = from.state as c_int;
    attr.cur_qp_state = attr.qp_state;
    attr.path_mtu = c_int::from(from.path_mtu.code());
    attr.path_mig_state = c_int::from(from.path_mig_state);
    attr.qkey = from.qkey;
    attr.rq_psn = from.rq_psn;
    attr.sq_psn = from.sq_psn;
    attr.dest_qp_num = from.dest_qpn;
    attr.qp_access_flags = from.access.bits();
    attr.cap = cap_of(created.caps);
    if let Some(path) = &from.av {
        attr.ah_attr = attr_of(path);
    }
    attr.pkey_index = from.pkey_index;
    attr.en_sqd_async_notify = u8::from(from.en_sqd_async_notify);
    attr.sq_draining = u8::from(from.sq_draining);
    attr.max_rd_atomic = from.max_rd_atomic;
    attr.max_dest_rd_atomic = from.max_dest_rd_atomic;
    attr.min_rnr_timer = from.min_rnr_timer;
    attr.port_num = from.port;
    attr.timeout = from.timeout;
    attr.retry_cnt = from.retry_cnt;
    attr.rnr_retry = from.rnr_retry;
    attr
}
