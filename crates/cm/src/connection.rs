//! One connection, from REQ to the end of TIMEWAIT, as either side sees it.
//!
//! ```text
//! caller                                   called
//!   | REQ                                    | REQ
//! ReqSent --- MRA: more patience           ReqReceived
//!   | REP                                    | accept: REP
//! RepReceived                              RepSent
//!   | establish: RTU                         | RTU, or the first packet
//! Established                              Established
//!   | disconnect: DREQ, or DREQ received: DREP
//! DreqSent -- DREP --> Timewait -- time --> Closed
//! ```

mod handshake;
mod liveness;
mod refusal;
mod retry;
mod teardown;

use std::net::IpAddr;
use std::time::Duration;

use liveness::LivenessCheck;
pub(crate) use liveness::Standing;
pub(crate) use refusal::rej;
use retry::Retry;
use uroce_wire::Qpn;

use crate::CommId;
use crate::error::CmError;
use crate::event::Event;
use crate::identity::Identity;
use crate::limits::{LONGEST_TIMEWAIT, LONGEST_UNCONFIRMED_TIMEWAIT};
use crate::mad::Mad;
use crate::message::{Message, Req};
use crate::mutation::mutated;
use crate::outbox::Outbox;
use crate::time::Time;
use crate::time_code::response_time;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Caller: the REQ is on its way.
    ReqSent,
    /// Called: the application has to decide.
    ReqReceived,
    /// Called: the REP is on its way.
    RepSent,
    /// Caller: the application has to set its queue pair up.
    RepReceived,
    /// Both have all they need.
    Established,
    /// The DREQ is on its way.
    DreqSent,
    /// Over, but packets of the connection may still be under way.
    Timewait,
    /// Over.
    Closed,
}

impl State {
    /// Its name, as the specification has it.
    pub const fn name(self) -> &'static str {
        match self {
            State::ReqSent => "REQ_SENT",
            State::ReqReceived => "REQ_RCVD",
            State::RepSent => "REP_SENT",
            State::RepReceived => "REP_RCVD",
            State::Established => "ESTABLISHED",
            State::DreqSent => "DREQ_SENT",
            State::Timewait => "TIMEWAIT",
            State::Closed => "CLOSED",
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: CommId,
    us: Identity,
    peer: IpAddr,
    state: State,
    /// We sent the REQ.
    caller: bool,
    /// Of the REQ.
    tid: u64,
    /// The REQ, ours or the peer's.
    req: Req,
    local_qpn: Qpn,
    remote_id: CommId,
    remote_qpn: Qpn,
    ack_timeout: u8,
    /// The path MTU that the peer has asked for, and the REQ has now.
    mtu_of_peer: Option<u8>,
    /// What the application wants for its queue pair instead.
    own_ack_timeout: Option<u8>,
    retry: Option<Retry>,
    deadline: Option<Time>,
    /// When the message came that waits for the application.
    asked_at: Time,
    /// An MRA for the message that waits for the application was sent.
    patience_asked: bool,
    /// Of the peer, begun when a message contradicted this connection.
    check: Option<LivenessCheck>,
    /// RTU, for repetitions of the REP.
    rtu: Option<Mad>,
    /// The peer has shown that it hears us: the queue pair that it named is its own.
    confirmed: bool,
    /// The end was reported.
    end_told: bool,
    /// The application has released it: no more events (B54).
    released: bool,
}

impl Connection {
    /// The caller's side; the REQ goes out.
    pub(crate) fn call(
        now: Time,
        us: &Identity,
        peer: IpAddr,
        tid: u64,
        (req, packet_lifetime): (&Req, u8),
        out: &mut Outbox,
    ) -> Connection {
        let interval =
            response_time(packet_lifetime) * 2 + response_time(req.remote_response_timeout);
        let mut connection = Connection::new(us, peer, (req.local_comm_id, tid), req, true);
        connection.local_qpn = req.local_qpn;
        let mad = connection.mad(*req);
        // The application's own time codes.
        connection.send_repeatedly(now, mad, (interval, Duration::MAX), out);
        connection
    }

    /// The called side; the application is asked within `decision_time`.
    pub(crate) fn called(
        now: Time,
        us: &Identity,
        peer: IpAddr,
        (id, tid): (CommId, u64),
        req: &Req,
        decision_time: Duration,
    ) -> Connection {
        let mut connection = Connection::new(us, peer, (id, tid), req, false);
        connection.remote_id = req.local_comm_id;
        connection.remote_qpn = req.local_qpn;
        connection.asked_at = now;
        connection.deadline = Some(now.saturating_add(decision_time));
        connection
    }

    fn new(
        us: &Identity,
        peer: IpAddr,
        (id, tid): (CommId, u64),
        req: &Req,
        caller: bool,
    ) -> Connection {
        Connection {
            id,
            us: *us,
            peer,
            state: if caller { State::ReqSent } else { State::ReqReceived },
            caller,
            tid,
            req: *req,
            local_qpn: Qpn::new(0),
            remote_id: CommId::NONE,
            remote_qpn: Qpn::new(0),
            ack_timeout: req.primary.ack_timeout,
            mtu_of_peer: None,
            own_ack_timeout: None,
            retry: None,
            deadline: None,
            asked_at: Time::ZERO,
            patience_asked: false,
            check: None,
            rtu: None,
            confirmed: false,
            end_told: false,
            released: false,
        }
    }

    pub(crate) fn set_ack_timeout(&mut self, ack_timeout: Option<u8>) {
        self.own_ack_timeout = ack_timeout;
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    pub(crate) fn req(&self) -> &Req {
        &self.req
    }

    /// The peer's name for the connection and its queue pair, once known.
    pub(crate) fn remote(&self) -> Option<(CommId, Qpn)> {
        (self.remote_id != CommId::NONE).then_some((self.remote_id, self.remote_qpn))
    }

    /// The queue pair of the peer, which no other connection can have.
    pub(crate) fn held_qpn(&self) -> Option<Qpn> {
        self.confirmed.then_some(self.remote_qpn)
    }

    pub(crate) fn remote_id(&self) -> CommId {
        self.remote_id
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// The peer has not shown yet that it hears us.
    pub(crate) fn is_half_open(&self) -> bool {
        matches!(self.state, State::ReqReceived | State::RepSent)
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released
    }

    fn traffic_class(&self) -> u8 {
        self.req.primary.traffic_class
    }

    fn mad(&self, message: impl Into<Message>) -> Mad {
        Mad { tid: self.tid, message: message.into() }
    }

    fn send(&self, message: impl Into<Message>, out: &mut Outbox) {
        out.send_as(self.peer, self.traffic_class(), &self.mad(message));
    }

    fn tell(&self, event: Event, out: &mut Outbox) {
        if !self.released {
            out.event(event);
        }
    }

    /// The connection ended; said once, however it ended. `unanswered`: the peer has answered no DREQ.
    fn tell_end(&mut self, unanswered: bool, private_data: &[u8], out: &mut Outbox) {
        if !std::mem::replace(&mut self.end_told, true) {
            let (id, private_data) = (self.id, private_data.into());
            self.tell(Event::Disconnected { id, unanswered, private_data }, out);
        }
    }

    fn must_be(&self, states: &[State], need: &'static str) -> Result<(), CmError> {
        if states.contains(&self.state) {
            return Ok(());
        }
        Err(CmError::WrongState { id: self.id, state: self.state.name(), need })
    }

    fn enter(&mut self, state: State) {
        debug_assert!(self.state != State::Closed, "a closed connection does nothing");
        self.state = state;
        self.retry = None;
        self.deadline = None;
        self.patience_asked = false;
    }

    fn enter_timewait(&mut self, now: Time) {
        self.enter(State::Timewait);
        if mutated("timewait-skipped") {
            return self.enter(State::Closed);
        }
        let longest = if self.confirmed { LONGEST_TIMEWAIT } else { LONGEST_UNCONFIRMED_TIMEWAIT };
        let time = response_time(self.ack_timeout).min(longest);
        self.deadline = Some(now.saturating_add(time));
    }

    /// Serves the timer if it is due. `may_send`: the peer may get a message that it did not ask for.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Time,
        own_tid: u64,
        may_send: bool,
        out: &mut Outbox,
    ) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        if self.send_again(now, may_send, out) {
            return;
        }
        match self.state {
            State::ReqSent | State::ReqReceived | State::RepSent => {
                self.give_up(now, may_send, out);
            }
            State::DreqSent => {
                self.tell_end(true, &[], out);
                self.enter_timewait(now);
            }
            State::Timewait => self.close_silently(out),
            State::Established => self.check_again(now, own_tid, out),
            State::RepReceived | State::Closed => self.deadline = None,
        }
    }

    /// Its TIMEWAIT is over, or another caller needs the room. The peer's address may be forged: it hears nothing.
    pub(crate) fn close_silently(&mut self, out: &mut Outbox) {
        let event = match self.state {
            State::Timewait => Event::TimewaitExit { id: self.id },
            _ => Event::TimedOut { id: self.id },
        };
        self.tell(event, out);
        self.enter(State::Closed);
    }

    /// No answer came: the peer is told, in case it hears us after all.
    fn give_up(&mut self, now: Time, may_send: bool, out: &mut Outbox) {
        if may_send {
            self.refuse(crate::RejReason::TIMEOUT, Default::default(), out);
        }
        self.tell(Event::TimedOut { id: self.id }, out);
        match self.state {
            State::RepSent => self.enter_timewait(now),
            _ => self.enter(State::Closed),
        }
    }
}
