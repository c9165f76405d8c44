//! Events of the connection manager: changes of queue pairs, and delivery to the event channels of
//! applications.

use uroce_cm::{CommId, ConnectionRequest, Event, Link, RejReason, ServiceId};
use uroce_transport::{Instant, QpState, QpType};
use uroce_wire::{Qpn, Slot};

use super::Engine;
use crate::cm_channel::CmEventKind;
use crate::engine::gsi::time;
use crate::engines::{CrossEngineOp, is_elsewhere};

impl Engine {
    /// Serves the connection manager's timers and events.
    pub(crate) fn serve_cm(&mut self, now: Instant) {
        if self.nic.gsi.is_idle() {
            return;
        }
        let cm = &mut self.nic.gsi.cm;
        if cm.poll_timeout().is_some_and(|at| at <= time(now)) {
            cm.handle_timeout(time(now));
        }
        while let Some(event) = self.nic.gsi.cm.poll_event() {
            self.handle_cm_event(now, event);
        }
        if !self.nic.gsi.retiring.is_empty() {
            self.release_services();
        }
    }

    fn handle_cm_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Request { id, request } => self.handle_call(now, id, request),
            Event::Reply { id, link, private_data } => {
                self.handle_reply(now, id, &link, private_data);
            }
            Event::Established { id, private_data } => {
                self.stop_waiting_for_rtu(id);
                self.tell(id, CmEventKind::Established { private_data });
            }
            Event::Rejected { id, reason, private_data } => {
                self.end(id, CmEventKind::Rejected { reason, private_data });
            }
            Event::TimedOut { id } => self.end(id, CmEventKind::Unreachable),
            Event::Disconnected { id, private_data } => {
                self.end(id, CmEventKind::Disconnected { private_data });
            }
            Event::ProbePeer { id, qpn } => self.probe_peer(id, qpn),
            Event::TimewaitExit { id } => self.tell(id, CmEventKind::TimewaitExit),
            Event::Query { id, service_id, remote, ip, private_data } => {
                let kind = CmEventKind::ResolveRequest { service_id, remote, ip, private_data };
                self.tell_listener(now, service_id, id, kind);
            }
            Event::Resolved { id, status, qpn, qkey, private_data } => {
                self.tell(id, CmEventKind::Resolved { status, qpn, qkey, private_data });
            }
            _ => {}
        }
    }

    fn handle_call(&mut self, now: Instant, id: CommId, request: Box<ConnectionRequest>) {
        let service_id = request.service_id;
        self.tell_listener(now, service_id, id, CmEventKind::ConnectRequest(request));
    }

    /// The application of a listener becomes the owner of what came for it.
    fn tell_listener(&mut self, now: Instant, service: ServiceId, id: CommId, kind: CmEventKind) {
        let gsi = &mut self.nic.gsi;
        let Some(owner) = gsi.listeners.get(&service).cloned() else {
            return gsi.cm.release(time(now), id);
        };
        owner.tell(id, kind);
        gsi.owners.insert(id, owner);
    }

    /// The peer accepted: the queue pair is set up, and the RTU tells it so.
    fn handle_reply(&mut self, now: Instant, id: CommId, link: &Link, private_data: Box<[u8]>) {
        let Some(qpn) = self.nic.gsi.owners.get(&id).and_then(|owner| owner.qpn) else {
            let link = Box::new(*link);
            return self.tell(id, CmEventKind::Accepted { link, private_data });
        };
        match self.set_up(qpn, link) {
            Ok(()) => {
                let told = self.nic.gsi.cm.establish(id, &[]);
                debug_assert!(told.is_ok(), "a reply has just come");
                self.tell(id, CmEventKind::Established { private_data });
            }
            Err(error) => {
                let told = self.nic.gsi.cm.reject(time(now), id, RejReason::CONSUMER, &[]);
                debug_assert!(told.is_ok(), "a reply has just come");
                self.end(id, CmEventKind::ConnectError(error));
            }
        }
    }

    fn stop_waiting_for_rtu(&mut self, id: CommId) {
        let Some(qpn) = self.nic.gsi.owners.get(&id).and_then(|owner| owner.qpn) else { return };
        if is_elsewhere(self.nic.slot, Slot::of(qpn)) {
            self.nic.cross_engine_ops.push(CrossEngineOp::StopWaiting(qpn));
        } else if let Some(entry) = self.nic.qps.get_mut(qpn) {
            entry.awaits_comm_est = None;
        }
    }

    /// The peer seems to have forgotten a connection: its queue pair is asked. One that cannot be asked
    /// gets the benefit of the doubt.
    fn probe_peer(&mut self, id: CommId, qpn: Qpn) {
        if is_elsewhere(self.nic.slot, Slot::of(qpn)) {
            return self.nic.cross_engine_ops.push(CrossEngineOp::ProbePeer { id, qpn });
        }
        if !self.ask_peer(id, qpn) {
            self.nic.gsi.handle_comm_est(id);
        }
    }

    /// Asks the peer of a queue pair for a packet, the next of which counts for connection `id`. False:
    /// there is no way to ask.
    pub(crate) fn ask_peer(&mut self, id: CommId, qpn: Qpn) -> bool {
        let Some(entry) = self.nic.qps.get_mut(qpn) else { return false };
        match entry.qp.state() {
            // Nothing can be lost any more.
            QpState::Reset | QpState::Init | QpState::Err => return true,
            QpState::Rts if entry.init.qp_type == QpType::Rc => {}
            _ => return false,
        }
        entry.awaits_comm_est = Some(id);
        self.send_liveness_probe(qpn);
        true
    }

    /// The owner of a connection hears what has happened to it.
    pub(crate) fn tell(&self, id: CommId, kind: CmEventKind) {
        if let Some(owner) = self.nic.gsi.owners.get(&id) {
            owner.tell(id, kind);
        }
    }

    fn end(&mut self, id: CommId, kind: CmEventKind) {
        match self.nic.gsi.owners.get(&id).and_then(|owner| owner.qpn) {
            Some(qpn) if is_elsewhere(self.nic.slot, Slot::of(qpn)) => {
                let op = CrossEngineOp::EndLink { qpn, then: Some((id, kind)) };
                return self.nic.cross_engine_ops.push(op);
            }
            Some(qpn) => self.end_link(qpn),
            None => {}
        }
        self.tell(id, kind);
    }
}
