//! Asynchronous events of all engines of a device.

use crate::event_channel::EventOwners;
use crate::event_list::EventList;
use crate::limits::ASYNC_EVENTS;
use std::io;
use uroce_transport::AsyncEvent;

/// Where they come together: at the owner of the object, or in the device's own list.
#[derive(Debug)]
pub(crate) struct DeviceEvents {
    pub(crate) unowned: EventList<AsyncEvent>,
    pub(crate) owners: EventOwners,
}

impl DeviceEvents {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(DeviceEvents { unowned: EventList::new(ASYNC_EVENTS)?, owners: EventOwners::default() })
    }

    /// False: the list of the event's owner is full.
    pub(crate) fn deliver(&self, event: AsyncEvent) -> bool {
        self.owners.deliver(event).unwrap_or_else(|| self.unowned.push(event))
    }
}
