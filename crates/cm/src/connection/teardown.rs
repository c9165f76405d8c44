//! DREQ and DREP: the end of a connection.

use uroce_wire::DropReason;

use super::{Connection, State};
use crate::error::CmError;
use crate::limits::{LONGEST_ANSWER, LONGEST_UNCONFIRMED_ANSWER};
use crate::mad::Mad;
use crate::message::{Drep, Dreq, Message};
use crate::mutation::mutated;
use crate::outbox::Outbox;
use crate::time::Time;
use crate::time_code::response_time;
use crate::{PrivateData, RejReason};

impl Connection {
    /// Ends an established connection: the DREQ goes out. `own_tid` names the exchange if the peer
    /// sent the REQ.
    pub(crate) fn disconnect(
        &mut self,
        now: Time,
        own_tid: u64,
        private_data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), CmError> {
        let need = "only a connection that stands can be ended; reject or release it instead";
        self.must_be(&[State::Established, State::RepSent], need)?;
        self.send_dreq(now, own_tid, PrivateData::new(private_data)?, out);
        Ok(())
    }

    pub(super) fn send_dreq(
        &mut self,
        now: Time,
        own_tid: u64,
        data: PrivateData<220>,
        out: &mut Outbox,
    ) {
        let dreq = Dreq {
            local_comm_id: self.id,
            remote_comm_id: self.remote_id,
            remote_qpn: self.remote_qpn,
            private_data: data,
        };
        let (tid, timeout) = if self.caller {
            (self.tid, self.req.remote_response_timeout)
        } else {
            (own_tid, self.req.local_response_timeout)
        };
        self.enter(State::DreqSent);
        let mad = Mad { tid, message: Message::Dreq(dreq) };
        let longest = if self.confirmed { LONGEST_ANSWER } else { LONGEST_UNCONFIRMED_ANSWER };
        self.send_repeatedly(now, mad, (response_time(timeout), longest), out);
    }

    /// Answers a DREQ. It must carry our queue pair, beside the ids (A23). One that overtakes the REP gets no answer: the
    /// peer sends it again, and the REP has come by then.
    pub(crate) fn handle_dreq(
        &mut self,
        now: Time,
        tid: u64,
        dreq: &Dreq,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        let knows_us = dreq.local_comm_id == self.remote_id || self.state == State::ReqSent;
        let is_right = knows_us && dreq.remote_qpn == self.local_qpn;
        if !is_right && !mutated("dreq-unchecked") {
            return Err(DropReason::CmUnknownId);
        }
        match self.state {
            // R110: also when our own DREQ is on its way, or the application has not decided about the REP.
            State::RepSent | State::RepReceived | State::Established | State::DreqSent => {
                // It names what our REP told.
                self.confirmed = true;
                self.tell_end(false, dreq.private_data.bytes(), out);
                self.send_drep(tid, out);
                self.enter_timewait(now);
                Ok(())
            }
            State::Timewait => {
                self.send_drep(tid, out);
                Err(DropReason::CmDuplicate)
            }
            _ => Err(DropReason::CmWrongState),
        }
    }

    fn send_drep(&self, tid: u64, out: &mut Outbox) {
        let drep = Drep {
            local_comm_id: self.id,
            remote_comm_id: self.remote_id,
            private_data: PrivateData::default(),
        };
        out.send_as(self.peer, self.traffic_class(), &Mad { tid, message: Message::Drep(drep) });
    }

    pub(crate) fn handle_drep(
        &mut self,
        now: Time,
        drep: &Drep,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        match self.state {
            _ if drep.local_comm_id != self.remote_id => Err(DropReason::CmUnknownId),
            State::DreqSent => {
                self.confirmed = true;
                self.tell_end(false, drep.private_data.bytes(), out);
                self.enter_timewait(now);
                Ok(())
            }
            State::Timewait => Err(DropReason::CmDuplicate),
            _ => Err(DropReason::CmWrongState),
        }
    }

    /// The application wants to hear no more of it; the peer is told what it must know.
    pub(crate) fn release(&mut self, now: Time, own_tid: u64, out: &mut Outbox) {
        self.released = true;
        match self.state {
            State::ReqSent => {
                self.refuse(RejReason::TIMEOUT, PrivateData::default(), out);
                self.enter(State::Closed);
            }
            State::ReqReceived => {
                self.refuse(RejReason::CONSUMER, PrivateData::default(), out);
                self.enter(State::Closed);
            }
            State::RepReceived => {
                self.refuse(RejReason::CONSUMER, PrivateData::default(), out);
                self.enter_timewait(now);
            }
            State::RepSent | State::Established => {
                self.send_dreq(now, own_tid, PrivateData::default(), out);
            }
            State::DreqSent | State::Timewait | State::Closed => {}
        }
    }
}
