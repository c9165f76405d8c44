//! Ids move from one event channel to another.

use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use libc::c_int;
use uroce_device::cm::CommId;
use uroce_ibverbs::errno::Errno;
use uroce_ibverbs::return_value::call;
use uroce_verbs_abi::{rdma_cm_id, rdma_event_channel};

use crate::channel::{self, Channel, channel_of, rdma_destroy_event_channel};
use crate::event::keep;
use crate::id::{Id, id_of};
use crate::registry;

/// rdma_migrate_id(3): events of the id come to another channel, also those that wait already.
/// Without a channel, calls wait for their events themselves.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    call("rdma_migrate_id", || {
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe { migrate(id, channel) }
    })
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn migrate(
    id: *mut rdma_cm_id,
    wanted: *mut rdma_event_channel,
) -> Result<(), Errno> {
    let waits = wanted.is_null();
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let (inner, old) = unsafe { (id_of(id)?, (*id).channel) };
    let new = if waits { channel::create()? } else { wanted };
    // SAFETY: the channel that the program gave, or one made above.
    let (from, to) = unsafe { (channel_of(old)?, channel_of(new)?) };
    // The event of the last call that waited for it is the id's own, and it is not acknowledged otherwise.
    // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
    unsafe { keep(id, null_mut()) };
    inner.unacknowledged.wait();
    move_events(id, inner, from, to);
    inner.waits.store(waits, Ordering::Relaxed);
    let owned = inner.owns_channel.swap(waits, Ordering::Relaxed);
    // SAFETY: an id that was found; a channel that it had to itself has no other user.
    unsafe {
        (*id).channel = new;
        if owned {
            rdma_destroy_event_channel(old);
        }
    }
    Ok(())
}

fn move_events(id: *mut rdma_cm_id, inner: &Id, from: &Channel, to: &Channel) {
    let state = inner.state();
    for (used, service) in &state.listens {
        let cookie = registry::add(id, &inner.unacknowledged, Some(&used.open_device));
        used.open_device.device.cm().move_listener(*service, &to.events, cookie);
    }
    let open_device = state.used.as_ref().map(|used| &used.open_device);
    let cookie = registry::add(id, &inner.unacknowledged, open_device);
    if let (Some(used), Some(connection)) = (&state.used, state.connection) {
        used.open_device.device.cm().move_connection(connection, &to.events, cookie);
    }
    // Those of our own making bear no connection.
    from.events.hand_over(&to.events, cookie, |event| {
        event.id == CommId::NONE
            && registry::by_cookie(event.cookie).is_some_and(|served| served.id == id)
    });
}
