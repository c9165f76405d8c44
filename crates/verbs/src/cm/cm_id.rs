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

/// The Q_Key of services in the port space of datagrams (`RDMA_UDP_QKEY`).
pub const RDMA_UDP_QKEY: u32 = 0x0123_4567;

/// One end of a connection, or a listener (`rdma_cm_id`). A clone is the same id; with the last one
/// a connection ends and a listener stops. The queue pair is the program's own and stays.
///
/// A caller: [`resolve_addr`](Self::resolve_addr), [`resolve_route`](Self::resolve_route),
/// [`connect`](Self::connect). A listener: [`listen`](Self::listen), and each request brings an id
/// to [`accept`](Self::accept). What happens then comes as events to the [`EventChannel`].
#[derive(Debug, Clone)]
pub struct CmId(Arc<Inner>);

impl EventChannel {
    /// A new id (`rdma_create_id`): to listen with, or to call a peer.
    pub fn create_id(&self, space: PortSpace) -> CmId {
        CmId(Inner::new(self, space))
    }
}

impl CmId {
    pub(super) fn of(inner: Arc<Inner>) -> CmId {
        CmId(inner)
    }

    /// Where its events go.
    pub fn channel(&self) -> &EventChannel {
        &self.0.channel
    }

    /// Its port space.
    pub fn port_space(&self) -> PortSpace {
        self.0.space
    }

    /// True if both are the same id.
    pub fn is(&self, other: &CmId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The peer that it has resolved.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.state().peer
    }

    /// The name of its connection at this end, for logs.
    pub fn connection(&self) -> Option<CommId> {
        self.0.state().connection
    }

    /// Takes calls to `port` of the device's address from now on (`rdma_listen`); 0 picks a free
    /// port. At most `backlog` of them wait for an answer; callers beyond are refused. Returns where
    /// it listens.
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

    /// Finds the way to a peer (`rdma_resolve_addr`). Event: `AddrResolved`.
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
    /// packets are sent, so it always succeeds. Event: `RouteResolved`.
    ///
    /// # Errors
    /// [`CmIdError::NotResolved`].
    pub fn resolve_route(&self) -> Result<(), CmIdError> {
        self.peer().ok_or(CmIdError::NotResolved)?;
        self.post(CmEventKind::RouteResolved);
        Ok(())
    }

    fn post(&self, kind: CmEventKind) {
        let (cookie, id) = (self.0.cookie, CommId::NONE);
        self.channel().raw().post(CmEvent { cookie, id, kind });
    }

    /// Calls the peer for `qp`, an RC or UC queue pair in RESET or INIT (`rdma_connect`). When the
    /// peer accepts, `qp` goes to RTS by itself. Events: `Established`, `Rejected`, `Unreachable`,
    /// `ConnectError`.
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
    /// RESET or INIT, goes to RTS. Post receives before. Events: `Established`, or `Unreachable`.
    ///
    /// # Errors
    /// [`CmIdError`]: it is no request that waits, too much private data, an unsuitable queue pair.
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

    /// Refuses the request that brought this id (`rdma_reject`), with up to 148 bytes for the
    /// caller.
    ///
    /// # Errors
    /// [`CmIdError`]: it is no request that waits, too much private data.
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
    /// both ends: `Disconnected`, and `TimewaitExit` when its last packets have died out.
    ///
    /// # Errors
    /// [`CmIdError`]: there is no connection that stands.
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

    /// Answers the question that brought this id: `qp` takes datagrams that carry `qkey`, usually
    /// [`RDMA_UDP_QKEY`]. With up to 136 bytes of private data.
    ///
    /// # Errors
    /// [`CmIdError`]: it is no question that waits, too much private data.
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
