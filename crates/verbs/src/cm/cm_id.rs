//! One end of a connection, or a listener.

use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};

use uroce_device::cm::{
    Acceptance, Answer, Call, CmError, CommId, PortSpace, Question, RejReason, ServiceId,
    SidrStatus,
};
use uroce_device::{CmEvent, CmEventKind};

use super::conn_param::ConnParam;
use super::error::CmIdError;
use super::event_channel::{EventChannel, Inner, State};
use crate::error::ForeignObject;
use crate::queue_pair::QueuePair;

/// The Q_Key that rdma_cm gives services of UD queue pairs, port space [`PortSpace::Udp`] (`RDMA_UDP_QKEY`).
pub const RDMA_UDP_QKEY: u32 = 0x0123_4567;

/// One end of a connection, or a listener (`rdma_cm_id`). A clone is the same id. When the last clone is dropped, its
/// connection ends or its listener stops; the queue pair belongs to the program and stays.
///
/// The active side (client) calls [`resolve_addr`](Self::resolve_addr), [`resolve_route`](Self::resolve_route) and
/// [`connect`](Self::connect). The passive side (server) calls [`listen`](Self::listen); each request of a client
/// brings a new id, for [`accept`](Self::accept). None of these calls sleeps: what comes of them arrives as events at
/// the [`EventChannel`], which has an example.
#[derive(Debug, Clone)]
pub struct CmId(Arc<Inner>);

impl EventChannel {
    /// Makes an id (`rdma_create_id`), to listen with or to connect to a peer. Its events come to this channel.
    pub fn create_id(&self, space: PortSpace) -> CmId {
        CmId(Inner::new(self, space))
    }
}

impl CmId {
    pub(super) fn of(inner: Arc<Inner>) -> CmId {
        CmId(inner)
    }

    /// The channel at which events of this id arrive.
    pub fn channel(&self) -> &EventChannel {
        &self.0.channel
    }

    /// The port space of this id.
    pub fn port_space(&self) -> PortSpace {
        self.0.space
    }

    /// True if `other` is a clone of this id: to find the connection that an event is about.
    pub fn is(&self, other: &CmId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The peer that [`resolve_addr`](Self::resolve_addr) was given; `None` at the passive side and before that call.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.state().peer
    }

    /// Communication id of the connection at this end, for logs; `None` as long as there is no connection.
    pub fn connection(&self) -> Option<CommId> {
        self.0.state().connection
    }

    /// Listens on `port` of the device's address (`rdma_listen`); 0 picks a free port. Each request comes as an event
    /// `ConnectRequest`. At most `backlog` requests wait to be fetched; those beyond are rejected with
    /// [`RejReason::NO_RESOURCES`]. Of requests that were fetched, and not yet accepted or rejected, there can be 256 from
    /// one address, and 1,024 in all. Returns the address and the port.
    ///
    /// # Errors
    /// [`CmIdError`]: the port is taken, or the id is in use.
    pub fn listen(&self, port: u16, backlog: usize) -> Result<SocketAddr, CmIdError> {
        let mut state = self.unused()?;
        let (device, space) = (self.channel().context().device(), self.0.space);
        let port = match port {
            0 => device.cm().free_port(space).ok_or(CmIdError::NoPort)?,
            port => port,
        };
        let service = ServiceId::new(space, port);
        device.cm().listen(service, backlog, self.channel().raw(), self.0.cookie)?;
        state.listens = Some(service);
        Ok(SocketAddr::new(device.address(), port))
    }

    /// Names the peer to connect to (`rdma_resolve_addr`). Event: `AddrResolved`.
    ///
    /// # Errors
    /// [`CmIdError`]: the other IP version, or the id is in use.
    pub fn resolve_addr(&self, peer: SocketAddr) -> Result<(), CmIdError> {
        let mut state = self.unused()?;
        let (local, remote) = (self.channel().context().address(), peer.ip());
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(CmError::OtherFamily { remote, local }.into());
        }
        let device = self.channel().context().device();
        state.source_port = device.cm().free_port(self.0.space).ok_or(CmIdError::NoPort)?;
        state.peer = Some(peer);
        self.post(CmEventKind::AddrResolved);
        Ok(())
    }

    /// Finds a path to the peer (`rdma_resolve_route`); on RoCE the kernel's routes decide when
    /// packets are sent, so there is nothing to wait for. Event: `RouteResolved`.
    ///
    /// # Errors
    /// [`CmIdError::NotResolved`]: call [`resolve_addr`](Self::resolve_addr) before.
    pub fn resolve_route(&self) -> Result<(), CmIdError> {
        self.peer().ok_or(CmIdError::NotResolved)?;
        self.post(CmEventKind::RouteResolved);
        Ok(())
    }

    fn post(&self, kind: CmEventKind) {
        let (cookie, id) = (self.0.cookie, CommId::NONE);
        self.channel().raw().post(CmEvent { cookie, id, kind });
    }

    /// Asks the peer for a connection of `qp`, an RC or UC queue pair in RESET or INIT (`rdma_connect`). When the
    /// peer accepts, the device moves `qp` to RTS. Keep `qp` until then. One of these events tells the outcome:
    /// `Established`; `Rejected` by the peer; `Unreachable` after about 25 seconds without an answer; `ConnectError`.
    ///
    /// # Errors
    /// [`CmIdError`]: no peer resolved, too much private data, an unsuitable queue pair.
    pub fn connect(&self, qp: &QueuePair, param: &ConnParam) -> Result<(), CmIdError> {
        self.check(qp)?;
        self.check_space(PortSpace::Tcp, "resolve_service() finds services of datagrams")?;
        let mut state = self.unused()?;
        let peer = state.peer.ok_or(CmIdError::NotResolved)?;
        let service = ServiceId::new(self.0.space, peer.port());
        let call = Call {
            source_port: state.source_port,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            traffic_class: param.traffic_class,
            private_data: param.private_data.clone(),
            ..Call::new(peer.ip(), service, qp.qpn(), qp.start_psn())
        };
        let device = self.channel().context().device();
        let connection = device.cm().connect(&call, self.channel().raw(), self.0.cookie)?;
        state.connection = Some(connection);
        drop(state);
        self.channel().registry().add_connection(connection, &self.0);
        Ok(())
    }

    /// Accepts the request that brought this id (`rdma_accept`): `qp`, an RC or UC queue pair in
    /// RESET or INIT, goes to RTS. Bring it to INIT ([`QueuePair::init`]) and post receives before, because the peer may
    /// send at once. Event: `Established`, or `Unreachable` if the peer does not confirm.
    ///
    /// # Errors
    /// [`CmIdError`]: this id has no request that waits, too much private data, an unsuitable queue pair.
    pub fn accept(&self, qp: &QueuePair, param: &ConnParam) -> Result<(), CmIdError> {
        self.check(qp)?;
        let acceptance = Acceptance {
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            rnr_retry_count: param.rnr_retry_count,
            private_data: param.private_data.clone(),
            ..Acceptance::new(qp.qpn(), qp.start_psn())
        };
        let device = self.channel().context().device();
        Ok(device.cm().accept(self.connected()?, &acceptance)?)
    }

    /// Refuses the request that brought this id (`rdma_reject`), with up to 148 bytes of private data for the
    /// client.
    ///
    /// # Errors
    /// [`CmIdError`]: this id has no request that waits, too much private data.
    pub fn reject(&self, private_data: &[u8]) -> Result<(), CmIdError> {
        let device = self.channel().context().device();
        let connection = self.connected()?;
        if self.0.space == PortSpace::Udp {
            let private_data = private_data.to_vec();
            let refusal = Answer { private_data, ..Answer::refusal(SidrStatus::REJECTED) };
            return Ok(device.cm().answer(connection, &refusal)?);
        }
        Ok(device.cm().reject(connection, RejReason::CONSUMER, private_data)?)
    }

    /// Ends the connection (`rdma_disconnect`): the queue pair goes to the error state. Event, at
    /// both ends: `Disconnected`; later `TimewaitExit`, when no packet of the connection can be on the way any more.
    ///
    /// # Errors
    /// [`CmIdError`]: this id has no connection that is established.
    pub fn disconnect(&self) -> Result<(), CmIdError> {
        let device = self.channel().context().device();
        Ok(device.cm().disconnect(self.connected()?, &[])?)
    }

    /// Asks the peer which queue pair serves its port, for datagrams (`rdma_connect` in the port space
    /// UDP), with up to 180 bytes of private data. Events: `Resolved`, `Unreachable`.
    ///
    /// # Errors
    /// [`CmIdError`]: no peer resolved, too much private data, a port space of connections.
    pub fn resolve_service(&self, private_data: &[u8]) -> Result<(), CmIdError> {
        self.check_space(PortSpace::Udp, "connect() makes connections")?;
        let mut state = self.unused()?;
        let peer = state.peer.ok_or(CmIdError::NotResolved)?;
        let service = ServiceId::new(self.0.space, peer.port());
        let question = Question {
            source_port: state.source_port,
            private_data: private_data.to_vec(),
            ..Question::new(peer.ip(), service)
        };
        let device = self.channel().context().device();
        let id = device.cm().resolve(&question, self.channel().raw(), self.0.cookie)?;
        state.connection = Some(id);
        drop(state);
        self.channel().registry().add_connection(id, &self.0);
        Ok(())
    }

    /// Answers the `ResolveRequest` that brought this id: the UD queue pair `qp` takes datagrams that carry `qkey`,
    /// usually [`RDMA_UDP_QKEY`]. With up to 136 bytes of private data. Does not [activate](QueuePair::activate) `qp`.
    ///
    /// # Errors
    /// [`CmIdError`]: this id has no request that waits, too much private data.
    pub fn answer(&self, qp: &QueuePair, qkey: u32, private_data: &[u8]) -> Result<(), CmIdError> {
        self.check(qp)?;
        let (status, qpn, private_data) = (SidrStatus::VALID, qp.qpn(), private_data.to_vec());
        let answer = Answer { status, qpn, qkey, private_data };
        let device = self.channel().context().device();
        Ok(device.cm().answer(self.connected()?, &answer)?)
    }

    fn unused(&self) -> Result<MutexGuard<'_, State>, CmIdError> {
        let state = self.0.state();
        if state.connection.is_some() || state.listens.is_some() {
            return Err(CmIdError::InUse);
        }
        Ok(state)
    }

    fn connected(&self) -> Result<CommId, CmIdError> {
        self.connection().ok_or(CmIdError::NotConnected)
    }

    fn check(&self, qp: &QueuePair) -> Result<(), ForeignObject> {
        if !qp.context().is(self.channel().context()) {
            return Err(ForeignObject { what: "queue pair" });
        }
        Ok(())
    }

    /// Datagrams have services, everything else has connections.
    fn check_space(&self, wanted: PortSpace, instead: &'static str) -> Result<(), CmIdError> {
        let space = self.0.space;
        if (space == PortSpace::Udp) != (wanted == PortSpace::Udp) {
            return Err(CmIdError::WrongSpace { space, instead });
        }
        Ok(())
    }
}
