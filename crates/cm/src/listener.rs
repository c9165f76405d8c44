//! The listeners of services.

use std::collections::BTreeMap;

use crate::ServiceId;
use crate::error::CmError;

#[derive(Debug)]
struct Listener {
    id: ListenerId,
    /// Requests that may wait for the application to fetch them.
    backlog: usize,
    waiting: usize,
}

/// One listener of a service; the next one of that service is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerId {
    service_id: ServiceId,
    number: u64,
}

/// The listeners of a device.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    listeners: BTreeMap<ServiceId, Listener>,
    /// Number of the last one.
    last: u64,
}

impl Listeners {
    pub(crate) fn add(&mut self, service_id: ServiceId, backlog: usize) -> Result<(), CmError> {
        if self.contains(service_id) {
            return Err(CmError::PortTaken(service_id));
        }
        self.last += 1;
        let id = ListenerId { service_id, number: self.last };
        self.listeners.insert(service_id, Listener { id, backlog, waiting: 0 });
        Ok(())
    }

    pub(crate) fn remove(&mut self, service_id: ServiceId) -> Result<(), CmError> {
        self.listeners.remove(&service_id).map(drop).ok_or(CmError::NotListening(service_id))
    }

    pub(crate) fn contains(&self, service_id: ServiceId) -> bool {
        self.listeners.contains_key(&service_id)
    }

    pub(crate) fn has_room(&self, service_id: ServiceId) -> bool {
        self.listeners.get(&service_id).is_some_and(|listener| listener.waiting < listener.backlog)
    }

    /// A request waits for the application of the service: at this listener.
    pub(crate) fn begin_waiting(&mut self, service_id: ServiceId) -> Option<ListenerId> {
        let listener = self.listeners.get_mut(&service_id)?;
        listener.waiting += 1;
        Some(listener.id)
    }

    /// A request that has waited at `id` does so no more. The service may have another listener since.
    pub(crate) fn end_waiting(&mut self, id: ListenerId) {
        if let Some(listener) = self.listeners.get_mut(&id.service_id)
            && listener.id == id
        {
            debug_assert!(listener.waiting > 0, "who waited was counted");
            listener.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortSpace;

    #[test]
    fn requests_of_a_closed_listener_make_no_room_at_the_next_one() {
        let service = ServiceId::new(PortSpace::Tcp, 7174);
        let mut listeners = Listeners::default();
        listeners.add(service, 1).expect("free");
        let old = listeners.begin_waiting(service).expect("it listens");
        listeners.remove(service).expect("it listens");
        listeners.add(service, 1).expect("free again");
        let new = listeners.begin_waiting(service).expect("it listens");
        listeners.end_waiting(old);
        assert!(!listeners.has_room(service), "one waits at the new one");
        listeners.end_waiting(new);
        assert!(listeners.has_room(service));
    }
}
