//! Service id resolution (SIDR): one question, one answer, for datagrams.

use std::net::IpAddr;
use std::time::Duration;

use uroce_wire::{DropReason, Qpn};

use crate::call::{DEFAULT_PKEY, ip_header};
use crate::connection::State;
use crate::error::CmError;
use crate::event::Event;
use crate::identity::Identity;
use crate::ip_cm::IpCm;
use crate::limits::{SHORTEST_RESEND, SIDR_MEMORY};
use crate::mad::Mad;
use crate::message::{Message, SidrRep, SidrReq};
use crate::outbox::Outbox;
use crate::time::Time;
use crate::time_code::response_time;
use crate::{CommId, PrivateData, ServiceId, SidrStatus, TooLong};

/// A question: what goes into a SIDR_REQ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The peer to ask.
    pub remote: IpAddr,
    /// What is looked for there.
    pub service_id: ServiceId,
    /// Port of the caller, if the service is rdma_cm's.
    pub source_port: u16,
    /// Time (code) within which the answer is expected.
    pub response_timeout: u8,
    /// How often the question is repeated, 0 to 15.
    pub max_retries: u8,
    /// For the application that answers: up to 180 bytes, or 216 if the service is none of
    /// rdma_cm's.
    pub private_data: Vec<u8>,
}

impl Question {
    /// A question that is repeated 15 times about once a second.
    pub fn new(remote: IpAddr, service_id: ServiceId) -> Question {
        let (source_port, response_timeout, max_retries) = (0, 18, 15);
        let private_data = Vec::new();
        Question { remote, service_id, source_port, response_timeout, max_retries, private_data }
    }

    fn req(&self, id: CommId, us: &Identity) -> Result<SidrReq, TooLong> {
        let private_data = if self.service_id.port_space().is_some() {
            ip_header(us.address, self.source_port, self.remote, &self.private_data)?
        } else {
            PrivateData::new(&self.private_data)?
        };
        let (request_id, pkey, service_id) = (id.0, DEFAULT_PKEY, self.service_id);
        Ok(SidrReq { request_id, pkey, service_id, private_data })
    }
}

/// An answer: what goes into a SIDR_REP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// [`SidrStatus::VALID`], or why not.
    pub status: SidrStatus,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// What datagrams to it must carry.
    pub qkey: u32,
    /// For the application that asked, up to 136 bytes.
    pub private_data: Vec<u8>,
}

impl Answer {
    /// The refusal `status`.
    pub fn refusal(status: SidrStatus) -> Answer {
        Answer { status, qpn: Qpn::new(0), qkey: 0, private_data: Vec::new() }
    }

    pub(crate) fn rep(&self, req: &SidrReq) -> Result<SidrRep, TooLong> {
        Ok(SidrRep {
            request_id: req.request_id,
            status: self.status,
            info_len: 0,
            vendor_id: 0,
            qpn: self.qpn,
            service_id: req.service_id,
            qkey: self.qkey,
            info: [0; 72],
            private_data: PrivateData::new(&self.private_data)?,
        })
    }
}

#[derive(Debug)]
enum Stage {
    /// Asking; so many repetitions are left.
    Asked {
        left: u8,
        interval: Duration,
    },
    /// The application has to answer.
    ToAnswer,
    /// Answered; kept for repetitions of the question.
    Answered(Box<Mad>),
    Closed,
}

/// One resolution, as either side sees it.
#[derive(Debug)]
pub(crate) struct Resolution {
    id: CommId,
    peer: IpAddr,
    tid: u64,
    req: SidrReq,
    stage: Stage,
    deadline: Option<Time>,
    released: bool,
}

impl Resolution {
    /// The asking side; the SIDR_REQ goes out.
    pub(crate) fn ask(
        now: Time,
        us: &Identity,
        (id, tid): (CommId, u64),
        question: &Question,
        out: &mut Outbox,
    ) -> Result<Resolution, TooLong> {
        let req = question.req(id, us)?;
        let interval = response_time(question.response_timeout).max(SHORTEST_RESEND);
        let stage = Stage::Asked { left: question.max_retries & 0xf, interval };
        let deadline = Some(now.saturating_add(interval));
        let peer = question.remote;
        let asked = Resolution { id, peer, tid, req, stage, deadline, released: false };
        asked.send_req(out);
        Ok(asked)
    }

    /// The asked side; the application answers until `deadline`.
    pub(crate) fn asked(
        deadline: Time,
        peer: IpAddr,
        (id, tid): (CommId, u64),
        req: &SidrReq,
        ip: Option<IpCm>,
        out: &mut Outbox,
    ) -> Resolution {
        let skip = if ip.is_some() { IpCm::LEN } else { 0 };
        out.event(Event::Query {
            id,
            service_id: req.service_id,
            remote: peer,
            ip,
            private_data: req.private_data.bytes()[skip..].into(),
        });
        let (stage, deadline) = (Stage::ToAnswer, Some(deadline));
        Resolution { id, peer, tid, req: *req, stage, deadline, released: false }
    }

    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    pub(crate) fn req(&self) -> &SidrReq {
        &self.req
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// A question of a peer.
    pub(crate) fn is_of_peer(&self) -> bool {
        matches!(self.stage, Stage::ToAnswer | Stage::Answered(_))
    }

    /// The application has not answered.
    pub(crate) fn is_half_open(&self) -> bool {
        matches!(self.stage, Stage::ToAnswer)
    }

    /// Until when the answer is kept for repetitions of the question.
    pub(crate) fn answered_until(&self) -> Option<Time> {
        self.deadline.filter(|_| matches!(self.stage, Stage::Answered(_)))
    }

    pub(crate) fn state(&self) -> State {
        match self.stage {
            Stage::Asked { .. } => State::ReqSent,
            Stage::ToAnswer => State::ReqReceived,
            Stage::Answered(_) => State::Timewait,
            Stage::Closed => State::Closed,
        }
    }

    pub(crate) fn close(&mut self) {
        self.stage = Stage::Closed;
        self.deadline = None;
    }

    fn send_req(&self, out: &mut Outbox) {
        out.send(self.peer, &Mad { tid: self.tid, message: Message::SidrReq(self.req) });
    }

    pub(crate) fn answer(
        &mut self,
        now: Time,
        answer: &Answer,
        out: &mut Outbox,
    ) -> Result<(), CmError> {
        if !self.is_half_open() {
            let (id, state) = (self.id, self.state().name());
            let need = "only a question that was not answered yet can be";
            return Err(CmError::WrongState { id, state, need });
        }
        let mad = Mad { tid: self.tid, message: Message::SidrRep(answer.rep(&self.req)?) };
        out.send(self.peer, &mad);
        self.stage = Stage::Answered(Box::new(mad));
        self.deadline = Some(now.saturating_add(SIDR_MEMORY));
        Ok(())
    }

    /// The question came again.
    pub(crate) fn handle_duplicate_req(&self, out: &mut Outbox) {
        if let Stage::Answered(mad) = &self.stage {
            out.send(self.peer, mad);
        }
    }

    pub(crate) fn handle_rep(&mut self, rep: &SidrRep, out: &mut Outbox) -> Result<(), DropReason> {
        if !matches!(self.stage, Stage::Asked { .. }) {
            return Err(DropReason::CmWrongState);
        }
        if rep.service_id != self.req.service_id {
            return Err(DropReason::CmUnknownId);
        }
        let (id, status, qpn, qkey) = (self.id, rep.status, rep.qpn, rep.qkey);
        let private_data = rep.private_data.bytes()[..].into();
        self.tell(Event::Resolved { id, status, qpn, qkey, private_data }, out);
        self.close();
        Ok(())
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        if let Stage::Asked { left, interval } = &mut self.stage
            && let Some(fewer) = left.checked_sub(1)
        {
            *left = fewer;
            self.deadline = Some(now.saturating_add(*interval));
            return self.send_req(out);
        }
        if !matches!(self.stage, Stage::Answered(_)) {
            self.tell(Event::TimedOut { id: self.id }, out);
        }
        self.close();
    }

    /// The application wants to hear no more of it. A question without an answer is refused.
    pub(crate) fn release(&mut self, now: Time, out: &mut Outbox) {
        self.released = true;
        if self.is_half_open() {
            let refusal = self.answer(now, &Answer::refusal(SidrStatus::REJECTED), out);
            debug_assert!(refusal.is_ok(), "a refusal has no private data and is in turn");
        } else if !self.is_of_peer() {
            self.close();
        }
    }

    fn tell(&self, event: Event, out: &mut Outbox) {
        if !self.released {
            out.event(event);
        }
    }
}
