//! The listeners of services.

use std::collections::BTreeMap;

use crate::ServiceId;
use crate::error::CmError;

#[derive(Debug)]
struct Listener {
    /// Requests that may wait for the application.
    backlog: usize,
    waiting: usize,
}

/// The listeners of a device.
#[derive(Debug, Default)]
pub(crate) struct Listeners(BTreeMap<ServiceId, Listener>);

impl Listeners {
    pub(crate) fn add(&mut self, service_id: ServiceId, backlog: usize) -> Result<(), CmError> {
        if self.0.contains_key(&service_id) {
            return Err(CmError::PortTaken(service_id));
        }
        self.0.insert(service_id, Listener { backlog, waiting: 0 });
        Ok(())
    }

    pub(crate) fn remove(&mut self, service_id: ServiceId) -> Result<(), CmError> {
        self.0.remove(&service_id).map(drop).ok_or(CmError::NotListening(service_id))
    }

    pub(crate) fn contains(&self, service_id: ServiceId) -> bool {
        self.0.contains_key(&service_id)
    }

    pub(crate) fn has_room(&self, service_id: ServiceId) -> bool {
        self.0.get(&service_id).is_some_and(|listener| listener.waiting < listener.backlog)
    }

    /// A request waits for the application, or (`false`) does so no more.
    pub(crate) fn count(&mut self, service_id: ServiceId, waits: bool) {
        if let Some(listener) = self.0.get_mut(&service_id) {
            let change =
                if waits { listener.waiting + 1 } else { listener.waiting.saturating_sub(1) };
            listener.waiting = change;
        }
    }
}
