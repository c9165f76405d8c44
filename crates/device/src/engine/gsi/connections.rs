//! Connections: what applications command.

use uroce_cm::message::TransportService;
use uroce_cm::{Acceptance, Answer, Call, CmError, CommId, Link, Question, RejReason, State};
use uroce_transport::QpType;
use uroce_wire::Qpn;

use super::{Gsi, GsiContext, Owner, time};
use crate::cm_channel::CmChannel;
use crate::error::ConnectionError;

impl Gsi {
    /// Calls a peer for the queue pair `call.qpn`, which is in INIT afterwards.
    pub(crate) fn connect(
        &mut self,
        call: &Call,
        events: (&CmChannel, u64),
        cx: &mut GsiContext<'_>,
    ) -> Result<CommId, ConnectionError> {
        let (transport, srq) = cx.service_of(call.qpn, QpType::XrcTgt)?;
        let call = Call { transport, srq, ..call.clone() };
        cx.init_if_reset(call.qpn, call.responder_resources > 0)?;
        cx.must_be_init(call.qpn)?;
        let calls = |id| matches!(self.cm.state(id), Some(State::ReqSent | State::RepReceived));
        if cx.connection_of(call.qpn).is_some_and(calls) {
            return Err(ConnectionError::Calling);
        }
        let id = self.call(&call, Some(call.qpn), events, cx)?;
        cx.use_for(call.qpn, id);
        Ok(id)
    }

    /// Calls a peer for a queue pair that the application moves.
    pub(crate) fn connect_only(
        &mut self,
        call: &Call,
        events: (&CmChannel, u64),
        cx: &GsiContext<'_>,
    ) -> Result<CommId, CmError> {
        self.call(call, None, events, cx)
    }

    fn call(
        &mut self,
        call: &Call,
        qpn: Option<Qpn>,
        events: (&CmChannel, u64),
        cx: &GsiContext<'_>,
    ) -> Result<CommId, CmError> {
        let call = Call { path_mtu: cx.nic.active_mtu.code(), ..call.clone() };
        let id = self.cm.connect(time(cx.now), &call)?;
        self.own(id, qpn, events);
        Ok(id)
    }

    /// Accepts a REQ with a queue pair of this engine, which is in RTS before the REP leaves. Its
    /// first packet establishes the connection.
    pub(crate) fn accept(
        &mut self,
        id: CommId,
        acceptance: &Acceptance,
        cx: &mut GsiContext<'_>,
    ) -> Result<(), ConnectionError> {
        let (transport, srq) = cx.service_of(acceptance.qpn, QpType::XrcIni)?;
        let acceptance = Acceptance { srq, ..acceptance.clone() };
        let link = self.link_for(id, &acceptance, transport)?;
        cx.init_if_reset(acceptance.qpn, link.max_dest_rd_atomic > 0)?;
        cx.set_up(acceptance.qpn, &link)?;
        self.accept_for(id, &acceptance, cx)?;
        cx.use_for(acceptance.qpn, id);
        cx.await_comm_est(acceptance.qpn, Some(id));
        Ok(())
    }

    /// Accepts a REQ with a queue pair that was set up, in whichever engine.
    pub(crate) fn accept_for(
        &mut self,
        id: CommId,
        acceptance: &Acceptance,
        cx: &GsiContext<'_>,
    ) -> Result<(), CmError> {
        self.accept_only(id, acceptance, cx)?;
        if let Some(owner) = self.owners.get_mut(&id) {
            owner.qpn = Some(acceptance.qpn);
        }
        Ok(())
    }

    /// Accepts a REQ with a queue pair that the application moves.
    pub(crate) fn accept_only(
        &mut self,
        id: CommId,
        acceptance: &Acceptance,
        cx: &GsiContext<'_>,
    ) -> Result<(), CmError> {
        self.cm.accept(time(cx.now), id, acceptance)
    }

    /// A request that the application has fetched leaves the backlog.
    pub(crate) fn note_fetched(&mut self, id: CommId) {
        self.cm.note_fetched(id);
    }

    /// Attributes of a queue pair that accepts a REQ with this acceptance.
    pub(crate) fn link_with(&self, id: CommId, acceptance: &Acceptance) -> Result<Link, CmError> {
        self.cm.link_with(id, acceptance)
    }

    /// The same, of a queue pair of this transport.
    pub(crate) fn link_for(
        &self,
        id: CommId,
        acceptance: &Acceptance,
        got: TransportService,
    ) -> Result<Link, ConnectionError> {
        let link = self.link_with(id, acceptance)?;
        let wanted = link.transport;
        if wanted == got { Ok(link) } else { Err(ConnectionError::OtherTransport { wanted, got }) }
    }

    /// The queue pair of an accepted call is ready: the peer is told so.
    pub(crate) fn establish(&mut self, id: CommId) -> Result<(), CmError> {
        self.cm.establish(id, &[])
    }

    /// Rejects a REQ or SIDR REQ.
    pub(crate) fn reject(
        &mut self,
        id: CommId,
        reason: RejReason,
        private_data: &[u8],
        cx: &GsiContext<'_>,
    ) -> Result<(), CmError> {
        self.cm.reject(time(cx.now), id, reason, private_data)
    }

    /// Ends a connection; its queue pair goes to the error state.
    pub(crate) fn disconnect(
        &mut self,
        id: CommId,
        private_data: &[u8],
        cx: &mut GsiContext<'_>,
    ) -> Result<(), CmError> {
        self.cm.disconnect(time(cx.now), id, private_data)?;
        if let Some(qpn) = self.qpn_of(id) {
            cx.end_link(qpn, id);
        }
        Ok(())
    }

    /// Asks which queue pair serves a service of datagrams.
    pub(crate) fn resolve(
        &mut self,
        question: &Question,
        events: (&CmChannel, u64),
        cx: &GsiContext<'_>,
    ) -> Result<CommId, CmError> {
        let id = self.cm.resolve(time(cx.now), question)?;
        self.own(id, None, events);
        Ok(id)
    }

    /// Answers the question of a peer.
    pub(crate) fn answer(
        &mut self,
        id: CommId,
        answer: &Answer,
        cx: &GsiContext<'_>,
    ) -> Result<(), CmError> {
        self.cm.answer(time(cx.now), id, answer)
    }

    /// Where a connection stands; `None` when it is over.
    pub(crate) fn state(&self, id: CommId) -> Option<State> {
        self.cm.state(id)
    }

    /// A peer has not confirmed yet that a connection is over; released connections count.
    pub(crate) fn awaits_drep(&self) -> bool {
        self.cm.awaits_drep()
    }

    /// The application is done with `id`, in any state. The queue pair of a connection that stood
    /// goes to the error state.
    pub(crate) fn release(&mut self, id: CommId, cx: &mut GsiContext<'_>) {
        self.cm.release(time(cx.now), id);
        let Some(owner) = self.owners.remove(&id) else { return };
        owner.channel.forget(id);
        if let Some(qpn) = owner.qpn {
            cx.end_link(qpn, id);
        }
    }

    /// From now on events of the connection come to `channel`, with `cookie`, including those that
    /// were not fetched yet.
    pub(crate) fn move_connection(&mut self, id: CommId, channel: &CmChannel, cookie: u64) {
        let Some(owner) = self.owners.get_mut(&id) else { return };
        owner.cookie = cookie;
        let old = std::mem::replace(&mut owner.channel, channel.clone());
        old.hand_over(channel, cookie, |event| event.id == id);
    }

    fn own(&mut self, id: CommId, qpn: Option<Qpn>, (channel, cookie): (&CmChannel, u64)) {
        self.owners.insert(id, Owner { channel: channel.clone(), cookie, qpn });
    }
}
