//! `ibv_post_recv` and `ibv_post_srq_recv`.

use libc::c_int;
use uroce_device::transport::{PostError, RecvWr};

use crate::abi::{ibv_qp, ibv_recv_wr, ibv_srq};
use crate::errno::Errno;
use crate::qp::qp_of;
use crate::return_value::data_path_status;
use crate::sge::sge_list;
use crate::srq::srq_of;

/// Work requests that are posted under one lock.
const BATCH: usize = 16;

/// The slot behind `ibv_post_recv`.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        post_list(wr, bad, |batch| {
            let inner = qp_of(qp).map_err(|errno| (0, errno))?;
            inner.device().post_recv(inner.qpn, batch).map_err(numbered)
        })
    }
}

/// The slot behind `ibv_post_srq_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        post_list(wr, bad, |batch| {
            let inner = srq_of(srq).map_err(|errno| (0, errno))?;
            inner.device().post_srq_recv(inner.id, batch).map_err(numbered)
        })
    }
}

fn numbered((index, error): (usize, PostError)) -> (usize, Errno) {
    (index, error.into())
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn post_list(
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<(), (usize, Errno)>,
) -> c_int {
    let mut next = first;
    let done = data_path_status(|| {
        while !next.is_null() {
            // SAFETY: the arguments are those of a call from C.
            next = unsafe { post_some(next, &post) }.map_err(|(at, errno)| {
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

type Refused = (*mut ibv_recv_wr, Errno);

/// Posts the first requests of a list; returns the first one that is left, or the one that was
/// refused.
///
/// # Safety
/// `first` is a work request of the program, in a list that ends with null.
unsafe fn post_some(
    first: *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<(), (usize, Errno)>,
) -> Result<*mut ibv_recv_wr, Refused> {
    // SAFETY: not null, and so a work request of the program.
    let wr = unsafe { &*first };
    if !wr.next.is_null() {
        // SAFETY: the arguments are those of a call from C.
        return unsafe { post_batch(first, post) };
    }
    // SAFETY: the arguments are those of a call from C.
    let sges = unsafe { sge_list(wr.sg_list, wr.num_sge) }.map_err(|errno| (first, errno))?;
    post(&[RecvWr::new(wr.wr_id, sges)]).map_err(|(_, errno)| (first, errno))?;
    Ok(wr.next)
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn post_batch(
    first: *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<(), (usize, Errno)>,
) -> Result<*mut ibv_recv_wr, Refused> {
    let mut batch = [RecvWr::new(0, &[]); BATCH];
    let mut from = [first; BATCH];
    let (mut next, mut count) = (first, 0);
    let mut refused = None;
    // SAFETY: a list of work requests that ends with null, or its end.
    while let Some(wr) = unsafe { next.as_ref() } {
        if count == BATCH {
            break;
        }
        // SAFETY: the arguments are those of a call from C.
        match unsafe { sge_list(wr.sg_list, wr.num_sge) } {
            Ok(sges) => (batch[count], from[count]) = (RecvWr::new(wr.wr_id, sges), next),
            Err(errno) => {
                refused = Some((next, errno));
                break;
            }
        }
        (next, count) = (wr.next, count + 1);
    }
    post(&batch[..count]).map_err(|(index, errno)| (from[index], errno))?;
    refused.map_or(Ok(next), Err)
}
