//! A capture played to the NIC of another machine: an agent of `uroce conform` sets up the queue pair there.

use std::time::Duration;

use uroce_conform::{
    Access, AgentLink, Card, Kind, Link as Connection, Outgoing, Piece, Receive, Reply, Request,
    State, Wire, limits,
};
use uroce_replay::{Access as Rights, Recording, Remote, ReplayError, Report};
use uroce_wire::Qpn;

use super::ReplayArgs;
use crate::cmd::conform::{AgentSession, UdpWire, token};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic;

/// Pauses of the recording that are longer are shortened to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long answers to the last requests may take.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Packets that come without end do not hold up the next request for longer.
const FLOOD: Duration = Duration::from_millis(100);
/// The agent ends a session in which nothing is asked for so long.
const ASK_AGAIN: Duration = limits::IDLE.saturating_sub(Duration::from_secs(60));
/// Receives between two looks at the completion queue: no more completions than one reply has.
const RECEIVES_A_LOOK: u32 = limits::COMPLETIONS;
/// The first queue pair number on this side.
const OWN_QPN: u32 = 0x70_0000;
/// Queue pair numbers that are used on this side.
const OWN_QPNS: u32 = 0x0f_ffff;

/// Why a conversation was not played to its end.
pub enum PlayStop {
    /// The peer is gone, or the user wants to stop: nothing more is played.
    Lost(Failure),
    /// The agent cannot set it up.
    Refused(String),
    /// The recording cannot be played.
    NotPlayable(ReplayError),
}

impl From<ReplayError> for PlayStop {
    fn from(error: ReplayError) -> Self {
        Self::NotPlayable(error)
    }
}

/// The NIC of another machine.
pub struct Peer {
    link: AgentSession,
    card: Card,
    wire: UdpWire,
    interrupt: Interrupt,
    /// Conversations played so far: each has a queue pair number of its own, so that a late packet of one is none of the next.
    count: u32,
}

/// A queue pair that is set up for a recording.
struct Connected {
    qp: u32,
    /// Where receives go; `None` if no message has a payload.
    inbox: Option<Piece>,
    /// Receives since the last look at the completion queue.
    posted: u32,
    asked_at: Duration,
}

impl Peer {
    /// Connects to the agent, and takes the RoCE port of this machine.
    ///
    /// # Errors
    /// Exit 4: no agent, or it refuses; exit 3: the port is taken, or there is no way to the agent; exit 1: Ctrl-C.
    pub fn open(to: &str, args: &ReplayArgs, global: &Global) -> Result<Self, Failure> {
        let token = token(args.token.as_ref()).ok_or_else(|| {
            Failure::usage("the agent wants a token")
                .help("--token takes what `uroce conform agent` printed when it started")
        })?;
        let interrupt = Interrupt::install();
        let (link, card) = AgentSession::open(to, token, &interrupt)?;
        let address = match global.address {
            Some(address) => address,
            None => nic::address_towards(card.address)?,
        };
        let wire = UdpWire::open(address, global.roce_port(), global.pcap.as_deref())?;
        Ok(Self { link, card, wire, interrupt, count: 0 })
    }

    /// Plays one conversation at the pace of the recording.
    ///
    /// # Errors
    /// [`PlayStop`].
    pub fn play(&mut self, recording: Recording, args: &ReplayArgs) -> Result<Report, PlayStop> {
        let mut remote = Remote::new(recording, args.skip_lost, &args.limits())?;
        let mut connected = self.connect(&mut remote)?;
        self.wire.begin("replay");
        // When the last request was sent: in the recording, and here.
        let (mut then, mut now) = (remote.next_time().unwrap_or(0), self.wire.now());
        while let Some(time) = remote.next_time() {
            let pause = Duration::from_nanos(time.saturating_sub(then)).min(LONGEST_PAUSE);
            self.listen(&mut remote, now + pause)?;
            self.send(&mut remote, &mut connected)?;
            (then, now) = (time.max(then), self.wire.now());
        }
        self.listen(&mut remote, now + LAST_ANSWERS)?;
        Ok(remote.finish(&args.options()))
    }

    /// Sends the next request.
    fn send(&mut self, remote: &mut Remote, connected: &mut Connected) -> Result<(), PlayStop> {
        let Some(request) = remote.poll_request() else { return Ok(()) };
        if request.wants_receive {
            self.post_receive(connected)?;
        }
        if self.wire.now().saturating_sub(connected.asked_at) > ASK_AGAIN {
            self.ask(&Request::Query { qp: connected.qp })?;
            connected.asked_at = self.wire.now();
        }
        let outgoing = Outgoing {
            to: self.card.address,
            source_port: request.source_port,
            traffic_class: request.traffic_class,
            covered: &request.covered,
            damage: |icrc, _| icrc,
        };
        self.wire.send(&outgoing).map_err(|error| PlayStop::Lost(Failure::environment(error)))?;
        Ok(())
    }

    /// Takes answers in until `end`, and those that wait then.
    fn listen(&mut self, remote: &mut Remote, end: Duration) -> Result<(), PlayStop> {
        loop {
            let left = end.saturating_sub(self.wire.now());
            let came = self.wire.receive(left);
            let came = came.map_err(|error| PlayStop::Lost(Failure::environment(error)))?;
            let now = self.wire.now();
            let is_over = match &came {
                None => now >= end,
                Some(_) => now >= end + FLOOD,
            };
            let peer = self.card.address;
            if let Some(packet) = came.filter(|came| came.from == peer && came.icrc_ok) {
                remote.handle_packet(&packet.bytes)?;
            }
            if self.interrupt.is_set() {
                // Half of a conversation is no reason to judge the peer.
                return Err(PlayStop::Lost(Failure::interrupted()));
            }
            if is_over {
                return Ok(());
            }
        }
    }

    fn connect(&mut self, remote: &mut Remote) -> Result<Connected, PlayStop> {
        self.ask(&Request::Clear)?;
        let mtu = remote.setup().path_mtu.code();
        if mtu > self.card.mtu {
            let bytes = remote.setup().path_mtu.bytes();
            return Err(PlayStop::Refused(format!(
                "its path MTU is {bytes}, more than the peer's link has"
            )));
        }
        for region in remote.setup().regions.clone() {
            let (_, va, rkey) = self.register(region.length, access(region.access))?;
            remote.place(region.rkey, va, rkey);
        }
        let setup = remote.setup();
        let longest = setup.longest_message;
        let inbox = match longest {
            0 => None,
            _ => {
                let (region, ..) = self.register(longest, Access::WRITE)?;
                Some(Piece { region, offset: 0, length: longest as u32, lkey: None })
            }
        };
        self.count = self.count.wrapping_add(1);
        let own_qpn = Qpn::new(OWN_QPN | (std::process::id().wrapping_add(self.count) & OWN_QPNS));
        let connection = Connection {
            address: self.wire.address(),
            qpn: own_qpn.get(),
            mtu,
            rq_psn: setup.first_psn.get(),
            sq_psn: 0,
            access: access(setup.access),
            min_rnr_timer: setup.rnr_timer,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            max_rd_atomic: 1,
            max_dest_rd_atomic: self.card.max_dest_rd_atomic,
            qkey: 0,
        };
        let (qp, qpn) = self.queue_pair()?;
        self.ask(&Request::Connect { qp, link: connection, until: State::Rtr })?;
        remote.connect(Qpn::new(qpn), own_qpn);
        Ok(Connected { qp, inbox, posted: 0, asked_at: self.wire.now() })
    }

    fn queue_pair(&mut self) -> Result<(u32, u32), PlayStop> {
        let recv_wr = 2 * RECEIVES_A_LOOK;
        let kind = Kind::Rc;
        let (send_wr, shared, extended) = (1, None, false);
        let request = Request::QueuePair { kind, domain: 0, send_wr, recv_wr, shared, extended };
        match self.ask(&request)? {
            Reply::QueuePair { qp, qpn } => Ok((qp, qpn)),
            other => Err(nonsense(&other)),
        }
    }

    /// Number, address and key of a new region.
    fn register(&mut self, length: u64, access: Access) -> Result<(u32, u64, u32), PlayStop> {
        let Ok(length) = u32::try_from(length) else {
            return Err(PlayStop::Refused(format!("it needs {length} bytes under one key")));
        };
        match self.ask(&Request::Region { domain: 0, length, access })? {
            Reply::Region { region, va, rkey, .. } => Ok((region, va, rkey)),
            other => Err(nonsense(&other)),
        }
    }

    fn post_receive(&mut self, connected: &mut Connected) -> Result<(), PlayStop> {
        let qp = connected.qp;
        let pieces = connected.inbox.iter().cloned().collect();
        let receives = vec![Receive { wr_id: 0, pieces }];
        self.ask(&Request::Receive { qp, receives })?;
        connected.posted += 1;
        if connected.posted == RECEIVES_A_LOOK {
            connected.posted = 0;
            self.ask(&Request::Poll { qp, count: RECEIVES_A_LOOK, wait_ms: 0 })?;
        }
        connected.asked_at = self.wire.now();
        Ok(())
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, PlayStop> {
        match self.link.call(request, &mut || ()) {
            Ok(Reply::Refused { why }) => {
                Err(PlayStop::Refused(format!("the agent refused: {why}")))
            }
            Ok(reply) => Ok(reply),
            Err(error) => Err(PlayStop::Lost(Failure::peer(error))),
        }
    }
}

fn nonsense(reply: &Reply) -> PlayStop {
    PlayStop::Lost(Failure::peer(format!(
        "the agent answered something else than it was asked: {reply:?}"
    )))
}

fn access(rights: Rights) -> Access {
    Access {
        read: rights.contains(Rights::REMOTE_READ),
        write: rights.contains(Rights::REMOTE_WRITE),
        atomic: rights.contains(Rights::REMOTE_ATOMIC),
        flush: rights.contains(Rights::FLUSH_GLOBAL),
        ..Access::NONE
    }
}
