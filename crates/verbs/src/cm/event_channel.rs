//! Channels of connection events.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uroce_device::cm::PortSpace;
use uroce_device::{CmChannel, CmEventKind, CreateError};

use super::cm_id::{CmId, Inner};
use super::event::CmEvent;
use super::registry::Registry;
use crate::comp_channel::wait;
use crate::context::Context;

/// A channel (`rdma_event_channel`) on which a program hears of its connections. A clone is the same
/// channel.
///
/// The descriptor ([`AsFd`]) is readable while events wait; put it into poll(2) or epoll, but fetch
/// events with the methods here. Events need no acknowledgement.
///
/// ```
/// use std::{error::Error, time::Duration};
/// use uroce_verbs::*;
///
/// fn main() -> Result<(), Box<dyn Error>> {
///     let fabric = LoopbackFabric::new();
///     let open = |ip: [u8; 4]| Context::builder().address(ip).loopback(&fabric).open();
///     let (caller, called) = (open([10, 0, 0, 1])?, open([10, 0, 0, 2])?);
///     let patience = Some(Duration::from_secs(5));
///
///     let doorstep = called.create_event_channel()?;
///     let listener = doorstep.create_id(PortSpace::Tcp);
///     let address = listener.listen(7174, 8)?;
///
///     let channel = caller.create_event_channel()?;
///     let id = channel.create_id(PortSpace::Tcp);
///     id.resolve_addr(address)?; // event AddrResolved
///     id.resolve_route()?; // event RouteResolved
///     let (pd, cq) = (caller.alloc_pd()?, caller.create_cq(16)?);
///     let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
///     id.connect(&qp, &ConnParam::default())?;
///
///     let request = doorstep.next_event(patience)?.ok_or("no request")?;
///     let (pd, cq) = (called.alloc_pd()?, called.create_cq(16)?);
///     let peer = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
///     request.id.accept(&peer, &ConnParam::default())?;
///
///     while !matches!(
///         channel.next_event(patience)?.ok_or("no answer")?.kind,
///         CmEventKind::Established { .. }
///     ) {}
///     assert_eq!((qp.state(), peer.state()), (QpState::Rts, QpState::Rts));
///     id.disconnect()?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct EventChannel(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    channel: CmChannel,
    registry: Mutex<Registry>,
    context: Context,
}

impl EventChannel {
    pub(crate) fn new(context: &Context) -> Result<Self, CreateError> {
        let channel = CmChannel::new().map_err(CreateError::Descriptor)?;
        let registry = Mutex::default();
        Ok(EventChannel(Arc::new(Shared { channel, registry, context: context.clone() })))
    }

    /// The device of this channel.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// A new id (`rdma_create_id`): to listen with, or to call a peer.
    pub fn create_id(&self, space: PortSpace) -> CmId {
        CmId::new(self, space)
    }

    pub(super) fn raw(&self) -> &CmChannel {
        &self.0.channel
    }

    /// No event is taken and no object made out of one while it is held.
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
            self.0.channel.wait(left)?;
        }
    }

    /// The next event if one waits. Never sleeps.
    pub fn try_event(&self) -> Option<CmEvent> {
        loop {
            match self.take()? {
                Taken::Event(event) => return Some(event),
                // Outside of the registry's lock, which a dropped id needs.
                Taken::Orphan(connection) => self.context().device().cm_release(connection),
                Taken::Nothing => {}
            }
        }
    }

    /// One event of the device. New ids are made under the registry's lock, so that no other
    /// thread can take a later event of the same connection before.
    fn take(&self) -> Option<Taken> {
        let mut registry = self.registry();
        let event = self.0.channel.try_event()?;
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
        registry: &mut Registry,
        event: uroce_device::CmEvent,
        owner: Option<&Arc<Inner>>,
    ) -> Taken {
        let is_request = matches!(
            event.kind,
            CmEventKind::ConnectRequest(_) | CmEventKind::ResolveRequest { .. }
        );
        if is_request {
            let Some(listener) = owner else { return Taken::Orphan(event.id) };
            let cookie = registry.next_cookie();
            let id = Inner::called(self, listener.space(), cookie, event.id);
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

/// What a look at the device's channel gave.
enum Taken {
    Event(CmEvent),
    /// A request for a listener that was dropped.
    Orphan(uroce_device::cm::CommId),
    /// An event of an id that was dropped.
    Nothing,
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.channel.as_fd()
    }
}
