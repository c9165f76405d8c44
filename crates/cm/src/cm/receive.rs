//! Where a MAD goes. One that concerns an existing connection must name it by our id and come from
//! its peer's address; most must name the peer's id too (A23).

use std::net::IpAddr;

use uroce_wire::DropReason;

use super::Cm;
use crate::CommId;
use crate::connection::{Connection, Standing, State, rej};
use crate::mad::{MAD_LEN, Mad};
use crate::message::{Apr, Drep, Dreq, Lap, Message, Mra, Rej, RejectedMessage, Rep, Rtu, SidrRep};
use crate::outbox::{Outbox, Outgoing};
use crate::reopening::Early;
use crate::time::Time;
use crate::{PrivateData, RejReason};

impl Cm {
    /// Takes the payload of a packet that arrived on QP 1 with the Q_Key of QP 1, from QP 1 of
    /// `peer`.
    ///
    /// # Errors
    /// Why it had no effect, or none but a repeated answer; for the counters.
    pub fn handle_mad(&mut self, now: Time, peer: IpAddr, bytes: &[u8]) -> Result<(), DropReason> {
        let mad = Mad::parse(bytes).map_err(|error| error.drop_reason())?;
        self.handle_message(now, peer, mad)
    }

    /// True if a stranger at `peer` may be answered now: it counts against the budget for such answers, whatever the
    /// answer is about (A26).
    pub fn may_answer(&mut self, now: Time, peer: IpAddr) -> bool {
        self.strays.take(now, peer, false)
    }

    /// Sends the response to an [`AgentRequest`](crate::AgentRequest) that [`may_answer`](Cm::may_answer) allows.
    pub fn send_response(&mut self, peer: IpAddr, bytes: [u8; MAD_LEN]) {
        self.out.push(Outgoing { peer, traffic_class: 0, bytes });
    }

    /// Requests that waited for a listener: it is there now, or it is too late.
    pub(super) fn handle_early(&mut self, now: Time, requests: Vec<Early>) {
        for Early { peer, tid, message, .. } in requests {
            // A refusal was counted when the request came.
            let _ = self.handle_message(now, peer, Mad { tid, message });
        }
    }

    fn handle_message(&mut self, now: Time, peer: IpAddr, mad: Mad) -> Result<(), DropReason> {
        let Mad { tid, message } = mad;
        match message {
            Message::Req(req) => self.handle_req(now, peer, tid, &req),
            Message::SidrReq(req) => self.handle_sidr_req(now, peer, tid, &req),
            Message::Rep(rep) => self.handle_rep(now, peer, &rep),
            Message::Rtu(rtu) => self.handle_rtu(now, peer, tid, &rtu),
            Message::Mra(mra) => self.handle_mra(now, peer, &mra),
            Message::Rej(rej) => self.handle_rej(now, peer, &rej),
            Message::Dreq(dreq) => self.handle_dreq(now, peer, tid, &dreq),
            Message::Drep(drep) => self.handle_drep(now, peer, &drep),
            Message::SidrRep(rep) => self.handle_sidr_rep(peer, &rep),
            Message::Lap(lap) => self.handle_lap(now, peer, tid, &lap),
            // We never send LAP.
            Message::Apr(_) => Err(DropReason::CmUnsupported),
        }
    }

    /// Hands a message to the connection that it names.
    fn deliver(
        &mut self,
        peer: IpAddr,
        id: CommId,
        run: impl FnOnce(&mut Connection, &mut Outbox) -> Result<(), DropReason>,
    ) -> Result<(), DropReason> {
        let connection = self.table.connection_mut(id).ok_or(DropReason::CmUnknownId)?;
        if connection.peer() != peer {
            return Err(DropReason::CmWrongPeer);
        }
        let done = run(connection, &mut self.out);
        if connection.state() == State::Established {
            self.proven.add(peer);
        }
        self.table.settle(id);
        done
    }

    fn handle_rep(&mut self, now: Time, peer: IpAddr, rep: &Rep) -> Result<(), DropReason> {
        let id = rep.remote_comm_id;
        let other = self.table.find_remote_qpn(peer, rep.qpn()).filter(|other| *other != id);
        if let Some(other) = other {
            return self.handle_stale_rep(now, peer, rep, other);
        }
        self.deliver(peer, id, |connection, out| connection.handle_rep(now, rep, out))?;
        self.proven.add(peer);
        Ok(())
    }

    /// The queue pair in a REP belongs to another connection of ours already (R112).
    fn handle_stale_rep(
        &mut self,
        now: Time,
        peer: IpAddr,
        rep: &Rep,
        other: CommId,
    ) -> Result<(), DropReason> {
        let id = rep.remote_comm_id;
        let asked = |found: &&Connection| found.state() == State::ReqSent && found.peer() == peer;
        if self.table.connection(id).filter(asked).is_none() {
            return Err(DropReason::CmUnknownId);
        }
        if self.contradict(now, peer, other) == Standing::Firm {
            self.deliver(peer, id, |connection, out| {
                connection.refuse_stale_rep(rep.local_comm_id, out);
                Ok(())
            })?;
        }
        Err(DropReason::CmStale)
    }

    /// A message says that a queue pair of `peer` is free, which connection `id` has.
    pub(super) fn contradict(&mut self, now: Time, peer: IpAddr, id: CommId) -> Standing {
        let Cm { table, checks, out, .. } = self;
        let Some(connection) = table.connection_mut(id) else { return Standing::Firm };
        let standing = connection.contradict(now, || checks.take(now, peer, false), out);
        table.settle(id);
        standing
    }

    fn handle_rtu(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        rtu: &Rtu,
    ) -> Result<(), DropReason> {
        // The call was given up or made room: its caller, which believes that it stands, is told.
        let found = self.table.connection(rtu.remote_comm_id);
        if found.is_none_or(|found| found.was_given_up(peer, rtu.local_comm_id)) {
            let ids = [rtu.remote_comm_id, rtu.local_comm_id];
            let (other, reason) = (RejectedMessage::OTHER, RejReason::INVALID_COMM_ID);
            let rej = rej(ids, other, reason, PrivateData::default());
            self.send_stray(now, peer, Mad { tid, message: rej.into() });
            return Err(DropReason::CmUnknownId);
        }
        self.deliver(peer, rtu.remote_comm_id, |connection, out| connection.handle_rtu(rtu, out))
    }

    fn handle_mra(&mut self, now: Time, peer: IpAddr, mra: &Mra) -> Result<(), DropReason> {
        self.deliver(peer, mra.remote_comm_id, |connection, _| connection.handle_mra(now, mra))
    }

    fn handle_rej(&mut self, now: Time, peer: IpAddr, rej: &Rej) -> Result<(), DropReason> {
        if rej.remote_comm_id == CommId::NONE {
            return self.handle_rej_without_id(now, peer, rej);
        }
        self.deliver(peer, rej.remote_comm_id, |found, out| found.handle_rej(now, rej, out))
    }

    /// A caller that gave up before it learnt our id names its own, and proves itself by its GUID.
    fn handle_rej_without_id(
        &mut self,
        now: Time,
        peer: IpAddr,
        rej: &Rej,
    ) -> Result<(), DropReason> {
        let taken_back = |guid| self.reopening.take_back(peer, rej.local_comm_id, guid);
        if rej.reason == RejReason::TIMEOUT && rej.guid().is_some_and(taken_back) {
            return Ok(());
        }
        let found = self.table.find_remote_id(peer, rej.local_comm_id);
        let id = found.ok_or(DropReason::CmUnknownId)?;
        self.deliver(peer, id, |connection, out| {
            let known = rej.guid() == Some(connection.req().local_ca_guid);
            if rej.reason != RejReason::TIMEOUT || !known || !connection.is_half_open() {
                return Err(DropReason::CmUnknownId);
            }
            connection.handle_rej_of_peer(now, rej, out)
        })
    }

    fn handle_dreq(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        dreq: &Dreq,
    ) -> Result<(), DropReason> {
        let id = dreq.remote_comm_id;
        if self.table.connection(id).is_some() {
            return self.deliver(peer, id, |found, out| found.handle_dreq(now, tid, dreq, out));
        }
        self.answer_stray_dreq(now, peer, tid, dreq);
        Err(DropReason::CmUnknownId)
    }

    /// A DREQ for a connection that is over here: the DREP lets the peer rest.
    fn answer_stray_dreq(&mut self, now: Time, peer: IpAddr, tid: u64, dreq: &Dreq) {
        let drep = Drep {
            local_comm_id: dreq.remote_comm_id,
            remote_comm_id: dreq.local_comm_id,
            private_data: PrivateData::default(),
        };
        self.send_stray(now, peer, Mad { tid, message: drep.into() });
    }

    /// An answer that no connection stands behind, within the budget for such.
    pub(super) fn send_stray(&mut self, now: Time, peer: IpAddr, mad: Mad) {
        if self.may_answer(now, peer) {
            self.out.send(peer, &mad);
        }
    }

    fn handle_drep(&mut self, now: Time, peer: IpAddr, drep: &Drep) -> Result<(), DropReason> {
        self.deliver(peer, drep.remote_comm_id, |found, out| found.handle_drep(now, drep, out))
    }

    /// RoCE has no alternate paths: the peer of a standing connection is told so.
    fn handle_lap(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        lap: &Lap,
    ) -> Result<(), DropReason> {
        let connection = self.table.connection(lap.remote_comm_id);
        let connection = connection.ok_or(DropReason::CmUnknownId)?;
        if connection.peer() != peer {
            return Err(DropReason::CmWrongPeer);
        }
        if connection.remote_id() != lap.local_comm_id {
            return Err(DropReason::CmUnknownId);
        }
        let apr = Apr {
            local_comm_id: lap.remote_comm_id,
            remote_comm_id: lap.local_comm_id,
            info_len: 0,
            status: Apr::UNSUPPORTED,
            info: [0; 72],
            private_data: PrivateData::default(),
        };
        self.send_stray(now, peer, Mad { tid, message: apr.into() });
        Err(DropReason::CmUnsupported)
    }

    fn handle_sidr_rep(&mut self, peer: IpAddr, rep: &SidrRep) -> Result<(), DropReason> {
        let id = CommId(rep.request_id);
        let resolution = self.table.resolution_mut(id).ok_or(DropReason::CmUnknownId)?;
        if resolution.peer() != peer {
            return Err(DropReason::CmWrongPeer);
        }
        let done = resolution.handle_rep(rep, &mut self.out);
        self.table.settle(id);
        done
    }
}
