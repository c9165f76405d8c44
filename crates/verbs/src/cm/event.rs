//! Events of connections.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uroce_device::CmEventKind;
use uroce_device::cm::CommId;

use super::cm_id::CmId;
use super::event_channel::{EventChannel, Inner};
use super::registry::Registry;
use crate::wait::wait;

/// An event of a [`CmId`] (`rdma_cm_event`), fetched from its [`EventChannel`].
#[derive(Debug, Clone)]
pub struct CmEvent {
    /// The id that the event is about. A `ConnectRequest` or `ResolveRequest` brings a new id: accept, answer or
    /// reject the request with it. Dropping the new id rejects the request.
    pub id: CmId,
    /// The listener, if the event is a request; else `None`.
    pub listener: Option<CmId>,
    /// What happened.
    pub kind: CmEventKind,
}

/// What a look at the device's channel gave.
enum Taken {
    Event(CmEvent),
    /// A request for a listener that was dropped.
    Orphan(CommId),
    /// An event of an id that was dropped.
    Nothing,
}

impl EventChannel {
    /// Sleeps until something happens (`rdma_get_cm_event`); `None` as `timeout` waits for ever, zero
    /// only looks. `Ok(None)`: the time is over.
    ///
    /// # Errors
    /// What poll(2) says; there is no known reason other than lack of kernel memory.
    pub fn next_event(&self, timeout: Option<Duration>) -> io::Result<Option<CmEvent>> {
        wait(self.context().device(), timeout, |timeout| self.wait_here(timeout))
    }

    fn wait_here(&self, timeout: Option<Duration>) -> io::Result<Option<CmEvent>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(event) = self.try_event() {
                return Ok(Some(event));
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            self.raw().wait(left)?;
        }
    }

    /// The next event if one waits. Never sleeps.
    pub fn try_event(&self) -> Option<CmEvent> {
        loop {
            match self.take()? {
                Taken::Event(event) => {
                    if event.kind.is_request()
                        && let Some(request) = event.id.connection()
                    {
                        self.context().device().cm().note_fetched(request);
                    }
                    return Some(event);
                }
                // Outside of the registry's lock, which a dropped id needs.
                Taken::Orphan(connection) => self.context().device().cm().release(connection),
                Taken::Nothing => {}
            }
        }
    }

    /// One event of the device. New ids are made under the registry's lock, so that no other
    /// thread can take a later event of the same connection before.
    fn take(&self) -> Option<Taken> {
        let mut registry = self.registry();
        let event = self.raw().try_event()?;
        let owner = registry.by_cookie(event.cookie);
        let taken = self.attribute(&mut registry, event, owner.as_ref());
        // Unlocked before the owner is let go: if the program has dropped it meanwhile, it goes
        // now, and takes itself off the registry.
        drop(registry);
        drop(owner);
        Some(taken)
    }

    fn attribute(
        &self,
        registry: &mut Registry<Inner>,
        event: uroce_device::CmEvent,
        owner: Option<&Arc<Inner>>,
    ) -> Taken {
        if event.kind.is_request() {
            let Some(listener) = owner else { return Taken::Orphan(event.id) };
            let cookie = registry.next_cookie();
            let id = Inner::called(self, listener.space, cookie, event.id);
            registry.add_connection(event.id, &id);
            let (id, listener) = (CmId::of(id), Some(CmId::of(Arc::clone(listener))));
            return Taken::Event(CmEvent { id, listener, kind: event.kind });
        }
        let found = registry.by_connection(event.id);
        let found = found.or_else(|| owner.filter(|owner| !owner.listens()).cloned());
        let Some(id) = found else { return Taken::Nothing };
        Taken::Event(CmEvent { id: CmId::of(id), listener: None, kind: event.kind })
    }
}
