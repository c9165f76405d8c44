//! Events of completion queues: fetched, acknowledged, waited for.

use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_uint, c_void};

use crate::abi::{ibv_comp_channel, ibv_cq};
use crate::arg::not_null;
use crate::cancellation::{Found, until_found};
use crate::channel::channel_of;
use crate::cq::cq_of;
use crate::errno::{Errno, INVALID};
use crate::object::pointer_to;
use crate::object_of;
use crate::return_value::value;

/// Where an event comes from, and where the queue and its context go.
type Fetch = (*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void);

/// ibv_get_cq_event(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the arguments of a call from C; the descriptor of a channel is an eventfd.
    unsafe { until_found((channel, cq, cq_context), look) }
}

fn look((channel, cq, cq_context): Fetch) -> Result<Found, Errno> {
    let inner = object_of!(channel_of(channel)).ok_or(INVALID)?;
    let (cq, cq_context) = (not_null(cq)?, not_null(cq_context)?);
    let found = inner.events.event_after_read(|event| {
        // SAFETY: the cookie of a CQ is its address, and a destroyed CQ leaves no event behind: as long as the
        // list has this one, the CQ is there.
        if let Ok(cq) = unsafe { cq_of(pointer_to(event.cookie)) } {
            cq.unacknowledged.add();
        }
    });
    let Some(event) = found else { return Ok(Found::Sleep(inner.events.as_fd().as_raw_fd())) };
    let which: *mut ibv_cq = pointer_to(event.cookie);
    // SAFETY: not null; the queue stays until the event is acknowledged.
    unsafe {
        *cq = which;
        *cq_context = (*which).cq_context;
    }
    Ok(Found::Event)
}

/// ibv_ack_cq_events(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    value((), || {
        // SAFETY: the queue of an event that was fetched; programs may look at the counter, and do not change it.
        unsafe {
            if let Ok(inner) = cq_of(cq) {
                let completed = &raw mut (*cq).comp_events_completed;
                *completed = (*completed).wrapping_add(events);
                inner.unacknowledged.acknowledge(events);
            }
        }
    });
}
