//! Calls that wait for their event, since their id has no channel of the program's.

use std::sync::atomic::Ordering;

use libc::c_int;
use uroce_ibverbs::errno::Errno;
use uroce_verbs_abi::{
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_REJECTED, rdma_cm_event, rdma_cm_id,
};

use crate::channel::channel_of;
use crate::event::keep;
use crate::id::id_of;

/// Waits for the event of the call that has just been made, if the id has no channel of the
/// program's; the event stays with the id until the next call.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn complete(id: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        if !id_of(id)?.waits.load(Ordering::Relaxed) {
            return Ok(());
        }
        let event = next_of(id)?;
        keep(id, event);
        match ((*event).status, (*event).event) {
            (0, _) => Ok(()),
            (_, RDMA_CM_EVENT_REJECTED) => Err(Errno(libc::ECONNREFUSED)),
            (status, _) if status < 0 => Err(Errno(-status)),
            _ => Err(Errno(libc::ECONNRESET)),
        }
    }
}

/// The next event of this id; those of others stay for them.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn next_of(id: *mut rdma_cm_id) -> Result<*mut rdma_cm_event, Errno> {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let channel = unsafe { channel_of((*id).channel)? };
    let mut others = Vec::new();
    let found = loop {
        match channel.next() {
            // SAFETY: an event that was fetched here, and has no other owner.
            Ok(event) if unsafe { concerns(event, id) } => break Ok(event),
            Ok(event) => others.push(event),
            Err(errno) => break Err(errno),
        }
    };
    others.into_iter().for_each(|event| channel.park(event));
    found
}

/// # Safety
/// The event is alive.
unsafe fn concerns(event: *mut rdma_cm_event, id: *mut rdma_cm_id) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if (*event).event == RDMA_CM_EVENT_CONNECT_REQUEST {
            (*event).listen_id == id
        } else {
            (*event).id == id
        }
    }
}

/// The result of a call that returns -1 and sets errno.
pub(crate) fn done(result: c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::last()) }
}
