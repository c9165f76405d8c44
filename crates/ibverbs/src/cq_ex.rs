//! Extended completion queues: one completion at a time, read field by field.

use libc::{c_int, c_uint};
use uroce_device::transport::Wc;

use crate::abi::{ibv_cq, ibv_cq_ex, ibv_wc_tm_info};
use crate::clock::wallclock;
use crate::cq::{Cq, cq_of, explain, imm_data};
use crate::errno::Errno;
use crate::object_of;
use crate::return_value::value;

/// Completes the C struct with the functions of the extended interface.
pub(crate) fn with_functions(base: ibv_cq) -> ibv_cq_ex {
    ibv_cq_ex {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll,
        next_poll,
        end_poll,
        read_opcode,
        read_vendor_err,
        read_byte_len,
        read_imm_data,
        read_qp_num,
        read_src_qp,
        read_wc_flags,
        read_slid: no_number,
        read_sl,
        read_dlid_path_bits: no_byte,
        read_completion_ts,
        read_cvlan: no_tag,
        read_flow_tag: no_number,
        read_tm_info: no_tag_matching,
        read_completion_wallclock_ns,
    }
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *const u32) -> c_int {
    // SAFETY: not null, and so a struct, which is one mask.
    if !attr.is_null() && unsafe { *attr } != 0 {
        return libc::EINVAL;
    }
    value(libc::EIO, || {
        let Ok(inner) = object_of!(cq_of(cq.cast())) else { return libc::EINVAL };
        inner.begin_poll();
        // SAFETY: the arguments are those of a call from C.
        let found = unsafe { next_poll(cq) };
        if found != 0 {
            // The program calls ibv_end_poll only behind a poll that has begun.
            inner.end_poll();
        }
        found
    })
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    value(libc::EIO, || {
        match object_of!(cq_of(cq.cast())).and_then(fetch) {
            Ok(wc) => {
                // SAFETY: the object was found, and the program does not write to this field. Of the threads that poll, this one has
                // the interface.
                unsafe { ((*cq).status, (*cq).wr_id) = (wc.status as c_int, wc.wr_id) };
                0
            }
            Err(errno) => errno.0,
        }
    })
}

fn fetch(cq: &Cq) -> Result<Wc, Errno> {
    let mut found = [Wc::default()];
    if cq.device().poll_cq(cq.id, &mut found)? == 0 {
        return Err(Errno(libc::ENOENT));
    }
    explain(&found[0]);
    cq.keep(found[0]);
    Ok(found[0])
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    value((), || {
        if let Ok(inner) = object_of!(cq_of(cq.cast())) {
            inner.end_poll();
        }
    });
}

/// Functions that read one field of the fetched completion.
macro_rules! read {
    ($($name:ident -> $type:ty = $field:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            value(0, || {
                let Ok(cq) = (object_of!(cq_of(cq.cast()))) else { return 0 };
                let field: fn(&Wc) -> $type = $field;
                field(&cq.fetched())
            })
        }
    )*};
}
read! {
    read_opcode -> c_int = |wc| wc.opcode as c_int;
    read_vendor_err -> u32 = |wc| wc.vendor_err;
    read_byte_len -> u32 = |wc| wc.byte_len;
    read_imm_data -> u32 = imm_data;
    read_qp_num -> u32 = |wc| wc.qpn;
    read_src_qp -> u32 = |wc| wc.src_qpn;
    read_wc_flags -> c_uint = |wc| wc.flags.bits();
}

unsafe extern "C" fn read_sl(cq: *mut ibv_cq_ex) -> u8 {
    let sl = || object_of!(cq_of(cq.cast())).map_or(0, |cq| cq.service_level(&cq.fetched()));
    value(0, sl)
}

/// Ticks of the clock that `ibv_query_rt_values_ex` reads.
unsafe extern "C" fn read_completion_ts(cq: *mut ibv_cq_ex) -> u64 {
    value(0, || object_of!(cq_of(cq.cast())).map_or(0, completed_at))
}

unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut ibv_cq_ex) -> u64 {
    value(0, || object_of!(cq_of(cq.cast())).map_or(0, |cq| wallclock(completed_at(cq))))
}

fn completed_at(cq: &Cq) -> u64 {
    cq.device().monotonic_ns(cq.fetched().timestamp)
}

// What RoCE does not have (LIDs), and what create_cq_ex refuses to promise.
unsafe extern "C" fn no_byte(_: *mut ibv_cq_ex) -> u8 {
    0
}
unsafe extern "C" fn no_tag(_: *mut ibv_cq_ex) -> u16 {
    0
}
unsafe extern "C" fn no_number(_: *mut ibv_cq_ex) -> u32 {
    0
}
unsafe extern "C" fn no_tag_matching(_: *mut ibv_cq_ex, _: *mut ibv_wc_tm_info) {}
