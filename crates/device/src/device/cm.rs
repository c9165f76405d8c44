//! Connections by address and port: the verbs of rdma_cm.
//!
//! Of several engines the first listens. A connection belongs to the engine that gave out its id: for a call of
//! ours that of the queue pair, for one that came the first.

use uroce_cm::{
    Acceptance, Answer, Call, CmError, CommId, Link, PortSpace, Question, RejReason, ServiceId,
    State,
};
use uroce_transport::QpType;

use crate::cm_channel::CmChannel;
use crate::engines::{Engines, Shared};
use crate::error::ConnectionError;

/// The connection manager of a device ([`Device::cm`](crate::Device::cm)).
///
/// The device moves the queue pairs of its connections. Of connections that are made with
/// [`connect_only`](Self::connect_only) and [`accept_only`](Self::accept_only) it sends and receives
/// the CM messages only: the application moves their queue pairs.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionManager<'a> {
    engines: &'a Engines,
}

impl<'a> ConnectionManager<'a> {
    pub(super) fn new(engines: &'a Engines) -> Self {
        ConnectionManager { engines }
    }

    /// A port of `space` without a listener on this address; `None` if none was found.
    pub fn free_port(&self, space: PortSpace) -> Option<u16> {
        self.engines.first().lock().with_gsi(|gsi, cx| gsi.free_port(space, cx))
    }

    /// Reserves a service for this process, whether or not it listens: no other process on the
    /// address can bind or listen to it until [`unbind`](Self::unbind). Requests are rejected
    /// as long as there is no listener, unless one is [expected](Self::expect_listener).
    ///
    /// # Errors
    /// [`CmError::PortTaken`] by another process on the address; [`CmError::Unfindable`].
    pub fn bind(&self, service_id: ServiceId) -> Result<(), CmError> {
        self.engines.first().lock().with_gsi(|gsi, cx| gsi.bind(service_id, cx))
    }

    /// The application is about to listen on a service that it has bound: requests of the next two
    /// seconds wait for the listener, and are rejected if none comes. Does nothing when 64 services
    /// wait for theirs already.
    pub fn expect_listener(&self, service_id: ServiceId) {
        self.engines.first().lock().with_gsi(|gsi, cx| gsi.expect_listener(service_id, cx));
    }

    /// Gives up a service that was bound. Does nothing if it was not.
    pub fn unbind(&self, service_id: ServiceId) {
        self.engines.first().lock().with_gsi(|gsi, _| gsi.unbind(service_id));
    }

    /// Takes calls to `service_id`; they come to `channel` with `cookie`. At most `backlog` of them
    /// wait for an answer, those left out that [`note_fetched`](Self::note_fetched) has named.
    ///
    /// # Errors
    /// [`CmError::PortTaken`], by any process on the address; [`CmError::Unfindable`].
    pub fn listen(
        &self,
        service_id: ServiceId,
        backlog: usize,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<(), CmError> {
        let mut engine = self.engines.first().lock();
        engine.with_gsi(|gsi, cx| gsi.listen(service_id, backlog, (channel, cookie), cx))
    }

    /// The application has a request, which no longer counts against the backlog of its listener: with Linux only those
    /// count that nobody has fetched. Of those without an answer a device takes 256 of one source, and 1,024 in all.
    pub fn note_fetched(&self, id: CommId) {
        self.of(id).lock().gsi.note_fetched(id);
    }

    /// Accepts no more requests. Those that came before can still be answered; those of the next
    /// second are held back in case the application listens again.
    ///
    /// # Errors
    /// [`CmError::NotListening`].
    pub fn unlisten(&self, service_id: ServiceId) -> Result<(), CmError> {
        self.engines.first().lock().with_gsi(|gsi, cx| gsi.unlisten(service_id, cx))
    }

    /// Calls a peer for the queue pair `call.qpn`, in RESET or INIT. When the peer accepts, the
    /// queue pair goes to RTS by itself, and then the event comes to `channel` with `cookie`. Path
    /// MTU, transport and SRQ of the call are those of the port and the queue pair.
    ///
    /// # Errors
    /// [`ConnectionError`]; nothing was sent.
    pub fn connect(
        &self,
        call: &Call,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<CommId, ConnectionError> {
        let mut engine = self.engines.of_qp(call.qpn).lock();
        engine.with_gsi(|gsi, cx| gsi.connect(call, (channel, cookie), cx))
    }

    /// As [`connect`](Self::connect), but leaves the queue pair alone, which need not be this
    /// device's. When the peer accepts, the event "accepted" comes with what the queue pair needs;
    /// [`establish`](Self::establish) is due then. The path MTU is the port's.
    ///
    /// # Errors
    /// [`CmError`]; nothing was sent.
    pub fn connect_only(
        &self,
        call: &Call,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<CommId, CmError> {
        let mut engine = self.engines.first().lock();
        engine.with_gsi(|gsi, cx| gsi.connect_only(call, (channel, cookie), cx))
    }

    /// The queue pair of an accepted call is ready: the peer is told so.
    ///
    /// # Errors
    /// [`CmError`]: the call was not accepted, or was established before.
    pub fn establish(&self, id: CommId) -> Result<(), CmError> {
        self.of(id).lock().with_gsi(|gsi, _| gsi.establish(id))
    }

    /// Accepts a REQ with the queue pair `acceptance.qpn`, in RESET or INIT, which goes to RTS. The
    /// event "established" follows when the peer has confirmed.
    ///
    /// # Errors
    /// [`ConnectionError`]; the call can be accepted otherwise or rejected.
    pub fn accept(&self, id: CommId, acceptance: &Acceptance) -> Result<(), ConnectionError> {
        let (caller, home) = (self.of(id), self.engines.of_qp(acceptance.qpn));
        if !std::ptr::eq(caller, home) {
            return accept_elsewhere(id, acceptance, caller, home);
        }
        caller.lock().with_gsi(|gsi, cx| gsi.accept(id, acceptance, cx))
    }

    /// As [`accept`](Self::accept), but leaves the queue pair alone: it should be able to
    /// receive already, with what [`link_with`](Self::link_with) says.
    ///
    /// # Errors
    /// [`CmError`]: the call was answered or is gone, too much private data.
    pub fn accept_only(&self, id: CommId, acceptance: &Acceptance) -> Result<(), CmError> {
        self.of(id).lock().with_gsi(|gsi, cx| gsi.accept_only(id, acceptance, cx))
    }

    /// Attributes of a queue pair that accepts a REQ with this acceptance.
    ///
    /// # Errors
    /// [`CmError`]: the call was answered or is gone, too much private data.
    pub fn link_with(&self, id: CommId, acceptance: &Acceptance) -> Result<Link, CmError> {
        self.of(id).lock().gsi.link_with(id, acceptance)
    }

    /// A queue pair that the application readied itself has received its first packet: that stands for the
    /// peer's confirmation, which may be lost.
    pub fn handle_comm_est(&self, id: CommId) {
        self.of(id).lock().confirm(id);
    }

    /// Rejects a REQ, with up to 148 bytes of private data; or a SIDR REQ, with up to 136: its status is
    /// [`SidrStatus::REJECTED`](uroce_cm::SidrStatus::REJECTED), and `reason` is not told.
    ///
    /// # Errors
    /// [`CmError`]: it waits for no answer, too much private data.
    pub fn reject(
        &self,
        id: CommId,
        reason: RejReason,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        self.of(id).lock().with_gsi(|gsi, cx| gsi.reject(id, reason, private_data, cx))
    }

    /// Ends a connection, with up to 220 bytes for the peer: the queue pair goes to the error
    /// state, and outstanding work requests complete as flushed.
    ///
    /// # Errors
    /// [`CmError`]: it does not stand, too much private data.
    pub fn disconnect(&self, id: CommId, private_data: &[u8]) -> Result<(), CmError> {
        self.of(id).lock().with_gsi(|gsi, cx| gsi.disconnect(id, private_data, cx))
    }

    /// Asks which queue pair serves a service of datagrams; the answer comes to `channel` with
    /// `cookie`.
    ///
    /// # Errors
    /// [`CmError`].
    pub fn resolve(
        &self,
        question: &Question,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<CommId, CmError> {
        let mut engine = self.engines.first().lock();
        engine.with_gsi(|gsi, cx| gsi.resolve(question, (channel, cookie), cx))
    }

    /// Answers the question of a peer.
    ///
    /// # Errors
    /// [`CmError`]: it was answered, too much private data.
    pub fn answer(&self, id: CommId, answer: &Answer) -> Result<(), CmError> {
        self.of(id).lock().with_gsi(|gsi, cx| gsi.answer(id, answer, cx))
    }

    /// Where a connection stands; `None` when it is over.
    pub fn state(&self, id: CommId) -> Option<State> {
        self.of(id).lock().gsi.state(id)
    }

    /// A peer has not confirmed yet that a connection is over; released connections count. A process that ends
    /// now leaves that peer in doubt if the message was lost.
    pub fn awaits_drep(&self) -> bool {
        // At its end a process may have interrupted a call that holds an engine.
        let waits = |shared: &Shared| shared.try_lock().is_some_and(|e| e.gsi.awaits_drep());
        self.engines.all().iter().any(|shared| waits(shared))
    }

    /// The application is done with `id`, in any state: no further event of it comes, and those
    /// that wait are forgotten (B54). The peer is told what it must know. The queue pair of a
    /// connection that stood goes to the error state.
    pub fn release(&self, id: CommId) {
        self.of(id).lock().with_gsi(|gsi, cx| gsi.release(id, cx));
    }

    /// From now on events of the connection come to `channel`, with `cookie`, including those that
    /// were not fetched yet.
    pub fn move_connection(&self, id: CommId, channel: &CmChannel, cookie: u64) {
        self.of(id).lock().with_gsi(|gsi, _| gsi.move_connection(id, channel, cookie));
    }

    /// From now on requests to a service come to `channel`, with `cookie`, including those that
    /// were not fetched yet.
    pub fn move_listener(&self, service_id: ServiceId, channel: &CmChannel, cookie: u64) {
        let mut engine = self.engines.first().lock();
        engine.with_gsi(|gsi, _| gsi.move_listener(service_id, channel, cookie));
    }

    fn of(&self, id: CommId) -> &'a Shared {
        self.engines.of_connection(id)
    }
}

/// Accepts a REQ that has come to one engine with a queue pair of another, `home`, which is
/// ready before the REP leaves.
fn accept_elsewhere(
    id: CommId,
    acceptance: &Acceptance,
    caller: &Shared,
    home: &Shared,
) -> Result<(), ConnectionError> {
    let qpn = acceptance.qpn;
    let (transport, srq) = home.lock().with_gsi(|_, cx| cx.service_of(qpn, QpType::XrcIni))?;
    let acceptance = Acceptance { srq, ..acceptance.clone() };
    let link = caller.lock().gsi.link_for(id, &acceptance, transport)?;
    home.lock().with_gsi(|_, cx| {
        cx.init_if_reset(qpn, link.max_dest_rd_atomic > 0)?;
        cx.set_up(qpn, &link)?;
        cx.use_for(qpn, id);
        cx.await_comm_est(qpn, Some(id));
        Ok::<_, ConnectionError>(())
    })?;
    let accepted = caller.lock().with_gsi(|gsi, cx| gsi.accept_for(id, &acceptance, cx));
    if accepted.is_err() {
        // The call has ended since it was looked at, and the queue pair is in RTS for it.
        home.lock().with_gsi(|_, cx| cx.end_link(qpn, id));
    }
    Ok(accepted?)
}
