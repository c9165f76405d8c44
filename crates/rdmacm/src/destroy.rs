//! rdma_destroy_id(3).

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::c_int;
use uroce_ibverbs::errno::BUSY;
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::minus_one;
use uroce_verbs_abi::{rdma_cm_id, rdma_event_channel};

use crate::channel::{self, channel_of};
use crate::contexts::Used;
use crate::event::keep;
use crate::id::{Id, IdObject, id_of, is_inherited};
use crate::listen::stop_listening;
use crate::registry::Served;
use crate::{ending, multicast, ports, registry};

/// rdma_destroy_id(3). Waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    minus_one(|| {
        if object_of!(is_inherited(id)) {
            return Ok(());
        }
        let inner = object_of!(id_of(id))?;
        // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
        if unsafe { !(*id).qp.is_null() && inner.state().made_queues } {
            return Err(BUSY);
        }
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe {
            multicast::leave_all(id, inner);
            release(id, inner);
        }
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe {
            let channel = (*id).channel;
            drop_events(id, channel);
            inner.unacknowledged.wait();
            let owns_channel = inner.owns_channel.load(Ordering::Relaxed);
            IdObject::destroy(id);
            if owns_channel {
                channel::rdma_destroy_event_channel(channel);
            }
        }
        Ok(())
    })
}

/// Ends what the id stands for.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn release(id: *mut rdma_cm_id, inner: &Id) {
    let mut state = inner.state();
    if let (Some(connection), Some(used)) = (state.connection.take(), &state.used) {
        used.open_device.device.cm().release(connection);
    }
    let devices: Vec<Used> = state.listens.iter().map(|(used, _)| used.clone()).collect();
    stop_listening(&mut state);
    // SAFETY: the caller's promise.
    devices.iter().for_each(|used| unsafe { refuse_unfetched(id, used) });
    if let Some(local) = state.local.filter(|_| state.reserved) {
        ports::release(id, inner.space, local.port());
    }
    drop(state);
    // SAFETY: the caller's promise.
    unsafe { channel::take_back(id, |_| true) };
    registry::forget(id);
    ending::id_is_gone();
}

/// Refuses the calls to a listener that the program has not fetched: their callers would wait for a listener that is
/// gone.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn refuse_unfetched(listener: *mut rdma_cm_id, used: &Used) {
    // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
    let channel = unsafe { channel_of((*listener).channel) };
    let Ok(channel) = channel else { return };
    let is_ours = |served: &Served| {
        served.id == listener
            && served
                .open_device
                .as_ref()
                .is_some_and(|device| Arc::ptr_eq(device, &used.open_device))
    };
    let refused = channel.events.discard_requests(|event| {
        registry::by_cookie(event.cookie).is_some_and(|served| is_ours(&served))
    });
    refused.into_iter().for_each(|request| used.open_device.device.cm().release(request));
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn drop_events(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) {
    // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
    unsafe {
        keep(id, null_mut());
        if let Ok(channel) = channel_of(channel) {
            channel.unpark(|event| event.id == id || event.listen_id == id);
        }
    }
}
