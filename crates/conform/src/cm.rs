//! Connection management, played by hand: the tester's QP 1 on the wire, and the program's librdmacm beside the NIC
//! under test.

mod call;
mod called;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

pub use call::{Call, Connection};
pub use called::Called;
pub(crate) use called::PRIVATE;
use uroce_cm::message::{Message, Path};
use uroce_cm::{CommId, GSI_QKEY, IpCm, Mad, PortSpace, PrivateData, ServiceId};
use uroce_wire::{Deth, Gid, Opcode, Psn, Qpn};

use crate::agent_link::wrong_reply;
use crate::verdict::{check, fail};
use crate::{Bench, Came, CmEvent, CmRequest, CmSpace, Packet, Reply, Request, Stop};

/// Source port of QP 1.
const SOURCE_PORT: u16 = 0xd872;

/// The connection manager of the NIC under test, seen from the tester's QP 1.
#[derive(Clone, Copy)]
pub struct Cm<'b, 'r> {
    pub(crate) bench: &'b Bench<'r>,
}

impl<'r> Bench<'r> {
    /// Connection management.
    ///
    /// # Errors
    /// The machine under test has none: the case is not applicable.
    pub fn cm(&self) -> Result<Cm<'_, 'r>, Stop> {
        match &self.card().no_cm {
            Some(why) => Err(Stop::NotApplicable(format!("no connection management: {why}"))),
            None => Ok(Cm { bench: self }),
        }
    }
}

impl<'b, 'r> Cm<'b, 'r> {
    /// The program listens; returns the port.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn listen(&self, space: CmSpace) -> Result<u16, Stop> {
        match self.ask(CmRequest::Listen { space })? {
            Reply::CmId { id: _, port } => Ok(port),
            other => wrong_reply(other),
        }
    }

    /// A call of the tester to a port.
    pub fn call(&self, port: u16) -> Call<'b, 'r> {
        Call::new(*self, port)
    }

    /// A program that listens, and a call of the tester to it.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn call_a_listener(&self) -> Result<Call<'b, 'r>, Stop> {
        Ok(self.call(self.listen(CmSpace::Tcp)?))
    }

    /// A program that listens, and a call of the tester to another port, which has no listener.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn call_nobody(&self) -> Result<Call<'b, 'r>, Stop> {
        self.listen(CmSpace::Tcp)?;
        Ok(self.call(FREE_PORT))
    }

    /// The program calls the tester; its REQ came.
    ///
    /// # Errors
    /// It does not come, or the agent cannot.
    pub fn called(&self) -> Result<Called<'b, 'r>, Stop> {
        Called::new(*self)
    }

    /// Asks the program.
    ///
    /// # Errors
    /// The agent cannot.
    pub fn ask(&self, what: CmRequest) -> Result<Reply, Stop> {
        self.bench.ask(&Request::Cm { what })
    }

    fn events(&self, wait: Duration) -> Result<Vec<CmEvent>, Stop> {
        match self.ask(CmRequest::Events { wait_ms: wait.as_millis() as u32 })? {
            Reply::CmEvents { events } => Ok(events),
            other => wrong_reply(other),
        }
    }

    /// The next event of the program, if one comes within `wait`. Events behind it are lost.
    ///
    /// # Errors
    /// The agent cannot say.
    pub fn event_within(&self, wait: Duration) -> Result<Option<CmEvent>, Stop> {
        Ok(self.events(wait)?.into_iter().next())
    }

    /// The next event of the program, which must be this one.
    ///
    /// # Errors
    /// It is not, or none comes.
    pub fn event(&self, kind: u32) -> Result<CmEvent, Stop> {
        let mut events = self.events(self.bench.patience.answer)?.into_iter();
        match (events.next(), events.next()) {
            (Some(event), None) if event.kind == kind => Ok(event),
            (None, _) => fail(format!("the program expected event {kind}; none came")),
            (Some(event), more) => {
                fail(format!("the program expected event {kind}, got {event:?} {more:?}"))
            }
        }
    }

    /// When nothing counts as silence. The peer's own timers must not end it: they send again what is not confirmed, and tell
    /// the program when TIMEWAIT is over.
    pub fn silence(&self) -> Duration {
        self.bench.patience.silence.min(LONGEST_SILENCE)
    }

    /// The program sees nothing.
    ///
    /// # Errors
    /// It does.
    pub fn no_event(&self) -> Result<(), Stop> {
        match self.event_within(self.silence())? {
            None => Ok(()),
            Some(event) => fail(format!("the program expected no event, got {event:?}")),
        }
    }

    /// A MAD from QP 1 to QP 1, right in every respect.
    pub fn packet(&self, tid: u64, message: impl Into<Message>) -> Packet {
        self.bytes(&Mad { tid, message: message.into() }.emit())
    }

    /// A packet from QP 1 to QP 1 with these bytes.
    pub fn bytes(&self, mad: &[u8]) -> Packet {
        let gsi = Qpn::GSI.get();
        let packet = Packet::new(Opcode::UD_SEND_ONLY, gsi, Psn::new(0), mad.to_vec());
        let deth = Some(Deth { qkey: GSI_QKEY, src_qpn: Qpn::GSI });
        Packet { deth, ..packet.source_port(SOURCE_PORT) }
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn tx(&self, packet: &Packet) -> Result<(), Stop> {
        self.bench.player.borrow_mut().send(packet)
    }

    /// Sends a packet when the case is over: the peer's connection manager shall not wait for the tester then.
    pub(crate) fn at_the_end(&self, packet: Packet) {
        self.bench.at_the_end.borrow_mut().push(packet);
    }

    /// The next MAD for QP `qpn` that `ours` takes, if one comes within `wait`. Others belong to what earlier cases left.
    ///
    /// # Errors
    /// What came is no MAD.
    pub fn mad_within(
        &self,
        qpn: Qpn,
        wait: Duration,
        ours: impl Fn(&Message) -> bool,
    ) -> Result<Option<Mad>, Stop> {
        let now = || self.bench.player.borrow().now();
        let end = now() + wait;
        loop {
            let left = end.saturating_sub(now());
            let seen = self.bench.player.borrow_mut().receive(qpn.get(), left)?;
            let Some(seen) = seen else { return Ok(None) };
            let mad = mad_of(&Came::read(seen, Psn::new(0), Psn::new(0))?)?;
            if ours(&mad.message) {
                return Ok(Some(mad));
            }
        }
    }

    /// A number that no other run and no other call of this one has had lately, never 0.
    pub(crate) fn fresh(&self) -> u32 {
        let whole = u64::from(self.bench.run) << 32 | u64::from(self.bench.number());
        let mixed = (whole ^ whole >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29) as u32).max(1)
    }

    /// A queue pair number of the tester that no other run has had lately.
    pub(crate) fn fresh_qpn(&self) -> Qpn {
        Qpn::new(0x20_0000 | self.fresh() & 0x1f_ffff)
    }

    pub(crate) fn own_address(&self) -> IpAddr {
        self.bench.player.borrow().address()
    }

    /// Private data behind the header of rdma_cm, as a call of the tester has it.
    pub fn private<const N: usize>(&self, data: &[u8]) -> PrivateData<N> {
        let (source, destination) = (self.own_address(), self.bench.card().address);
        let header = IpCm { source_port: OWN_PORT, source, destination }.write();
        // Cases know how much there is room for.
        PrivateData::new(&[&header, data].concat()).unwrap_or_default()
    }

    /// The path of a call of the tester.
    pub(crate) fn path(&self) -> Path {
        Path {
            local_lid: 0xffff,
            remote_lid: 0xffff,
            local_gid: Gid::from_ip(self.own_address()),
            remote_gid: Gid::from_ip(self.bench.card().address),
            hop_limit: 64,
            ack_timeout: ACK_TIMEOUT,
            ..Path::default()
        }
    }
}

/// A port that no program uses for RDMA: that of the discard protocol.
const FREE_PORT: u16 = 9;
/// The port that the tester calls from.
const OWN_PORT: u16 = 40_000;
/// ACK timeout code of the tester's calls: 1 s. A connection is in TIMEWAIT for about as long.
const ACK_TIMEOUT: u8 = 18;
/// Well below that.
const LONGEST_SILENCE: Duration = Duration::from_millis(250);

/// A service of connections.
pub(crate) fn service(port: u16) -> ServiceId {
    ServiceId::new(PortSpace::Tcp, port)
}

/// Which connection a message is for, by the receiver's name for the connection.
pub(crate) fn names(message: &Message, id: CommId) -> bool {
    let named = match message {
        Message::Rep(rep) => rep.remote_comm_id,
        Message::Rej(rej) => rej.remote_comm_id,
        Message::Mra(mra) => mra.remote_comm_id,
        Message::Rtu(rtu) => rtu.remote_comm_id,
        Message::Dreq(dreq) => dreq.remote_comm_id,
        Message::Drep(drep) => drep.remote_comm_id,
        Message::Lap(lap) => lap.remote_comm_id,
        Message::Apr(apr) => apr.remote_comm_id,
        Message::SidrRep(rep) => CommId(rep.request_id),
        Message::Req(_) | Message::SidrReq(_) => return false,
    };
    named == id
}

/// Reads a MAD; its sender keeps the rules of QP 1.
fn mad_of(came: &Came) -> Result<Mad, Stop> {
    let keys = came.deth().map(|deth| (deth.qkey, deth.src_qpn));
    let right = came.opcode() == Opcode::UD_SEND_ONLY && keys == Some((GSI_QKEY, Qpn::GSI));
    check(right, || format!("expected a MAD from QP 1 with its Q_Key, got {came}"))?;
    Mad::parse(&came.payload()).map_err(|error| {
        Stop::Fail(format!("{came} is no message of connection management: {error}"))
    })
}
