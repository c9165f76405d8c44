//! Event channels.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;
use uroce_device::cm::CommId;
use uroce_device::{CmChannel, CmEvent, CmEventKind};
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::cancellation::{Found, until_found};
use uroce_ibverbs::descriptor::make_blocking;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object::{Object, warn_of_fork};
use uroce_ibverbs::object_of;
use uroce_ibverbs::return_value::{minus_one, pointer, status, value};
use uroce_verbs_abi::{RDMA_CM_EVENT_USER, rdma_cm_event, rdma_cm_id, rdma_event_channel};

use crate::contexts::Used;
use crate::id::id_of;
use crate::translate::translate;
use crate::{event, registry};

/// What we keep about an event channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) events: CmChannel,
    /// Events that a call took while it waited for another one.
    parked: Mutex<Parked>,
}

#[derive(Debug, Default)]
struct Parked(VecDeque<*mut rdma_cm_event>);

// SAFETY: the events are owned by this list until they are given to the program.
unsafe impl Send for Parked {}

type ChannelObject = Object<rdma_event_channel, Channel>;

impl Channel {
    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn park(&self, event: *mut rdma_cm_event) {
        self.parked().0.push_back(event);
    }

    /// The next event if one waits, behind a sleep in read(2) of the descriptor.
    fn next_after_read(&self) -> Result<*mut rdma_cm_event, Errno> {
        let fetched = || self.events.event_after_read().inspect(note_fetched);
        self.take(|| fetched().ok_or(Errno(libc::EAGAIN)))
    }

    /// The next event; sleeps as read(2) of the descriptor does.
    pub(crate) fn next(&self) -> Result<*mut rdma_cm_event, Errno> {
        self.take(|| Ok(self.events.read_event().inspect(note_fetched)?))
    }

    /// The next event if one waits, for a listener that looks before its program does: a request counts against the
    /// backlog until it is answered.
    pub(crate) fn try_next(&self) -> Result<*mut rdma_cm_event, Errno> {
        self.take(|| self.events.try_event().ok_or(Errno(libc::EAGAIN)))
    }

    fn take(
        &self,
        mut next: impl FnMut() -> Result<CmEvent, Errno>,
    ) -> Result<*mut rdma_cm_event, Errno> {
        if let Some(event) = self.parked().0.pop_front() {
            return Ok(event);
        }
        loop {
            // An event of an id that went away meanwhile is none.
            if let Some(event) = translate(next()?) {
                return Ok(event);
            }
        }
    }

    /// Forgets the parked events for which `gone` says yes.
    pub(crate) fn unpark(&self, gone: impl Fn(&rdma_cm_event) -> bool) {
        let mut parked = self.parked();
        // SAFETY: events in the list are alive.
        let (dead, alive) = parked.0.drain(..).partition(|event| gone(unsafe { &**event }));
        parked.0 = alive;
        drop(parked);
        let dead: VecDeque<*mut rdma_cm_event> = dead;
        // SAFETY: they were in the list only.
        dead.into_iter().for_each(|event| unsafe { event::acknowledge(event) });
    }
}

/// A request that the program has fetched no longer counts against the backlog of its listener.
fn note_fetched(event: &CmEvent) {
    if event.kind.is_request()
        && let Some(open_device) = registry::device_of(event.cookie)
    {
        open_device.device.cm().note_fetched(event.id);
    }
}

/// Our part of a channel; ENOENT if there is none at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn channel_of<'a>(
    channel: *const rdma_event_channel,
) -> Result<&'a Channel, Errno> {
    // SAFETY: the caller's promise.
    unsafe { ChannelObject::live_any_process(channel) }
}

/// The same without a look at what there is, for channels that Rust code owns.
///
/// # Safety
/// The channel exists.
pub(crate) unsafe fn owned_channel<'a>(channel: *const rdma_event_channel) -> Option<&'a Channel> {
    // SAFETY: the caller's promise.
    unsafe { ChannelObject::of_any_process(channel) }
}

pub(crate) fn create() -> Result<*mut rdma_event_channel, Errno> {
    let events = CmChannel::new()?;
    make_blocking(events.as_fd())?;
    let c = rdma_event_channel { fd: events.as_fd().as_raw_fd() };
    Ok(ChannelObject::create(c, Channel { events, parked: Mutex::default() }))
}

/// rdma_create_event_channel(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    pointer(create)
}

/// rdma_destroy_event_channel(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    value((), || {
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe {
            if let Ok(inner) = channel_of(channel) {
                inner.unpark(|_| true);
                ChannelObject::destroy(channel);
            }
        }
    });
}

/// Where an event comes from, and where it goes.
type Fetch = (*mut rdma_event_channel, *mut *mut rdma_cm_event);

/// rdma_get_cm_event(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    // SAFETY: the arguments of a call from C; the descriptor of a channel is an eventfd.
    unsafe { until_found((channel, event), look) }
}

fn look((channel, event): Fetch) -> Result<Found, Errno> {
    let (inner, out) = (object_of!(channel_of(channel))?, not_null(event)?);
    if ChannelObject::is_inherited(channel) && registry::is_of_parent() {
        warn_of_fork();
    }
    match inner.next_after_read() {
        // SAFETY: not null, and so room that the program has for the result.
        Ok(event) => unsafe { *out = event },
        Err(Errno(libc::EAGAIN)) => return Ok(Found::Sleep(inner.events.as_fd().as_raw_fd())),
        Err(errno) => return Err(errno),
    }
    Ok(Found::Event)
}

/// rdma_ack_cm_event(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    status(|| {
        object_of!(event::find(event))?;
        // SAFETY: an event that the program has fetched, and does not use any more.
        unsafe { event::acknowledge(event) };
        Ok(())
    })
}

/// rdma_write_cm_event(3): an event that the program tells itself. EINVAL: an event of another type.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_write_cm_event(
    id: *mut rdma_cm_id,
    event: c_int,
    status: c_int,
    arg: u64,
) -> c_int {
    minus_one(|| {
        let used = object_of!(id_of(id))?.state().used.clone();
        if event != RDMA_CM_EVENT_USER {
            return Err(INVALID);
        }
        // SAFETY: an id that was found, and that the manual pages forbid to destroy during a call.
        unsafe { post(id, used.as_ref(), CmEventKind::User { status, arg }) }
    })
}

/// Forgets those of the events of our own making about an id that wait and that `which` names: they would keep the channel
/// readable, and who reads it then would wait for another one.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn take_back(id: *mut rdma_cm_id, which: impl Fn(&CmEventKind) -> bool) {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let Ok(channel) = (unsafe { channel_of((*id).channel) }) else { return };
    channel.events.discard(|event| {
        event.id == CommId::NONE
            && which(&event.kind)
            && registry::by_cookie(event.cookie).is_some_and(|served| served.id == id)
    });
}

/// An event of our own making, which comes in turn; about a device, or before there is one.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn post(
    id: *mut rdma_cm_id,
    used: Option<&Used>,
    kind: CmEventKind,
) -> Result<(), Errno> {
    // SAFETY: the object was found, and the manual pages forbid to destroy it during a call.
    let (inner, channel) = unsafe { (id_of(id)?, channel_of((*id).channel)?) };
    let cookie = registry::add(id, &inner.unacknowledged, used.map(|used| &used.open_device));
    channel.events.post(CmEvent { cookie, id: CommId::NONE, kind });
    Ok(())
}
