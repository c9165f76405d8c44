//! Asynchronous events that belong to one of several users of a device.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use uroce_transport::{AsyncEvent, CqId, SrqId};
use uroce_wire::Qpn;

use crate::event_list::EventList;
use crate::limits::ASYNC_EVENTS;

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

/// The cookie of the port's events: its number.
const PORT: u64 = 1;

/// An event, and what its owner gave to recognise the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedEvent {
    /// What happened.
    pub event: AsyncEvent,
    /// What `AsyncEvents::own` was given; 1, the number of the port, for events of the port.
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

    /// The next event if one waits, for a caller that has slept in read(2) of the descriptor, and taken nothing else from it.
    /// `note` is called with the event before it leaves the list, so that a concurrent destruction of its object finds the
    /// event either in the list or noted. `note` must not call the device.
    pub fn event_after_read(&self, note: impl FnOnce(&OwnedEvent)) -> Option<OwnedEvent> {
        self.0.pop_after_read(note)
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

    /// Forgets a destroyed object and its events that were not fetched (R93).
    pub(crate) fn remove(&self, owner: EventOwner) {
        if let Some((channel, _)) = self.lock().remove(&owner) {
            channel.0.retain(|owned| EventOwner::of(&owned.event) != Some(owner));
        }
    }

    /// Delivers an event of the device as a whole to all owners, once each; the cookie is 0. False:
    /// there is no owner.
    pub(crate) fn deliver_to_all(&self, event: AsyncEvent) -> bool {
        let owners = self.lock();
        // Equal events of one channel merge.
        owners
            .values()
            .for_each(|(channel, _)| _ = channel.0.push(OwnedEvent { event, cookie: 0 }));
        !owners.is_empty()
    }

    /// Delivers an event of an object. `None`: the object has no owner. `Some(false)`: the list of
    /// the owner is full.
    pub(crate) fn deliver(&self, event: AsyncEvent) -> Option<bool> {
        let owners = self.lock();
        let (channel, cookie) = owners.get(&EventOwner::of(&event)?)?;
        Some(channel.0.push(OwnedEvent { event, cookie: *cookie }))
    }
}

/// The channels that hear of the port, as long as they exist.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<Vec<Weak<EventList<OwnedEvent>>>>);

impl Subscribers {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<EventList<OwnedEvent>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on; nothing if it does so already.
    pub(crate) fn insert(&self, channel: &EventChannel) {
        let mut lists = self.lock();
        let is_it = |list: &Weak<_>| list.as_ptr() == Arc::as_ptr(&channel.0);
        lists.retain(|list| list.strong_count() > 0 && !is_it(list));
        lists.push(Arc::downgrade(&channel.0));
    }

    /// False: a list is full.
    pub(crate) fn deliver(&self, event: AsyncEvent) -> bool {
        let event = OwnedEvent { event, cookie: PORT };
        let lists: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        lists.iter().filter(|list| !list.push_last(event)).count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn v113_events_go_to_their_owner_until_it_is_destroyed() {
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
    fn v47_every_channel_hears_of_the_port_as_long_as_it_exists() {
        let (one, other) = (EventChannel::new().expect("fd"), EventChannel::new().expect("fd"));
        let subscribers = Subscribers::default();
        for channel in [&one, &one, &other] {
            subscribers.insert(channel);
        }
        assert!(subscribers.deliver(AsyncEvent::PortErr));
        drop(other);
        assert!(subscribers.deliver(AsyncEvent::PortActive));
        for event in [AsyncEvent::PortErr, AsyncEvent::PortActive] {
            let got = one.next_event(NOW).expect("poll");
            assert_eq!(got, Some(OwnedEvent { event, cookie: 1 }));
        }
        assert_eq!(one.next_event(NOW).expect("poll"), None);
        subscribers.insert(&one);
        assert_eq!(subscribers.lock().len(), 1, "what is gone is forgotten");
    }

    #[test]
    fn v113_events_of_the_port_and_of_unowned_objects_have_no_owner() {
        let owners = EventOwners::default();
        assert_eq!(owners.deliver(AsyncEvent::PortErr), None);
        assert_eq!(owners.deliver(AsyncEvent::SrqErr(SrqId(1))), None);
    }
}
