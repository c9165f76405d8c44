//! The functions of `ibv_qp_ex`: `ibv_wr_start`, `ibv_wr_send`, ..., `ibv_wr_complete`.

use libc::{c_int, c_void};
use uroce_device::memory::{Lkey, Rkey, Sge};
use uroce_device::transport::{SendOp, UdDestination};
use uroce_device::wire::Qpn;

use crate::abi::{
    ibv_ah, ibv_data_buf, ibv_mw, ibv_mw_bind_info, ibv_qp, ibv_qp_ex, ibv_qp_ex_ops, ibv_sge,
};
use crate::ah::path_of;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::mw::posted_bind;
use crate::object::{Place, pointer_to};
use crate::object_of;
use crate::qp::{Qp, qp_of};
use crate::return_value::{data_path_status, value};
use crate::sge::sge_list;
use crate::wr_builder::Draft;

/// All of them, for every queue pair.
pub(crate) const FUNCTIONS: ibv_qp_ex_ops = ibv_qp_ex_ops {
    wr_atomic_cmp_swp,
    wr_atomic_fetch_add,
    wr_bind_mw,
    wr_local_inv,
    wr_rdma_read,
    wr_rdma_write,
    wr_rdma_write_imm,
    wr_send,
    wr_send_imm,
    wr_send_inv,
    wr_send_tso,
    wr_set_ud_addr,
    wr_set_xrc_srqn,
    wr_set_inline_data,
    wr_set_inline_data_list,
    wr_set_sge,
    wr_set_sge_list,
    wr_start,
    wr_complete,
    wr_abort,
    wr_atomic_write,
    wr_flush,
};

/// The object for the program.
pub(crate) fn fill(place: Place<ibv_qp_ex, Qp>, qp_base: ibv_qp, qp: Qp) -> *mut ibv_qp {
    let c = ibv_qp_ex { qp_base, comp_mask: 0, wr_id: 0, wr_flags: 0, ops: FUNCTIONS };
    place.fill(c, qp).cast()
}

type Ex = *mut ibv_qp_ex;

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn edit(qp: Ex, change: impl FnOnce(&mut Draft)) {
    value((), || {
        if let Ok(inner) = object_of!(qp_of(qp.cast())) {
            inner.builder.edit(change);
        }
    });
}

/// Adds a request with the id and flags that the program has put into the struct.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn add(qp: Ex, op: Result<SendOp, Errno>) {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        let (wr_id, flags) = ((*qp).wr_id, (*qp).wr_flags);
        edit(qp, |draft| match op {
            Ok(op) => draft.add(wr_id, flags, op),
            Err(errno) => draft.refuse(errno),
        });
    }
}

/// Functions that add a request of one kind.
macro_rules! requests {
    ($($name:ident($($arg:ident: $type:ty),*) = $op:expr;)*) => {$(
        unsafe extern "C" fn $name(qp: Ex, $($arg: $type),*) {
            // SAFETY: the arguments are those of a call from C.
            unsafe { add(qp, Ok($op)) };
        }
    )*};
}
requests! {
    wr_rdma_read(rkey: u32, va: u64) = SendOp::Read { va, rkey: Rkey(rkey) };
    wr_rdma_write(rkey: u32, va: u64) = SendOp::Write { va, rkey: Rkey(rkey) };
    wr_rdma_write_imm(rkey: u32, va: u64, imm: u32) =
        SendOp::WriteWithImm { va, rkey: Rkey(rkey), imm: u32::from_be(imm) };
    wr_send() = SendOp::Send;
    wr_send_imm(imm: u32) = SendOp::SendWithImm(u32::from_be(imm));
    wr_send_inv(rkey: u32) = SendOp::SendWithInvalidate(Rkey(rkey));
    wr_local_inv(rkey: u32) = SendOp::LocalInvalidate(Rkey(rkey));
    wr_atomic_cmp_swp(rkey: u32, va: u64, compare: u64, swap: u64) =
        SendOp::CompareSwap { va, rkey: Rkey(rkey), compare, swap };
    wr_atomic_fetch_add(rkey: u32, va: u64, add: u64) =
        SendOp::FetchAdd { va, rkey: Rkey(rkey), add };
}

unsafe extern "C" fn wr_flush(
    qp: Ex,
    rkey: u32,
    va: u64,
    length: usize,
    placement: u8,
    selectivity: u8,
) {
    let op = u32::try_from(length).map_err(|_| INVALID).map(|length| SendOp::Flush {
        va,
        rkey: Rkey(rkey),
        length,
        placement,
        selectivity,
    });
    // SAFETY: the arguments are those of a call from C.
    unsafe { add(qp, op) };
}

unsafe extern "C" fn wr_bind_mw(qp: Ex, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        let info = info.as_ref().ok_or(INVALID);
        let bind = qp_of(qp.cast()).and_then(|qp| posted_bind(qp, mw, rkey, info?));
        add(qp, bind.map(|(op, _)| op));
        if let Ok((_, key)) = bind {
            edit(qp, |draft| draft.note_bind(mw, key));
        }
    }
}

unsafe extern "C" fn wr_atomic_write(qp: Ex, rkey: u32, va: u64, word: *const c_void) {
    // SAFETY: the manual page asks for 8 bytes, of any alignment.
    unsafe {
        add(qp, Ok(SendOp::AtomicWrite { va, rkey: Rkey(rkey) }));
        wr_set_inline_data(qp, word, 8);
    }
}

unsafe extern "C" fn wr_send_tso(qp: Ex, _hdr: *mut c_void, _hdr_size: u16, _mss: u16) {
    // SAFETY: the arguments are those of a call from C.
    unsafe { add(qp, Err(NOT_SUPPORTED)) };
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: Ex, srqn: u32) {
    // SAFETY: the arguments are those of a call from C.
    unsafe { edit(qp, |draft| draft.set_srqn(srqn)) };
}

unsafe extern "C" fn wr_set_ud_addr(qp: Ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        let path = qp_of(qp.cast()).and_then(|inner| path_of(ah, inner));
        edit(qp, |draft| match path {
            Ok(av) => draft.set_destination(UdDestination { av: *av, qpn: Qpn::new(qpn), qkey }),
            Err(errno) => draft.refuse(errno),
        });
    }
}

unsafe extern "C" fn wr_set_sge(qp: Ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the arguments are those of a call from C.
    unsafe { edit(qp, |draft| draft.set_sges(&[Sge { addr, length, lkey: Lkey(lkey) }])) };
}

unsafe extern "C" fn wr_set_sge_list(qp: Ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        let sges = c_int::try_from(count).map_err(|_| INVALID);
        let sges = sges.and_then(|count| sge_list(list, count));
        edit(qp, |draft| match sges {
            Ok(sges) => draft.set_sges(sges),
            Err(errno) => draft.refuse(errno),
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: Ex, addr: *const c_void, length: usize) {
    // SAFETY: the arguments are those of a call from C.
    unsafe { wr_set_inline_data_list(qp, 1, &ibv_data_buf { addr, length }) };
}

unsafe extern "C" fn wr_set_inline_data_list(qp: Ex, count: usize, list: *const ibv_data_buf) {
    // SAFETY: as many pieces, of as many bytes, as the program says; they are copied at once.
    unsafe {
        let pieces: &[ibv_data_buf] = match count {
            0 => &[],
            _ if list.is_null() => return edit(qp, |draft| draft.refuse(INVALID)),
            _ => std::slice::from_raw_parts(list, count),
        };
        if pieces.iter().any(|piece| piece.addr.is_null() && piece.length > 0) {
            return edit(qp, |draft| draft.refuse(INVALID));
        }
        let bytes = |piece: &ibv_data_buf| match piece.length {
            0 => &[][..],
            length => std::slice::from_raw_parts(piece.addr.cast::<u8>(), length),
        };
        edit(qp, |draft| draft.set_inline(pieces.iter().map(bytes)));
    }
}

unsafe extern "C" fn wr_start(qp: Ex) {
    value((), || {
        if let Ok(inner) = object_of!(qp_of(qp.cast())) {
            inner.builder.start();
        }
    });
}

unsafe extern "C" fn wr_complete(qp: Ex) -> c_int {
    data_path_status(|| {
        let inner = object_of!(qp_of(qp.cast()))?;
        inner.builder.complete(inner.device(), inner.qpn, |mw, key| {
            // SAFETY: a window that is named in a list lives until it is posted.
            unsafe { (*pointer_to::<ibv_mw>(mw)).rkey = key.0 };
        })
    })
}

unsafe extern "C" fn wr_abort(qp: Ex) {
    value((), || {
        if let Ok(inner) = object_of!(qp_of(qp.cast())) {
            inner.builder.abort();
        }
    });
}
