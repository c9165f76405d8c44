//! Events of the connection manager: changes of queue pairs, and delivery to the event channels of
//! applications.

use uroce_cm::{CommId, ConnectionReply, Event, Link, RejReason, ServiceId};
use uroce_wire::{Qpn, Slot};

use super::{Gsi, GsiContext, time};
use crate::cm_channel::CmEventKind;
use crate::engine::cross_engine::{CrossEngineOp, is_elsewhere};

impl Gsi {
    /// Serves the connection manager's timers and events.
    pub(in crate::engine) fn serve(&mut self, cx: &mut GsiContext<'_>) {
        let now = time(cx.now);
        if self.cm.poll_timeout().is_some_and(|at| at <= now) {
            self.cm.handle_timeout(now);
        }
        while let Some(event) = self.cm.poll_event() {
            self.handle_event(event, cx);
        }
        if !self.retiring.is_empty() {
            self.release_services(cx.datapath);
        }
    }

    fn handle_event(&mut self, event: Event, cx: &mut GsiContext<'_>) {
        match event {
            Event::Request { id, request } => {
                let service_id = request.service_id;
                self.tell_listener(service_id, id, CmEventKind::ConnectRequest(request), cx);
            }
            Event::Reply { id, link, reply, private_data } => {
                self.handle_reply(id, &link, (reply, private_data), cx);
            }
            Event::Established { id, private_data } => {
                self.stop_waiting_for_rtu(id, cx);
                self.tell(id, CmEventKind::Established { reply: None, private_data });
            }
            Event::Rejected { id, reason, ari, private_data } => {
                tracing::debug!(?id, why = ari.with(reason), "a peer rejected a connection");
                self.end(id, CmEventKind::Rejected { reason, ari, private_data }, cx);
            }
            Event::TimedOut { id } => self.end(id, CmEventKind::Unreachable, cx),
            Event::Disconnected { id, unanswered, private_data } => {
                self.end(id, CmEventKind::Disconnected { unanswered, private_data }, cx);
            }
            Event::ProbePeer { id, qpn } => self.probe_peer(id, qpn, cx),
            Event::TimewaitExit { id } => self.tell(id, CmEventKind::TimewaitExit),
            Event::Query { id, service_id, remote, ip, private_data } => {
                let kind = CmEventKind::ResolveRequest { service_id, remote, ip, private_data };
                self.tell_listener(service_id, id, kind, cx);
            }
            Event::Resolved { id, status, qpn, qkey, private_data } => {
                self.tell(id, CmEventKind::Resolved { status, qpn, qkey, private_data });
            }
            _ => {}
        }
    }

    /// The application of a listener becomes the owner of what came for it.
    fn tell_listener(
        &mut self,
        service: ServiceId,
        id: CommId,
        kind: CmEventKind,
        cx: &GsiContext<'_>,
    ) {
        let Some(owner) = self.listeners.get(&service).cloned() else {
            return self.cm.release(time(cx.now), id);
        };
        owner.tell(id, kind);
        self.owners.insert(id, owner);
    }

    /// The peer accepted: the queue pair is set up, and the RTU tells it so.
    fn handle_reply(
        &mut self,
        id: CommId,
        link: &Link,
        (reply, private_data): (ConnectionReply, Box<[u8]>),
        cx: &mut GsiContext<'_>,
    ) {
        let Some(qpn) = self.qpn_of(id) else {
            let link = Box::new(*link);
            return self.tell(id, CmEventKind::Accepted { link, reply, private_data });
        };
        match cx.set_up(qpn, link) {
            // The next event says how it ended, if the peer has ended it meanwhile.
            Ok(()) => {
                if self.cm.establish(id, &[]).is_ok() {
                    let reply = Some(reply);
                    self.tell(id, CmEventKind::Established { reply, private_data });
                }
            }
            Err(error) => {
                if self.cm.reject(time(cx.now), id, RejReason::CONSUMER, &[]).is_ok() {
                    self.end(id, CmEventKind::ConnectError(error), cx);
                }
            }
        }
    }

    fn stop_waiting_for_rtu(&self, id: CommId, cx: &mut GsiContext<'_>) {
        let Some(qpn) = self.qpn_of(id) else { return };
        match is_elsewhere(cx.nic.slot, Slot::of(qpn)) {
            true => cx.nic.cross_engine_ops.push(CrossEngineOp::StopWaiting(qpn)),
            false => cx.await_comm_est(qpn, None),
        }
    }

    /// The peer seems to have forgotten a connection: its queue pair is asked. One that cannot be asked
    /// gets the benefit of the doubt.
    fn probe_peer(&mut self, id: CommId, qpn: Qpn, cx: &mut GsiContext<'_>) {
        let moved = self.qpn_of(id) == Some(qpn);
        if is_elsewhere(cx.nic.slot, Slot::of(qpn)) {
            return cx.nic.cross_engine_ops.push(CrossEngineOp::ProbePeer { id, qpn, moved });
        }
        if !self.ask_peer(id, qpn, moved, cx) {
            self.handle_comm_est(id);
        }
    }

    /// Asks the peer of a queue pair, which the device has `moved` for the connection or the application has, for a packet,
    /// the next of which counts for connection `id`. False: there is no way to ask.
    pub(crate) fn ask_peer(
        &mut self,
        id: CommId,
        qpn: Qpn,
        moved: bool,
        cx: &mut GsiContext<'_>,
    ) -> bool {
        match cx.can_probe(qpn, moved) {
            None => false,
            // Nothing can be lost any more.
            Some(false) => true,
            Some(true) => {
                cx.await_sign_of_life(qpn, id);
                if !self.probes.contains(&qpn) {
                    self.probes.push_back(qpn);
                }
                true
            }
        }
    }

    /// The owner of a connection hears what has happened to it.
    pub(crate) fn tell(&self, id: CommId, kind: CmEventKind) {
        if let Some(owner) = self.owners.get(&id) {
            owner.tell(id, kind);
        }
    }

    fn end(&mut self, id: CommId, kind: CmEventKind, cx: &mut GsiContext<'_>) {
        // A request that the application has not seen yet is gone as if it had not come (A21).
        if self.owners.get(&id).is_some_and(|owner| owner.channel.take_back(id)) {
            debug_assert!(self.qpn_of(id).is_none(), "nobody has accepted it");
            self.owners.remove(&id);
            return self.cm.release(time(cx.now), id);
        }
        match self.qpn_of(id) {
            Some(qpn) if is_elsewhere(cx.nic.slot, Slot::of(qpn)) => {
                let op = CrossEngineOp::EndLink { qpn, id, then: Some(kind) };
                return cx.nic.cross_engine_ops.push(op);
            }
            Some(qpn) => cx.end_link(qpn, id),
            None => {}
        }
        self.tell(id, kind);
    }

    /// The queue pair of a connection, if the device moves it.
    pub(super) fn qpn_of(&self, id: CommId) -> Option<Qpn> {
        self.owners.get(&id).and_then(|owner| owner.qpn)
    }

    /// The first packet of a connection arrived (R113).
    pub(crate) fn handle_comm_est(&mut self, id: CommId) {
        self.cm.handle_comm_est(id);
    }
}
