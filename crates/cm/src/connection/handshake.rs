//! REP, RTU and MRA: from the REQ to an established connection.

use uroce_wire::DropReason;

use super::{Connection, State};
use crate::call::Acceptance;
use crate::error::CmError;
use crate::event::{ConnectionReply, Event};
use crate::limits::{LONGEST_ANSWER, MRA_SERVICE_TIMEOUT};
use crate::link::Link;
use crate::message::{Mra, RejectedMessage, Rep, Rtu};
use crate::mutation::mutated;
use crate::outbox::Outbox;
use crate::time::Time;
use crate::time_code::response_time;
use crate::{PrivateData, TooLong};

/// A request that the application has not decided on.
const TO_DECIDE: &str = "only a request that was not answered yet can be accepted or rejected";
/// A reply that the application has not confirmed.
const TO_CONFIRM: &str = "only a reply that was not confirmed yet can be";

impl Connection {
    /// The values for the queue pair, if this acceptance is sent.
    pub(crate) fn link_with(&self, acceptance: &Acceptance) -> Result<Link, CmError> {
        self.must_be(&[State::ReqReceived], TO_DECIDE)?;
        let rep = acceptance.rep(self.id, &self.req, &self.us)?;
        let link = Link::of_called(self.peer, &self.req, &rep);
        Ok(Link { ack_timeout: acceptance.ack_timeout.unwrap_or(link.ack_timeout), ..link })
    }

    /// Called side: the REP goes out.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        acceptance: &Acceptance,
        out: &mut Outbox,
    ) -> Result<(), CmError> {
        self.must_be(&[State::ReqReceived], TO_DECIDE)?;
        let rep = acceptance.rep(self.id, &self.req, &self.us)?;
        self.local_qpn = rep.local_qpn;
        self.enter(State::RepSent);
        let interval = response_time(self.req.local_response_timeout);
        self.send_repeatedly(now, self.mad(rep), (interval, LONGEST_ANSWER), out);
        Ok(())
    }

    /// Caller: the queue pair is ready, the RTU goes out.
    pub(crate) fn establish(
        &mut self,
        private_data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), CmError> {
        self.must_be(&[State::RepReceived], TO_CONFIRM)?;
        let rtu = Rtu {
            local_comm_id: self.id,
            remote_comm_id: self.remote_id,
            private_data: PrivateData::new(private_data).map_err(|error: TooLong| error)?,
        };
        self.enter(State::Established);
        let mad = self.mad(rtu);
        out.send_as(self.peer, self.traffic_class(), &mad);
        self.rtu = Some(mad);
        Ok(())
    }

    pub(crate) fn handle_rep(
        &mut self,
        now: Time,
        rep: &Rep,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        match self.state {
            State::ReqSent => self.take_rep(now, rep, out),
            _ if rep.local_comm_id != self.remote_id => return Err(DropReason::CmUnknownId),
            // R109: the RTU was lost.
            State::Established => {
                if let Some(rtu) = self.rtu.as_ref().filter(|_| !mutated("rtu-not-repeated")) {
                    out.send_as(self.peer, self.traffic_class(), rtu);
                }
                return Err(DropReason::CmDuplicate);
            }
            State::RepReceived => {
                self.ask_for_patience(now, RejectedMessage::REP, out);
                return Err(DropReason::CmDuplicate);
            }
            _ => return Err(DropReason::CmWrongState),
        }
        Ok(())
    }

    fn take_rep(&mut self, now: Time, rep: &Rep, out: &mut Outbox) {
        self.enter(State::RepReceived);
        self.asked_at = now;
        self.remote_id = rep.local_comm_id;
        self.remote_qpn = rep.qpn();
        self.confirmed = true;
        let link = Link::of_caller(self.peer, &self.req, rep);
        self.ack_timeout = link.ack_timeout;
        let link = Link { ack_timeout: self.own_ack_timeout.unwrap_or(link.ack_timeout), ..link };
        let private_data = rep.private_data.bytes()[..].into();
        let reply = ConnectionReply::new(rep);
        self.tell(Event::Reply { id: self.id, link, reply, private_data }, out);
    }

    pub(crate) fn handle_rtu(&mut self, rtu: &Rtu, out: &mut Outbox) -> Result<(), DropReason> {
        match self.state {
            _ if rtu.local_comm_id != self.remote_id => Err(DropReason::CmUnknownId),
            State::RepSent => {
                self.become_established(rtu.private_data.bytes(), out);
                Ok(())
            }
            State::Established => Err(DropReason::CmDuplicate),
            _ => Err(DropReason::CmWrongState),
        }
    }

    /// A packet of the connection arrived: the RTU was sent, whether it arrives or not (R113), and the
    /// peer is alive.
    pub(crate) fn handle_comm_est(&mut self, out: &mut Outbox) {
        match self.state {
            State::RepSent => self.become_established(&[], out),
            State::Established => self.note_alive(),
            _ => {}
        }
    }

    fn become_established(&mut self, private_data: &[u8], out: &mut Outbox) {
        self.enter(State::Established);
        self.confirmed = true;
        let private_data = private_data.into();
        self.tell(Event::Established { id: self.id, private_data }, out);
    }

    /// The REQ came again (R108). One connection, one queue pair, the same REP.
    pub(crate) fn handle_duplicate_req(&mut self, now: Time, out: &mut Outbox) -> DropReason {
        match self.state {
            State::ReqReceived => self.ask_for_patience(now, RejectedMessage::REQ, out),
            State::RepSent => self.send_waiting(out),
            State::DreqSent | State::Timewait => return DropReason::CmStale,
            _ => {}
        }
        DropReason::CmDuplicate
    }

    /// The application takes its time, and the peer begins to wonder: unless the network has doubled its message, and the
    /// application has not been told of it yet.
    fn ask_for_patience(&mut self, now: Time, message: RejectedMessage, out: &mut Outbox) {
        if self.asked_at == now {
            return;
        }
        self.patience_asked = true;
        let mra = Mra {
            local_comm_id: self.id,
            remote_comm_id: self.remote_id,
            message,
            service_timeout: MRA_SERVICE_TIMEOUT,
            private_data: PrivateData::default(),
        };
        self.send(mra, out);
    }

    pub(crate) fn handle_mra(&mut self, now: Time, mra: &Mra) -> Result<(), DropReason> {
        let known = mra.local_comm_id == self.remote_id;
        match (self.state, mra.message) {
            (State::ReqSent, RejectedMessage::REQ) => {}
            (State::RepSent, RejectedMessage::REP) if known => {}
            (State::RepSent, _) if !known => return Err(DropReason::CmUnknownId),
            _ => return Err(DropReason::CmWrongState),
        }
        let time = response_time(mra.service_timeout) + response_time(self.ack_timeout);
        self.be_patient(now, time);
        Ok(())
    }
}
