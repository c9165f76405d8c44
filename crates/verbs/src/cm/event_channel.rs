//! Channels of connection events.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uroce_device::cm::{CommId, PortSpace, ServiceId};
use uroce_device::{CmChannel, CreateError};

use super::registry::Registry;
use crate::context::Context;

/// An event channel (`rdma_event_channel`), at which the events of [`CmId`](crate::CmId)s arrive. A clone is the same
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
///     let (client, server) = (open([10, 0, 0, 1])?, open([10, 0, 0, 2])?);
///     let timeout = Some(Duration::from_secs(5));
///
///     let server_channel = server.create_event_channel()?;
///     let listener = server_channel.create_id(PortSpace::Tcp);
///     let address = listener.listen(7174, 8)?;
///
///     let channel = client.create_event_channel()?;
///     let id = channel.create_id(PortSpace::Tcp);
///     id.resolve_addr(address)?; // event AddrResolved
///     id.resolve_route()?; // event RouteResolved
///     let (pd, cq) = (client.alloc_pd()?, client.create_cq(16)?);
///     let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
///     id.connect(&qp, &ConnParam::default())?;
///
///     let request = server_channel.next_event(timeout)?.ok_or("no request")?;
///     let (pd, cq) = (server.alloc_pd()?, server.create_cq(16)?);
///     let peer = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
///     request.id.accept(&peer, &ConnParam::default())?;
///
///     while !matches!(
///         channel.next_event(timeout)?.ok_or("no answer")?.kind,
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
    registry: Mutex<Registry<Inner>>,
    context: Context,
}

impl Context {
    /// Makes an event channel (`rdma_event_channel`), for connections by address and port.
    ///
    /// # Errors
    /// [`CreateError::Descriptor`] when the process has no free descriptor.
    pub fn create_event_channel(&self) -> Result<EventChannel, CreateError> {
        EventChannel::new(self)
    }
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

    pub(super) fn raw(&self) -> &CmChannel {
        &self.0.channel
    }

    /// No event is taken and no object made out of one while it is held.
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry<Inner>> {
        self.0.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.channel.as_fd()
    }
}

/// What the clones of an id share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) channel: EventChannel,
    pub(super) space: PortSpace,
    pub(super) cookie: u64,
    state: Mutex<State>,
}

/// What an id is connected to, or listens on.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) connection: Option<CommId>,
    pub(super) listens: Option<ServiceId>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) source_port: u16,
}

impl Inner {
    /// An id that the program makes.
    pub(super) fn new(channel: &EventChannel, space: PortSpace) -> Arc<Inner> {
        let mut registry = channel.registry();
        let cookie = registry.next_cookie();
        let inner =
            Arc::new(Inner { channel: channel.clone(), space, cookie, state: Mutex::default() });
        registry.add(cookie, &inner);
        inner
    }

    /// The id of a request.
    pub(super) fn called(
        channel: &EventChannel,
        space: PortSpace,
        cookie: u64,
        connection: CommId,
    ) -> Arc<Inner> {
        let state = State { connection: Some(connection), ..State::default() };
        let (channel, state) = (channel.clone(), Mutex::new(state));
        Arc::new(Inner { channel, space, cookie, state })
    }

    /// Refuses the requests to a listener that nobody has fetched, and nobody will.
    fn refuse_unfetched(&self) {
        let refused = self.channel.raw().discard_requests(|event| event.cookie == self.cookie);
        let device = self.channel.context().device();
        refused.into_iter().for_each(|request| device.cm().release(request));
    }

    pub(super) fn listens(&self) -> bool {
        self.state().listens.is_some()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let State { connection, listens, .. } = *self.state();
        self.channel.registry().remove(self.cookie, connection);
        let device = self.channel.context().device();
        if let Some(connection) = connection {
            device.cm().release(connection);
        }
        if let Some(service) = listens {
            // It listens as long as this object.
            let _ = device.cm().unlisten(service);
            self.refuse_unfetched();
        }
    }
}
