//! Asynchronous events that belong to one of several users of a device.

use crate::event_list::EventList;
use crate::limits::ASYNC_EVENTS;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uroce_transport::{AsyncEvent, CqId, SrqId};
use uroce_wire::Qpn;

/// The object that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventOwner {
    /// A queue pair.
    Qp(Qpn),
    /// A completion queue.
    Cq(CqId),
    /// A shared receive queue.
    Srq(SrqId),
}

impl EventOwner {
    /// The object of `event`; `None`: it is about the port.
    pub fn of(event: &AsyncEvent) -> Option<EventOwner> {
        match *event {
            AsyncEvent::QpFatal(qpn)
            | AsyncEvent::QpReqErr(qpn)
            | AsyncEvent::QpAccessErr(qpn)
            | AsyncEvent::CommEst(qpn)
            | AsyncEvent::SqDrained(qpn)
            | AsyncEvent::QpLastWqeReached(qpn) => Some(EventOwner::Qp(qpn)),
            AsyncEvent::SrqErr(srq) | AsyncEvent::SrqLimitReached(srq) => {
                Some(EventOwner::Srq(srq))
            }
            AsyncEvent::CqErr(cq) => Some(EventOwner::Cq(cq)),
            _ => None,
        }
    }
}

/// An event, and what its owner gave to recognise the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedEvent {
    /// What happened.
    pub event: AsyncEvent,
    /// What `Device::own_events` was given.
    pub cookie: u64,
}

/// A list of asynchronous events behind a descriptor, like the one that each `ibv_context` has.
/// A clone is the same channel.
///
/// The descriptor is readable exactly while events wait. Do not read it.
#[derive(Debug, Clone)]
pub struct EventChannel(Arc<EventList<OwnedEvent>>);

impl EventChannel {
    /// # Errors
    /// EMFILE and the like: no descriptor for the eventfd.
    pub fn new() -> io::Result<Self> {
        Ok(EventChannel(Arc::new(EventList::new(ASYNC_EVENTS)?)))
    }

    /// The next event; `None` as `timeout` waits for ever, zero only looks.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn next_event(&self, timeout: Option<Duration>) -> io::Result<Option<OwnedEvent>> {
        self.0.wait(timeout)
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Where the events of which object go.
#[derive(Debug, Default)]
pub(crate) struct EventOwners(Mutex<HashMap<EventOwner, (EventChannel, u64)>>);

impl EventOwners {
    fn lock(&self) -> MutexGuard<'_, HashMap<EventOwner, (EventChannel, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new owner of what had another one: that one gets no event any more, also none that waits.
    pub(crate) fn insert(&self, owner: EventOwner, channel: &EventChannel, cookie: u64) {
        let before = self.lock().insert(owner, (channel.clone(), cookie));
        if let Some((before, old_cookie)) = before.filter(|(_, old)| *old != cookie) {
            before.0.retain(|owned| owned.cookie != old_cookie);
        }
    }

    /// Forgets a destroyed object and its events that nobody fetched (R93).
    pub(crate) fn remove(&self, owner: EventOwner) {
        if let Some((channel, _)) = self.lock().remove(&owner) {
            channel.0.retain(|owned| EventOwner::of(&owned.event) != Some(owner));
        }
    }

    /// `None`: nobody owns the events of this object. `Some(false)`: the owner's list is full.
    pub(crate) fn deliver(&self, event: AsyncEvent) -> Option<bool> {
        let owners = self.lock();
        let (channel, cookie) = owners.get(&EventOwner::of(&event)?)?;
        Some(channel.0.push(OwnedEvent { event, cookie: *cookie }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn events_go_to_their_owner_until_it_is_destroyed() {
        let (mine, other) = (EventChannel::new().expect("fd"), EventChannel::new().expect("fd"));
        let owners = EventOwners::default();
        owners.insert(EventOwner::Cq(CqId(1)), &mine, 7);
        owners.insert(EventOwner::Cq(CqId(2)), &other, 8);
        let event = AsyncEvent::CqErr(CqId(1));
        assert_eq!(owners.deliver(event), Some(true));
        assert_eq!(mine.next_event(NOW).expect("poll"), Some(OwnedEvent { event, cookie: 7 }));
        assert_eq!(other.next_event(NOW).expect("poll"), None);

        assert_eq!(owners.deliver(event), Some(true));
        owners.remove(EventOwner::Cq(CqId(1)));
        assert_eq!(mine.next_event(NOW).expect("poll"), None);
        assert_eq!(owners.deliver(event), None);
    }

    #[test]
    fn events_of_the_port_and_of_unowned_objects_have_no_owner() {
        let owners = EventOwners::default();
        assert_eq!(owners.deliver(AsyncEvent::PortErr), None);
        assert_eq!(owners.deliver(AsyncEvent::SrqErr(SrqId(1))), None);
    }
}
