//! Asynchronous events.

use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_void};
use uroce_device::OwnedEvent;
use uroce_device::transport::AsyncEvent;

use crate::abi::{
    IBV_EVENT_COMM_EST, IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_GID_CHANGE,
    IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_QP_ACCESS_ERR,
    IBV_EVENT_QP_FATAL, IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_SQ_DRAINED,
    IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED, ibv_async_event, ibv_context, ibv_cq, ibv_qp,
    ibv_srq,
};
use crate::arg::not_null;
use crate::cancellation::{Found, until_found};
use crate::context::ctx_of;
use crate::cq::cq_of;
use crate::errno::Errno;
use crate::object::pointer_to;
use crate::object_of;
use crate::qp::qp_of;
use crate::return_value::value;
use crate::srq::srq_of;
use crate::unacknowledged::Unacknowledged;

fn type_of(event: &AsyncEvent) -> c_int {
    match event {
        AsyncEvent::CqErr(_) => IBV_EVENT_CQ_ERR,
        AsyncEvent::QpFatal(_) => IBV_EVENT_QP_FATAL,
        AsyncEvent::QpReqErr(_) => IBV_EVENT_QP_REQ_ERR,
        AsyncEvent::QpAccessErr(_) => IBV_EVENT_QP_ACCESS_ERR,
        AsyncEvent::CommEst(_) => IBV_EVENT_COMM_EST,
        AsyncEvent::SqDrained(_) => IBV_EVENT_SQ_DRAINED,
        AsyncEvent::SrqErr(_) => IBV_EVENT_SRQ_ERR,
        AsyncEvent::SrqLimitReached(_) => IBV_EVENT_SRQ_LIMIT_REACHED,
        AsyncEvent::QpLastWqeReached(_) => IBV_EVENT_QP_LAST_WQE_REACHED,
        AsyncEvent::PortActive => IBV_EVENT_PORT_ACTIVE,
        AsyncEvent::PortErr => IBV_EVENT_PORT_ERR,
        AsyncEvent::GidChange => IBV_EVENT_GID_CHANGE,
        _ => IBV_EVENT_DEVICE_FATAL,
    }
}

/// The event as C sees it: the cookie of an object's events is its address, that of the port's events its number, which
/// is the first `int` of the union.
fn event_of(owned: &OwnedEvent) -> ibv_async_event {
    let element = pointer_to::<c_void>(owned.cookie);
    ibv_async_event { element, event_type: type_of(&owned.event) }
}

/// ibv_get_async_event(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the arguments of a call from C; the descriptor of a context's events is an eventfd.
    unsafe { until_found((context, event), look) }
}

fn look((context, event): (*mut ibv_context, *mut ibv_async_event)) -> Result<Found, Errno> {
    let (ctx, out) = (object_of!(ctx_of(context))?, not_null(event)?);
    let found = ctx.events.event_after_read(|owned| {
        // SAFETY: a destroyed object leaves no event behind: as long as the list has this one, it is there.
        if let Ok(Some(counter)) = unsafe { counter_of(&event_of(owned)) } {
            counter.add();
        }
    });
    let Some(owned) = found else { return Ok(Found::Sleep(ctx.events.as_fd().as_raw_fd())) };
    // SAFETY: not null, and so room that the program has for the result.
    unsafe { *out = event_of(&owned) };
    Ok(Found::Event)
}

/// ibv_ack_async_event(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    value((), || {
        if event.is_null() {
            return;
        }
        // SAFETY: an event that was fetched; its object is not destroyed before it is acknowledged.
        unsafe {
            if let Ok(Some(counter)) = counter_of(&*event) {
                count_completed(&*event);
                counter.acknowledge(1);
            }
        }
    });
}

/// What counts the events of the object; `None` for events of the port.
///
/// # Safety
/// The object of the event exists.
unsafe fn counter_of<'a>(event: &ibv_async_event) -> Result<Option<&'a Unacknowledged>, Errno> {
    let element = event.element;
    // SAFETY: the caller's promise, and the kind of object is that of the event.
    unsafe {
        Ok(match event.event_type {
            IBV_EVENT_CQ_ERR => Some(&cq_of(element.cast())?.unacknowledged_async),
            IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
                Some(&qp_of(element.cast())?.unacknowledged)
            }
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                Some(&srq_of(element.cast())?.unacknowledged)
            }
            _ => None,
        })
    }
}

/// The counters in the C structs, for programs that look at them.
///
/// # Safety
/// The object of the event exists.
unsafe fn count_completed(event: &ibv_async_event) {
    // SAFETY: the caller's promise; only this function writes these fields.
    unsafe {
        let counter = match event.event_type {
            IBV_EVENT_CQ_ERR => &raw mut (*event.element.cast::<ibv_cq>()).async_events_completed,
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                &raw mut (*event.element.cast::<ibv_srq>()).events_completed
            }
            _ => &raw mut (*event.element.cast::<ibv_qp>()).events_completed,
        };
        *counter = (*counter).wrapping_add(1);
    }
}

/// The names of ibv_event_type_str(3).
pub(crate) fn event_name(event_type: c_int) -> &'static std::ffi::CStr {
    const NAMES: [&std::ffi::CStr; 21] = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
        c"Device link speed change",
    ];
    let index = usize::try_from(event_type).unwrap_or(usize::MAX);
    NAMES.get(index).copied().unwrap_or(c"unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names() {
        assert_eq!(event_name(type_of(&AsyncEvent::GidChange)), c"GID table change");
        assert_eq!(event_name(-1), c"unknown");
    }

    #[test]
    fn v47_events_of_the_port_have_its_number_and_are_nobodys() {
        let types = [
            (AsyncEvent::PortErr, IBV_EVENT_PORT_ERR),
            (AsyncEvent::PortActive, IBV_EVENT_PORT_ACTIVE),
            (AsyncEvent::GidChange, IBV_EVENT_GID_CHANGE),
        ];
        for (event, event_type) in types {
            let mut shown = event_of(&OwnedEvent { event, cookie: 1 });
            // SAFETY: the union is as large as a pointer.
            let port_num = unsafe { (&raw const shown.element).cast::<c_int>().read() };
            assert_eq!((shown.event_type, port_num), (event_type, 1));
            // SAFETY: an event that was fetched.
            unsafe { ibv_ack_async_event(&raw mut shown) };
        }
    }
}
