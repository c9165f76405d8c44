//! Calls of the program: the tester is the called side.

use std::time::Duration;

use uroce_cm::message::{Dreq, Message, Mra, Rej, RejectedMessage, Rep, Req, Rtu};
use uroce_cm::{CommId, PrivateData, RejReason};
use uroce_wire::{Psn, Qpn};

use super::{Cm, names, service};
use crate::agent_link::wrong_reply;
use crate::verdict::{check, fail};
use crate::{CmRequest, Hex, Qp, Reply, State, Stop, cm_event};

/// CA GUID of the tester.
const GUID: u64 = 0x0200_00ff_fe00_0001;
/// Private data of the program's REQ.
pub(crate) const PRIVATE: &[u8] = b"private data of a call";

/// A call of the program, which the tester got.
pub struct Called<'b, 'r> {
    cm: Cm<'b, 'r>,
    /// What the program's side said.
    pub req: Req,
    /// Transaction id of the exchange.
    pub tid: u64,
    /// The queue pair that calls.
    pub qp: Qp<'b, 'r>,
    /// The agent's number of the connection.
    id: u32,
    /// The tester's names: of the connection, and of its queue pair.
    own: (CommId, Qpn),
    first_psn: Psn,
}

impl<'b, 'r> Called<'b, 'r> {
    pub(super) fn new(cm: Cm<'b, 'r>) -> Result<Self, Stop> {
        // The dynamic ports belong to no service.
        let port = 0xc000 | cm.fresh() as u16 & 0x3fff;
        let qp = cm.bench.rc().until(State::Reset).receives(0).open()?;
        let (address, private) = (cm.own_address(), Hex(PRIVATE.to_vec()));
        let id = match cm.ask(CmRequest::Connect { address, port, qp: qp.app.id, private })? {
            Reply::CmId { id, port: _ } => id,
            other => return wrong_reply(other),
        };
        let Some((tid, req)) = req_within(cm, port, cm.bench.patience.answer)? else {
            return fail("expected a REQ; nothing came");
        };
        let own = (CommId(cm.fresh()), cm.fresh_qpn());
        let called = Called { cm, req, tid, qp, id, own, first_psn: Psn::new(cm.fresh()) };
        cm.at_the_end(cm.packet(tid, called.rej(RejReason::CONSUMER, &[])));
        cm.at_the_end(cm.packet(u64::from(cm.fresh()), called.dreq()));
        Ok(called)
    }

    /// The connection manager that calls.
    pub fn cm(&self) -> Cm<'b, 'r> {
        self.cm
    }

    /// The REQ again, within `wait`: when it came. It must be the same.
    ///
    /// # Errors
    /// It is another one.
    pub fn again_within(&self, wait: Duration) -> Result<Option<Duration>, Stop> {
        match req_within(self.cm, self.req.service_id.port(), wait)? {
            None => Ok(None),
            Some((tid, req)) => {
                let same = (tid, req) == (self.tid, self.req);
                check(same, || format!("expected the same REQ again, got {req:?}"))?;
                Ok(Some(self.qp.now()))
            }
        }
    }

    /// Sends a message with the transaction id of the REQ.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn say(&self, message: impl Into<Message>) -> Result<(), Stop> {
        self.cm.tx(&self.cm.packet(self.tid, message))
    }

    /// REP, right in every respect.
    pub fn rep(&self) -> Rep {
        Rep {
            local_comm_id: self.own.0,
            remote_comm_id: self.req.local_comm_id,
            local_qkey: 0,
            local_qpn: self.own.1,
            vendor_id: 0,
            vendor_options: 0,
            local_eecn: 0,
            starting_psn: self.first_psn,
            responder_resources: self.req.initiator_depth.min(4),
            initiator_depth: self.req.responder_resources.min(4),
            target_ack_delay: 15,
            failover_accepted: 0,
            flow_control: false,
            rnr_retry_count: 7,
            srq: false,
            local_ca_guid: GUID,
            private_data: PrivateData::default(),
        }
    }

    /// REJ of the REQ.
    pub fn rej(&self, reason: RejReason, private: &[u8]) -> Rej {
        Rej {
            local_comm_id: self.own.0,
            remote_comm_id: self.req.local_comm_id,
            message: RejectedMessage::REQ,
            info_len: 0,
            reason,
            info: [0; 72],
            // Cases know how much there is room for.
            private_data: PrivateData::new(private).unwrap_or_default(),
        }
    }

    /// MRA of the REQ.
    pub fn mra(&self, service_timeout: u8) -> Mra {
        Mra {
            local_comm_id: self.own.0,
            remote_comm_id: self.req.local_comm_id,
            message: RejectedMessage::REQ,
            service_timeout,
            private_data: PrivateData::default(),
        }
    }

    /// DREQ.
    pub fn dreq(&self) -> Dreq {
        Dreq {
            local_comm_id: self.own.0,
            remote_comm_id: self.req.local_comm_id,
            remote_qpn: self.req.local_qpn,
            private_data: PrivateData::default(),
        }
    }

    /// The program's event.
    ///
    /// # Errors
    /// It is another one, or none comes.
    pub fn event(&self, kind: u32) -> Result<crate::CmEvent, Stop> {
        self.cm.event(kind)
    }

    /// The next message about this connection, if one comes within `wait`.
    ///
    /// # Errors
    /// What came is no MAD.
    pub fn within(&self, wait: Duration) -> Result<Option<Message>, Stop> {
        let mad = self.cm.mad_within(Qpn::GSI, wait, |message| names(message, self.own.0))?;
        Ok(mad.map(|mad| mad.message))
    }

    /// RTU.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn rtu(&self) -> Result<Rtu, Stop> {
        match self.within(self.cm.bench.patience.answer)? {
            Some(Message::Rtu(rtu)) => Ok(rtu),
            other => fail(format!("expected RTU, got {other:?}")),
        }
    }

    /// No message about this connection comes, nor the REQ again.
    ///
    /// # Errors
    /// One came.
    pub fn silence(&self) -> Result<(), Stop> {
        match self.within(self.cm.silence())? {
            None => Ok(()),
            Some(message) => fail(format!("expected silence, got {message:?}")),
        }
    }

    /// REP of the tester; the program confirms, and RTU comes.
    ///
    /// # Errors
    /// One of them does not come.
    pub fn connected(&mut self) -> Result<(), Stop> {
        let rep = self.rep();
        self.say(rep)?;
        self.event(cm_event::CONNECT_RESPONSE)?;
        self.cm.ask(CmRequest::Establish { id: self.id, qp: self.qp.app.id })?;
        self.rtu()?;
        let psns = (self.req.starting_psn, rep.starting_psn);
        self.qp.is_connected(rep.local_qpn, psns, self.req.path_mtu);
        Ok(())
    }
}

/// A REQ for this port.
fn req_within(cm: Cm<'_, '_>, port: u16, wait: Duration) -> Result<Option<(u64, Req)>, Stop> {
    let wanted = service(port);
    let ours = |message: &Message| matches!(message, Message::Req(req) if req.service_id == wanted);
    let mad = cm.mad_within(Qpn::GSI, wait, ours)?;
    Ok(mad.and_then(|mad| match mad.message {
        Message::Req(req) => Some((mad.tid, req)),
        _ => None,
    }))
}
