//! REJ: refusals of either side.

use std::time::Duration;

use uroce_wire::DropReason;

use super::{Connection, State};
use crate::error::CmError;
use crate::event::Event;
use crate::message::{Rej, RejectedMessage};
use crate::outbox::Outbox;
use crate::time::Time;
use crate::{Ari, CommId, PrivateData, RejReason};

/// A REJ with no additional information.
pub(crate) fn rej(
    [local_comm_id, remote_comm_id]: [CommId; 2],
    message: RejectedMessage,
    reason: RejReason,
    private_data: PrivateData<148>,
) -> Rej {
    let info = [0; 72];
    Rej { local_comm_id, remote_comm_id, message, info_len: 0, reason, info, private_data }
}

impl Connection {
    /// Refuses what the peer sent: the REQ or the REP.
    pub(crate) fn reject(
        &mut self,
        now: Time,
        reason: RejReason,
        private_data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), CmError> {
        let need = "only a request or a reply that was not answered yet can be rejected";
        self.must_be(&[State::ReqReceived, State::RepReceived], need)?;
        self.refuse(reason, PrivateData::new(private_data)?, out);
        match self.state {
            State::RepReceived => self.enter_timewait(now),
            _ => self.enter(State::Closed),
        }
        Ok(())
    }

    /// Sends the REJ that fits the state. With the reason "timeout" comes our GUID, by which the
    /// peer finds a connection whose id we do not know.
    pub(super) fn refuse(
        &self,
        reason: RejReason,
        private_data: PrivateData<148>,
        out: &mut Outbox,
    ) {
        let (local, message) = match self.state {
            State::ReqReceived if self.patience_asked => (self.id, RejectedMessage::REQ),
            State::ReqReceived => (CommId::NONE, RejectedMessage::REQ),
            State::ReqSent => (self.id, RejectedMessage::REQ),
            State::RepReceived => (self.id, RejectedMessage::REP),
            _ => (self.id, RejectedMessage::OTHER),
        };
        let mut rej = rej([local, self.remote_id], message, reason, private_data);
        if reason == RejReason::TIMEOUT {
            let guid = self.us.guid.to_be_bytes();
            rej.info_len = guid.len() as u8;
            rej.info[..guid.len()].copy_from_slice(&guid);
        }
        self.send(rej, out);
    }

    pub(crate) fn handle_rej(
        &mut self,
        now: Time,
        rej: &Rej,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        // The answer to our REQ names us only.
        if self.state == State::ReqSent {
            if rej.message != RejectedMessage::REQ {
                return Err(DropReason::CmWrongState);
            }
            if rej.largest_mtu().is_some() && rej.largest_mtu() == self.mtu_of_peer {
                // Of the REQ before, which the network has doubled, or the REJ of it.
                return Err(DropReason::CmDuplicate);
            }
            if !self.call_with_smaller_mtu(now, rej, out) {
                self.tell(self.rejected(rej), out);
                self.enter(State::Closed);
            }
            return Ok(());
        }
        if rej.local_comm_id != self.remote_id {
            return Err(DropReason::CmUnknownId);
        }
        self.handle_rej_of_peer(now, rej, out)
    }

    /// The peer's link carries less than ours, and it says how much: the REQ goes out with that.
    fn call_with_smaller_mtu(&mut self, now: Time, rej: &Rej, out: &mut Outbox) -> bool {
        let smaller = rej.largest_mtu().filter(|code| *code < self.req.path_mtu);
        let (Some(code), Some(interval)) = (smaller, self.interval()) else { return false };
        (self.req.path_mtu, self.mtu_of_peer) = (code, Some(code));
        self.send_repeatedly(now, self.mad(self.req), (interval, Duration::MAX), out);
        true
    }

    /// A REJ of the peer that this connection is with, beyond doubt.
    pub(crate) fn handle_rej_of_peer(
        &mut self,
        now: Time,
        rej: &Rej,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        match self.state {
            State::ReqReceived => {
                self.tell(self.rejected(rej), out);
                self.enter(State::Closed);
            }
            State::RepSent | State::RepReceived => {
                self.tell(self.rejected(rej), out);
                self.enter_timewait(now);
            }
            // The peer has given up, or does not know us any more.
            // Or it has sent a packet, and then refused the REP after all.
            State::Established | State::DreqSent
                if !rej.message.is_of_handshake()
                    || !self.caller && rej.message == RejectedMessage::REP =>
            {
                self.tell_end(false, &[], out);
                self.enter_timewait(now);
            }
            _ => return Err(DropReason::CmWrongState),
        }
        Ok(())
    }

    fn rejected(&self, rej: &Rej) -> Event {
        let private_data = rej.private_data.bytes()[..].into();
        Event::Rejected { id: self.id, reason: rej.reason, ari: Ari::of(rej), private_data }
    }

    /// Our REP came from a queue pair that another connection of ours still uses: the REP is
    /// refused, and the call failed.
    pub(crate) fn refuse_stale_rep(&mut self, remote_id: CommId, out: &mut Outbox) {
        let stale = RejReason::STALE_CONNECTION;
        let ids = [self.id, remote_id];
        self.send(rej(ids, RejectedMessage::REP, stale, PrivateData::default()), out);
        let (ari, private_data) = (Ari::default(), [].into());
        self.tell(Event::Rejected { id: self.id, reason: stale, ari, private_data }, out);
        self.enter(State::Closed);
    }
}
