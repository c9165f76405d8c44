//! `ibv_post_recv` and `ibv_post_srq_recv`.

use libc::c_int;
use uroce_device::transport::{PostError, RecvWr};

use crate::abi::{ibv_qp, ibv_recv_wr, ibv_srq};
use crate::errno::Errno;
use crate::outcome::status;
use crate::qp::qp_of;
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
    // SAFETY: by the contract.
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
    // SAFETY: by the contract.
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
/// By the contract.
unsafe fn post_list(
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<(), (usize, Errno)>,
) -> c_int {
    let mut next = first;
    let done = status(|| {
        while !next.is_null() {
            // SAFETY: by the contract.
            next = unsafe { post_some(next, &post) }.map_err(|(at, errno)| {
                next = at;
                errno
            })?;
        }
        Ok(())
    });
    if done != 0 && !bad.is_null() {
        // SAFETY: by the contract.
        unsafe { *bad = next };
    }
    done
}

type Refused = (*mut ibv_recv_wr, Errno);

/// Posts the first requests of a list; returns the first one that is left, or the one that was
/// refused.
///
/// # Safety
/// By the contract; `first` is not null.
unsafe fn post_some(
    first: *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<(), (usize, Errno)>,
) -> Result<*mut ibv_recv_wr, Refused> {
    // SAFETY: by the contract.
    let wr = unsafe { &*first };
    if !wr.next.is_null() {
        // SAFETY: by the contract.
        return unsafe { post_batch(first, post) };
    }
    // SAFETY: by the contract.
    let sges = unsafe { sge_list(wr.sg_list, wr.num_sge) }.map_err(|errno| (first, errno))?;
    post(&[RecvWr::new(wr.wr_id, sges)]).map_err(|(_, errno)| (first, errno))?;
    Ok(wr.next)
}

/// # Safety
/// By the contract.
unsafe fn post_batch(
    first: *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<(), (usize, Errno)>,
) -> Result<*mut ibv_recv_wr, Refused> {
    let mut batch = [RecvWr::new(0, &[]); BATCH];
    let mut from = [first; BATCH];
    let (mut next, mut count) = (first, 0);
    let mut refused = None;
    // SAFETY: by the contract a list that ends with null.
    while let Some(wr) = unsafe { next.as_ref() } {
        if count == BATCH {
            break;
        }
        // SAFETY: by the contract.
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
