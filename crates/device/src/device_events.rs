//! Asynchronous events of all engines of a device.

use std::io;

use uroce_transport::AsyncEvent;

use crate::event_channel::{EventOwners, Subscribers};
use crate::event_list::EventList;
use crate::limits::ASYNC_EVENTS;

/// Where they come together: at the owner of the object, or in the device's own list.
#[derive(Debug)]
pub(crate) struct DeviceEvents {
    pub(crate) unowned: EventList<AsyncEvent>,
    pub(crate) owners: EventOwners,
    /// Lists that get the events of the port, beside the device's own.
    pub(crate) subscribers: Subscribers,
}

impl DeviceEvents {
    pub(crate) fn new() -> io::Result<Self> {
        let unowned = EventList::new(ASYNC_EVENTS)?;
        Ok(DeviceEvents {
            unowned,
            owners: EventOwners::default(),
            subscribers: Subscribers::default(),
        })
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
