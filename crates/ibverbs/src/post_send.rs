//! `ibv_post_send`: lists of C work requests become slices of ours, without an allocation.

use libc::c_int;
use uroce_device::memory::{Rkey, Sge};
use uroce_device::transport::{QpType, SendData, SendFlags, SendOp, SendWr, UdDestination};
use uroce_device::wire::Qpn;

use crate::abi::{
    IBV_SEND_INLINE, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE,
    IBV_WR_BIND_MW, IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, ibv_qp,
    ibv_send_wr,
};
use crate::ah::path_of;
use crate::errno::{Errno, INVALID};
use crate::mw::posted_bind;
use crate::object_of;
use crate::qp::{Qp, qp_of};
use crate::return_value::data_path_status;
use crate::sge::sge_list;

/// Work requests that are posted under one lock.
const BATCH: usize = 16;
/// Most entries of a work request: the device's `max_sge`.
const MAX_SGE: usize = 32;

const NOTHING: SendWr<'static> = SendWr {
    wr_id: 0,
    op: SendOp::Send,
    flags: SendFlags::empty(),
    data: SendData::Sges(&[]),
    ud: None,
    srqn: None,
};

/// The slot behind `ibv_post_send`.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut next = wr;
    let done = data_path_status(|| {
        let inner = object_of!(qp_of(qp))?;
        while !next.is_null() {
            // SAFETY: the arguments are those of a call from C.
            next = unsafe { post_some(inner, next) }.map_err(|(at, errno)| {
                next = at;
                errno
            })?;
        }
        Ok(())
    });
    if done != 0 && !bad.is_null() {
        // SAFETY: not null, and so room for a pointer.
        unsafe { *bad = next };
    }
    done
}

type Refused = (*mut ibv_send_wr, Errno);

/// Posts the first requests of a list; returns the first one that is left, or the one that was
/// refused.
///
/// # Safety
/// `first` is a work request of the program, in a list that ends with null.
unsafe fn post_some(qp: &Qp, first: *mut ibv_send_wr) -> Result<*mut ibv_send_wr, Refused> {
    // SAFETY: not null, and so a work request of the program.
    let wr = unsafe { &*first };
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        if is_inline(wr) {
            post_inline(qp, wr).map_err(|errno| (first, errno))?;
            Ok(wr.next)
        } else if wr.opcode == IBV_WR_BIND_MW {
            // The key is written to the window when the request is posted, so it is posted alone.
            post_bind(qp, wr).map_err(|errno| (first, errno))?;
            Ok(wr.next)
        } else if wr.next.is_null() {
            let one = [convert(qp, wr).map_err(|errno| (first, errno))?];
            post(qp, &one).map_err(|(_, errno)| (first, errno))?;
            Ok(wr.next)
        } else {
            post_batch(qp, first)
        }
    }
}

fn is_inline(wr: &ibv_send_wr) -> bool {
    wr.send_flags & IBV_SEND_INLINE != 0
}

fn post(qp: &Qp, wrs: &[SendWr<'_>]) -> Result<(), (usize, Errno)> {
    qp.device().post_send(qp.qpn, wrs).map_err(|(index, error)| (index, error.into()))
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn post_batch(qp: &Qp, first: *mut ibv_send_wr) -> Result<*mut ibv_send_wr, Refused> {
    let mut batch = [NOTHING; BATCH];
    let mut from = [first; BATCH];
    let (mut next, mut count) = (first, 0);
    let mut refused = None;
    // SAFETY: a list of work requests that ends with null, or its end.
    while let Some(wr) = unsafe { next.as_ref() } {
        if count == BATCH || is_inline(wr) || wr.opcode == IBV_WR_BIND_MW {
            break;
        }
        // SAFETY: the arguments are those of a call from C.
        match unsafe { convert(qp, wr) } {
            Ok(converted) => (batch[count], from[count]) = (converted, next),
            Err(errno) => {
                refused = Some((next, errno));
                break;
            }
        }
        (next, count) = (wr.next, count + 1);
    }
    post(qp, &batch[..count]).map_err(|(index, errno)| (from[index], errno))?;
    refused.map_or(Ok(next), Err)
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn post_inline(qp: &Qp, wr: &ibv_send_wr) -> Result<(), Errno> {
    // SAFETY: a work request of the program.
    let (mut converted, sges) = unsafe { (convert(qp, wr)?, sges_of(wr)?) };
    let mut pieces: [&[u8]; MAX_SGE] = [&[]; MAX_SGE];
    if sges.len() > qp.max_send_sge.min(pieces.len()) {
        return Err(INVALID);
    }
    for (piece, sge) in pieces.iter_mut().zip(sges) {
        let start: *const u8 = std::ptr::with_exposed_provenance(sge.addr as usize);
        if sge.length > 0 {
            if start.is_null() {
                return Err(INVALID);
            }
            // SAFETY: not null; inline data need not be registered, but must be there.
            *piece = unsafe { std::slice::from_raw_parts(start, sge.length as usize) };
        }
    }
    converted.data = SendData::Inline(&pieces[..sges.len()]);
    post(qp, &[converted]).map_err(|(_, errno)| errno)
}

/// Posts a bind, whose window then has its new key.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn post_bind(qp: &Qp, wr: &ibv_send_wr) -> Result<(), Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        let (op, key) = posted_bind(qp, wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info)?;
        let flags = SendFlags::from_bits_truncate(wr.send_flags);
        post(qp, &[SendWr { wr_id: wr.wr_id, op, flags, ..NOTHING }])
            .map_err(|(_, errno)| errno)?;
        (*wr.bind_mw.mw).rkey = key.0;
    }
    Ok(())
}

/// # Safety
/// A work request of the program, as long as the result is in use.
unsafe fn sges_of<'a>(wr: &ibv_send_wr) -> Result<&'a [Sge], Errno> {
    // SAFETY: the caller's promise.
    unsafe { sge_list(wr.sg_list, wr.num_sge) }
}

/// A work request with its data in registered memory.
///
/// # Safety
/// A work request of the program, as long as the result is in use.
unsafe fn convert<'a>(qp: &Qp, wr: &ibv_send_wr) -> Result<SendWr<'a>, Errno> {
    // SAFETY: a work request of the program.
    let (op, sges) = unsafe { (op_of(wr)?, sges_of(wr)?) };
    // On a connected queue pair the destination may hold anything.
    // SAFETY: the arguments are those of a call from C.
    let ud = if qp.qp_type == QpType::Ud { Some(unsafe { destination(qp, wr)? }) } else { None };
    Ok(SendWr {
        wr_id: wr.wr_id,
        op,
        flags: SendFlags::from_bits_truncate(wr.send_flags),
        data: SendData::Sges(sges),
        ud,
        srqn: (qp.qp_type == QpType::XrcIni).then_some(wr.remote_srqn),
    })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn destination(qp: &Qp, wr: &ibv_send_wr) -> Result<UdDestination, Errno> {
    // SAFETY: a work request of UD, whose member this is.
    unsafe {
        let to = wr.wr.ud;
        Ok(UdDestination {
            av: *path_of(to.ah, qp)?,
            qpn: Qpn::new(to.remote_qpn),
            qkey: to.remote_qkey,
        })
    }
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn op_of(wr: &ibv_send_wr) -> Result<SendOp, Errno> {
    let imm = u32::from_be(wr.imm_data);
    // SAFETY: all members of the union are plain integers (and one pointer, not followed here).
    let (rdma, atomic) = unsafe { (wr.wr.rdma, wr.wr.atomic) };
    let (va, rkey) = (rdma.remote_addr, Rkey(rdma.rkey));
    Ok(match wr.opcode {
        IBV_WR_RDMA_WRITE => SendOp::Write { va, rkey },
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteWithImm { va, rkey, imm },
        IBV_WR_SEND => SendOp::Send,
        IBV_WR_SEND_WITH_IMM => SendOp::SendWithImm(imm),
        IBV_WR_RDMA_READ => SendOp::Read { va, rkey },
        IBV_WR_ATOMIC_CMP_AND_SWP => SendOp::CompareSwap {
            va: atomic.remote_addr,
            rkey: Rkey(atomic.rkey),
            compare: atomic.compare_add,
            swap: atomic.swap,
        },
        IBV_WR_ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd {
            va: atomic.remote_addr,
            rkey: Rkey(atomic.rkey),
            add: atomic.compare_add,
        },
        IBV_WR_LOCAL_INV => SendOp::LocalInvalidate(Rkey(wr.imm_data)),
        IBV_WR_SEND_WITH_INV => SendOp::SendWithInvalidate(Rkey(wr.imm_data)),
        IBV_WR_ATOMIC_WRITE => SendOp::AtomicWrite { va, rkey },
        _ => return Err(INVALID),
    })
}
