//! Asynchronous events of all engines of a device.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use uroce_transport::AsyncEvent;

use crate::event_channel::{EventChannel, EventOwner, EventOwners, Subscribers};
use crate::event_list::EventList;
use crate::limits::ASYNC_EVENTS;

/// The asynchronous events of a device: those of an object come to its owner's channel, the others
/// wait here.
///
/// The descriptor is readable exactly while events wait here. It is for poll(2) only, not for reading.
#[derive(Debug)]
pub struct AsyncEvents {
    unowned: EventList<AsyncEvent>,
    owners: EventOwners,
    /// Channels that get the events of the port, beside this list.
    subscribers: Subscribers,
}

impl AsyncEvents {
    pub(crate) fn new() -> io::Result<Self> {
        let unowned = EventList::new(ASYNC_EVENTS)?;
        Ok(AsyncEvents {
            unowned,
            owners: EventOwners::default(),
            subscribers: Subscribers::default(),
        })
    }

    /// The next event (`ibv_get_async_event`); `None` as `timeout` waits for ever.
    ///
    /// # Errors
    /// What poll(2) says.
    pub fn next_event(&self, timeout: Option<Duration>) -> io::Result<Option<AsyncEvent>> {
        self.unowned.wait(timeout)
    }

    /// The next event if one waits. Never sleeps.
    pub fn try_event(&self) -> Option<AsyncEvent> {
        self.unowned.pop()
    }

    /// From now on the events of `owner` go to `channel`, with `cookie`, and no longer to
    /// [`next_event`](Self::next_event). It ends when the object is destroyed. For users that
    /// share a device and must not see each other's events.
    pub fn own(&self, owner: EventOwner, channel: &EventChannel, cookie: u64) {
        self.owners.insert(owner, channel, cookie);
    }

    /// From now on `channel` hears of the port, too (`PortErr`, `PortActive`, `GidChange`), as
    /// [`next_event`](Self::next_event) does; it ends with the channel.
    pub fn subscribe_to_port(&self, channel: &EventChannel) {
        self.subscribers.insert(channel);
    }

    /// An object is gone, and the events that its owner has not fetched (R93).
    pub(crate) fn disown(&self, owner: EventOwner) {
        self.owners.remove(owner);
    }

    /// An object is gone, and all its events that were not fetched.
    pub(crate) fn forget(&self, owner: EventOwner) {
        self.unowned.retain(|event| EventOwner::of(event) != Some(owner));
        self.disown(owner);
    }

    /// False: the list of the event's owner is full.
    pub(crate) fn deliver(&self, event: AsyncEvent) -> bool {
        if event == AsyncEvent::DeviceFatal && self.owners.deliver_to_all(event) {
            return true;
        }
        self.owners.deliver(event).unwrap_or_else(|| self.unowned.push(event))
    }

    /// Delivers an event of the port to all lists. False: a list is full.
    pub(crate) fn deliver_of_port(&self, event: AsyncEvent) -> bool {
        // Not short-circuited.
        self.subscribers.deliver(event) & self.unowned.push_last(event)
    }
}

impl AsFd for AsyncEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.unowned.as_fd()
    }
}
