//! Connections by address and port: the verbs of rdma_cm.
//!
//! Of several engines the first listens. A connection belongs to the engine that gave out its id: for a call of
//! ours that of the queue pair, for one that came the first.

use uroce_cm::{
    Acceptance, Answer, Call, CmError, CommId, PortSpace, Question, RejReason, ServiceId, State,
    Time, message::TransportService,
};
use uroce_transport::QpType;
use uroce_wire::Qpn;

use super::Device;
use crate::cm_channel::CmChannel;
use crate::engine::Engine;
use crate::engine::gsi::{Owner, time};
use crate::engines::shared::Shared;
use crate::error::{ConnectionError, ModifyError};

impl Device {
    /// Runs a command of an engine's connection manager, and what follows from it.
    pub(super) fn with_cm<R>(
        &self,
        shared: &Shared,
        command: impl FnOnce(&mut Engine, Time) -> R,
    ) -> R {
        let mut engine = shared.lock();
        let now = engine.clock.now();
        let done = command(&mut engine, time(now));
        engine.serve_cm(now);
        engine.send_ready(now);
        done
    }

    /// A port of `space` without a listener on this address; `None` if none was found.
    pub fn cm_free_port(&self, space: PortSpace) -> Option<u16> {
        self.0.shared.lock().free_port(space)
    }

    /// Reserves a service for this process, whether or not it listens: no other process on the
    /// address can bind or listen to it until [`cm_unbind`](Self::cm_unbind). Requests are rejected
    /// as long as there is no listener.
    ///
    /// # Errors
    /// [`CmError::PortTaken`] by another process on the address; [`CmError::Unfindable`].
    pub fn cm_bind(&self, service_id: ServiceId) -> Result<(), CmError> {
        self.with_cm(&self.0.shared, |engine, _| {
            engine.claim(service_id)?;
            engine.nic.gsi.bound.insert(service_id);
            Ok(())
        })
    }

    /// Gives up a service that was bound. Does nothing if it was not.
    pub fn cm_unbind(&self, service_id: ServiceId) {
        self.with_cm(&self.0.shared, |engine, _| {
            let gsi = &mut engine.nic.gsi;
            if gsi.bound.remove(&service_id) && !gsi.listeners.contains_key(&service_id) {
                gsi.retiring.push(service_id);
            }
        });
    }

    /// Takes calls to `service_id`; they come to `channel` with `cookie`. At most `backlog` of them
    /// wait for an answer.
    ///
    /// # Errors
    /// [`CmError::PortTaken`], by any process on the address; [`CmError::Unfindable`].
    pub fn cm_listen(
        &self,
        service_id: ServiceId,
        backlog: usize,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<(), CmError> {
        self.with_cm(&self.0.shared, |engine, now| {
            if !engine.nic.gsi.listeners.contains_key(&service_id) {
                engine.claim(service_id)?;
            }
            let gsi = &mut engine.nic.gsi;
            gsi.cm.listen(now, service_id, backlog)?;
            let owner = Owner { channel: channel.clone(), cookie, qpn: None };
            gsi.listeners.insert(service_id, owner);
            Ok(())
        })
    }

    /// Accepts no more requests. Those that came before can still be answered; those of the next
    /// second are held back in case the application listens again.
    ///
    /// # Errors
    /// [`CmError::NotListening`].
    pub fn cm_unlisten(&self, service_id: ServiceId) -> Result<(), CmError> {
        self.with_cm(&self.0.shared, |engine, now| {
            let gsi = &mut engine.nic.gsi;
            gsi.listeners.remove(&service_id);
            gsi.cm.unlisten(now, service_id)?;
            if !gsi.bound.contains(&service_id) {
                gsi.retiring.push(service_id);
            }
            Ok(())
        })
    }

    /// Calls a peer for the queue pair `call.qpn`, in RESET or INIT. When the peer accepts, the
    /// queue pair goes to RTS by itself, and then the event comes to `channel` with `cookie`. Path
    /// MTU, transport and SRQ of the call are those of the port and the queue pair.
    ///
    /// # Errors
    /// [`ConnectionError`]; nothing was sent.
    pub fn cm_connect(
        &self,
        call: &Call,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<CommId, ConnectionError> {
        self.with_cm(self.of_qp(call.qpn), |engine, now| {
            let (transport, srq) = engine.service_of(call.qpn, QpType::XrcTgt)?;
            let path_mtu = engine.active_mtu.code();
            let call = Call { transport, srq, path_mtu, ..call.clone() };
            engine.init_if_reset(call.qpn, call.responder_resources > 0)?;
            let id = engine.nic.gsi.cm.connect(now, &call)?;
            let owner = Owner { channel: channel.clone(), cookie, qpn: Some(call.qpn) };
            engine.nic.gsi.owners.insert(id, owner);
            Ok(id)
        })
    }

    /// Accepts a REQ with the queue pair `acceptance.qpn`, in RESET or INIT, which goes to RTS. The
    /// event "established" follows when the peer has confirmed.
    ///
    /// # Errors
    /// [`ConnectionError`]; the call can be accepted otherwise or rejected.
    pub fn cm_accept(&self, id: CommId, acceptance: &Acceptance) -> Result<(), ConnectionError> {
        let (caller, home) = (self.of_connection(id), self.of_qp(acceptance.qpn));
        if !std::ptr::eq(caller, home) {
            return self.accept_elsewhere(id, acceptance, caller, home);
        }
        self.with_cm(caller, |engine, now| {
            let (_, srq) = engine.service_of(acceptance.qpn, QpType::XrcIni)?;
            let acceptance = Acceptance { srq, ..acceptance.clone() };
            let link = engine.nic.gsi.cm.link_with(id, &acceptance)?;
            engine.init_if_reset(acceptance.qpn, link.max_dest_rd_atomic > 0)?;
            engine.set_up(acceptance.qpn, &link)?;
            engine.nic.gsi.cm.accept(now, id, &acceptance)?;
            engine.bind(id, acceptance.qpn);
            Ok(())
        })
    }

    /// Accepts a REQ that has come to one engine with a queue pair of another, `home`, which is
    /// ready before the REP leaves.
    fn accept_elsewhere(
        &self,
        id: CommId,
        acceptance: &Acceptance,
        caller: &Shared,
        home: &Shared,
    ) -> Result<(), ConnectionError> {
        let qpn = acceptance.qpn;
        let (_, srq) = home.lock().service_of(qpn, QpType::XrcIni)?;
        let acceptance = Acceptance { srq, ..acceptance.clone() };
        let link = caller.lock().nic.gsi.cm.link_with(id, &acceptance)?;
        {
            let mut engine = home.lock();
            engine.init_if_reset(qpn, link.max_dest_rd_atomic > 0)?;
            engine.set_up(qpn, &link)?;
            engine.await_rtu(qpn, Some(id));
        }
        let accepted = self.with_cm(caller, |engine, now| {
            engine.nic.gsi.cm.accept(now, id, &acceptance)?;
            engine.own(id, qpn);
            Ok(())
        });
        if accepted.is_err() {
            home.lock().await_rtu(qpn, None);
        }
        accepted
    }

    /// Rejects a REQ or SIDR REQ, with up to 148 bytes of private data.
    ///
    /// # Errors
    /// [`CmError`]: it waits for no answer, too much private data.
    pub fn cm_reject(
        &self,
        id: CommId,
        reason: RejReason,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        self.with_cm(self.of_connection(id), |engine, now| {
            engine.nic.gsi.cm.reject(now, id, reason, private_data)
        })
    }

    /// Ends a connection, with up to 220 bytes for the peer: the queue pair goes to the error
    /// state, and outstanding work requests complete as flushed.
    ///
    /// # Errors
    /// [`CmError`]: it does not stand, too much private data.
    pub fn cm_disconnect(&self, id: CommId, private_data: &[u8]) -> Result<(), CmError> {
        self.with_cm(self.of_connection(id), |engine, now| {
            engine.nic.gsi.cm.disconnect(now, id, private_data)?;
            if let Some(qpn) = engine.nic.gsi.owners.get(&id).and_then(|owner| owner.qpn) {
                engine.end_link(qpn);
            }
            Ok(())
        })
    }

    /// Asks which queue pair serves a service of datagrams; the answer comes to `channel` with
    /// `cookie`.
    ///
    /// # Errors
    /// [`CmError`].
    pub fn cm_resolve(
        &self,
        question: &Question,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<CommId, CmError> {
        self.with_cm(&self.0.shared, |engine, now| {
            let id = engine.nic.gsi.cm.resolve(now, question)?;
            let owner = Owner { channel: channel.clone(), cookie, qpn: None };
            engine.nic.gsi.owners.insert(id, owner);
            Ok(id)
        })
    }

    /// Answers the question of a peer.
    ///
    /// # Errors
    /// [`CmError`]: it was answered, too much private data.
    pub fn cm_answer(&self, id: CommId, answer: &Answer) -> Result<(), CmError> {
        self.with_cm(self.of_connection(id), |engine, now| {
            engine.nic.gsi.cm.answer(now, id, answer)
        })
    }

    /// Where a connection stands; `None` when it is over.
    pub fn cm_state(&self, id: CommId) -> Option<State> {
        self.of_connection(id).lock().nic.gsi.cm.state(id)
    }

    /// The application is done with `id`, in any state: no further event of it comes, and those
    /// that wait are forgotten (B54). The peer is told what it must know. The queue pair of a
    /// connection that stood goes to the error state.
    pub fn cm_release(&self, id: CommId) {
        self.with_cm(self.of_connection(id), |engine, now| {
            engine.nic.gsi.cm.release(now, id);
            let Some(owner) = engine.nic.gsi.owners.remove(&id) else { return };
            owner.channel.forget(id);
            if let Some(qpn) = owner.qpn {
                engine.end_link(qpn);
            }
        });
    }
}

impl Engine {
    /// Transport of a queue pair, and whether it has an SRQ. `other` is the end of XRC that cannot do
    /// what is asked for.
    fn service_of(
        &self,
        qpn: Qpn,
        other: QpType,
    ) -> Result<(TransportService, bool), ConnectionError> {
        let no_qp = || ConnectionError::Qp(ModifyError::from(super::queue_pair::no_qp(qpn)));
        let init = self.nic.qps.get(qpn).ok_or_else(no_qp)?.init;
        match init.qp_type {
            QpType::Rc => Ok((TransportService::RC, init.srq.is_some())),
            QpType::Uc => Ok((TransportService::UC, init.srq.is_some())),
            end if end == other => Err(ConnectionError::WrongEnd),
            QpType::XrcIni => Ok((TransportService::EXTENDED, false)),
            QpType::XrcTgt => Ok((TransportService::EXTENDED, true)),
            QpType::Ud => Err(ConnectionError::Datagram),
        }
    }

    /// The queue pair serves this connection; its first packet confirms it.
    fn bind(&mut self, id: CommId, qpn: Qpn) {
        self.own(id, qpn);
        self.await_rtu(qpn, Some(id));
    }

    /// The connection is that of this queue pair, of whichever engine.
    fn own(&mut self, id: CommId, qpn: Qpn) {
        if let Some(owner) = self.nic.gsi.owners.get_mut(&id) {
            owner.qpn = Some(qpn);
        }
    }

    fn await_rtu(&mut self, qpn: Qpn, id: Option<CommId>) {
        if let Some(entry) = self.nic.qps.get_mut(qpn) {
            entry.awaits_comm_est = id;
        }
    }
}
