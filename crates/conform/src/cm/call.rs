//! Calls of the tester: the NIC under test is the called side.

use std::time::Duration;

use uroce_cm::message::{
    Drep, Dreq, Message, Rej, RejectedMessage, Rep, Req, Rtu, TransportService,
};
use uroce_cm::{CommId, PrivateData, RejReason};
use uroce_wire::{Mtu, Psn, Qpn};

use super::{Cm, names, service};
use crate::verdict::{check, fail};
use crate::{CmEvent, CmRequest, Hex, Qp, State, Stop, cm_event};

/// CA GUID of the tester.
const GUID: u64 = 0x0200_00ff_fe00_0001;
/// Time code of answers: 1 s.
const RESPONSE_TIMEOUT: u8 = 18;
/// Receives of the queue pair that accepts.
const RECEIVES: u32 = 4;

/// A call of the tester. Its REQ is right in every respect unless a case changes it.
#[derive(Clone, Copy)]
pub struct Call<'b, 'r> {
    /// The connection manager that is called.
    pub cm: Cm<'b, 'r>,
    /// What is said.
    pub req: Req,
    /// Transaction id of the exchange.
    pub tid: u64,
}

/// A connection that the tester called for and the program accepted.
pub struct Connection<'b, 'r> {
    /// The call.
    pub call: Call<'b, 'r>,
    /// The answer.
    pub rep: Rep,
    /// The queue pair that accepted.
    pub qp: Qp<'b, 'r>,
    /// The agent's number of it.
    id: u32,
}

impl<'b, 'r> Call<'b, 'r> {
    pub(super) fn new(cm: Cm<'b, 'r>, port: u16) -> Self {
        let card = cm.bench.card();
        let req = Req {
            local_comm_id: CommId(cm.fresh()),
            vendor_id: 0,
            vendor_options: 0,
            service_id: service(port),
            local_ca_guid: GUID,
            local_qkey: 0,
            local_qpn: cm.fresh_qpn(),
            responder_resources: 4,
            local_eecn: 0,
            initiator_depth: 4,
            remote_eecn: 0,
            remote_response_timeout: RESPONSE_TIMEOUT,
            transport: TransportService::RC,
            flow_control: false,
            starting_psn: Psn::new(cm.fresh()),
            local_response_timeout: RESPONSE_TIMEOUT,
            retry_count: 7,
            pkey: 0xffff,
            path_mtu: Mtu::M1024.code().min(card.mtu),
            rdc_exists: false,
            rnr_retry_count: 7,
            max_cm_retries: 3,
            srq: false,
            extended_transport: 0,
            primary: cm.path(),
            alternate: Default::default(),
            sap_supported: false,
            private_data: cm.private(&[]),
        };
        Call { cm, req, tid: u64::from(cm.fresh()) }
    }

    /// Changes the REQ.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Req)) -> Self {
        change(&mut self.req);
        self
    }

    /// Sends the REQ.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn tx(&self) -> Result<(), Stop> {
        self.say(self.req)
    }

    /// Sends a message with the transaction id of the call.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn say(&self, message: impl Into<Message>) -> Result<(), Stop> {
        self.cm.tx(&self.cm.packet(self.tid, message))
    }

    /// The next message about this call, if one comes within `wait`. It must have the transaction id of the call,
    /// unless it begins an exchange.
    ///
    /// # Errors
    /// What came is no MAD, or of another transaction.
    pub fn within(&self, wait: Duration) -> Result<Option<Message>, Stop> {
        let ours = |message: &Message| names(message, self.req.local_comm_id);
        let Some(mad) = self.cm.mad_within(Qpn::GSI, wait, ours)? else { return Ok(None) };
        let begins = matches!(mad.message, Message::Dreq(_) | Message::Lap(_));
        let (name, tid, own) = (mad.message.name(), mad.tid, self.tid);
        check(begins || tid == own, || {
            format!("{name} has transaction id {tid:#x}, not {own:#x}")
        })?;
        Ok(Some(mad.message))
    }

    /// The next message about this call, which must come.
    ///
    /// # Errors
    /// None came; `expected` is for the sentence.
    pub fn answer(&self, expected: &str) -> Result<Message, Stop> {
        match self.within(self.cm.bench.patience.answer)? {
            Some(message) => Ok(message),
            None => fail(format!("expected {expected}; nothing came")),
        }
    }

    /// No message comes.
    ///
    /// # Errors
    /// One came.
    pub fn silence(&self) -> Result<(), Stop> {
        match self.within(self.cm.silence())? {
            None => Ok(()),
            Some(message) => fail(format!("expected silence, got {message:?}")),
        }
    }

    /// REP; MRAs may come before it.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn rep(&self) -> Result<Rep, Stop> {
        loop {
            match self.answer("REP")? {
                Message::Rep(rep) => return Ok(rep),
                Message::Mra(_) => {}
                other => return fail(format!("expected REP, got {other:?}")),
            }
        }
    }

    /// REJ of the REQ with this reason; MRAs may come before it.
    ///
    /// # Errors
    /// Something else came, or nothing.
    pub fn rej(&self, reason: RejReason) -> Result<Rej, Stop> {
        loop {
            match self.answer("REJ")? {
                Message::Mra(_) => {}
                Message::Rej(rej)
                    if rej.reason == reason && rej.message == RejectedMessage::REQ =>
                {
                    return Ok(rej);
                }
                other => return fail(format!("expected REJ of the REQ, {reason}; got {other:?}")),
            }
        }
    }

    /// The program gets the call.
    ///
    /// # Errors
    /// It does not.
    pub fn arrives(&self) -> Result<CmEvent, Stop> {
        self.cm.event(cm_event::CONNECT_REQUEST)
    }

    /// The program refuses the call.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn refused(&self, event: &CmEvent, private: &[u8]) -> Result<(), Stop> {
        let private = Hex(private.to_vec());
        self.cm.ask(CmRequest::Reject { id: event.id, private }).map(drop)
    }

    /// The program accepts the call, with this private data.
    ///
    /// # Errors
    /// It cannot, or no REP comes.
    pub fn accepted(self, event: &CmEvent, private: &[u8]) -> Result<Connection<'b, 'r>, Stop> {
        let cm = self.cm;
        let mut qp = cm.bench.rc().until(State::Reset).receives(RECEIVES).open()?;
        let private = Hex(private.to_vec());
        cm.ask(CmRequest::Accept { id: event.id, qp: qp.app.id, private })?;
        (0..RECEIVES).try_for_each(|index| qp.app.post_receive(index))?;
        let rep = self.rep()?;
        qp.is_connected(
            self.req.local_qpn,
            (rep.starting_psn, self.req.starting_psn),
            self.req.path_mtu,
        );
        let connection = Connection { call: self, rep, qp, id: event.id };
        cm.at_the_end(cm.packet(self.tid, connection.dreq()));
        Ok(connection)
    }

    /// REQ, which the program gets and accepts, and REP.
    ///
    /// # Errors
    /// One of them does not come.
    pub fn answered(self) -> Result<Connection<'b, 'r>, Stop> {
        self.tx()?;
        self.accepted(&self.arrives()?, &[])
    }

    /// The whole exchange: REQ, REP, RTU, and the program knows.
    ///
    /// # Errors
    /// One of them does not come.
    pub fn connected(self) -> Result<Connection<'b, 'r>, Stop> {
        let connection = self.answered()?;
        self.say(connection.rtu())?;
        connection.established()?;
        Ok(connection)
    }
}

impl Connection<'_, '_> {
    /// RTU.
    pub fn rtu(&self) -> Rtu {
        Rtu {
            local_comm_id: self.call.req.local_comm_id,
            remote_comm_id: self.rep.local_comm_id,
            private_data: PrivateData::default(),
        }
    }

    /// DREQ.
    pub fn dreq(&self) -> Dreq {
        Dreq {
            local_comm_id: self.call.req.local_comm_id,
            remote_comm_id: self.rep.local_comm_id,
            remote_qpn: self.rep.local_qpn,
            private_data: PrivateData::default(),
        }
    }

    /// The program learns that the connection stands.
    ///
    /// # Errors
    /// It does not.
    pub fn established(&self) -> Result<CmEvent, Stop> {
        self.call.cm.event(cm_event::ESTABLISHED)
    }

    /// The program ends the connection, or confirms its end.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn disconnect(&self) -> Result<(), Stop> {
        self.call.cm.ask(CmRequest::Disconnect { id: self.id }).map(drop)
    }

    /// The program learns that the connection has ended, and confirms it.
    ///
    /// # Errors
    /// It does not learn it.
    pub fn ends(&self) -> Result<(), Stop> {
        self.call.cm.event(cm_event::DISCONNECTED)?;
        self.disconnect()
    }

    /// The next message must be DREP with the right ids.
    ///
    /// # Errors
    /// It is not, or nothing comes.
    pub fn drep(&self) -> Result<Drep, Stop> {
        match self.call.answer("DREP")? {
            Message::Drep(drep) if drep.local_comm_id == self.rep.local_comm_id => Ok(drep),
            other => fail(format!("expected DREP, got {other:?}")),
        }
    }

    /// DREQ of the tester, and the program's and the peer's part of the end.
    ///
    /// # Errors
    /// One of them does not come.
    pub fn end(&self) -> Result<(), Stop> {
        self.call.say(self.dreq())?;
        self.ends()?;
        self.drep().map(drop)
    }
}
