//! Two connection managers, a wire between them, and a clock that jumps from deadline to deadline.

pub mod flood;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use uroce_cm::message::{Message, Req};
use uroce_cm::*;
use uroce_wire::{DropReason, Psn, Qpn};

pub const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub const C: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));
pub const SERVICE: ServiceId = ServiceId::new(PortSpace::Tcp, 7174);
pub const UDP_SERVICE: ServiceId = ServiceId::new(PortSpace::Udp, 7174);
pub const CALLER_QPN: Qpn = Qpn::new(0x111);
pub const CALLED_QPN: Qpn = Qpn::new(0x222);

/// A connection manager with what it has said so far.
pub struct End {
    pub cm: Cm,
    pub events: VecDeque<Event>,
    pub drops: Vec<DropReason>,
}

impl End {
    pub fn new(address: IpAddr, limits: CmLimits, seed: u8) -> End {
        let guid = 0x0200_00ff_fe00_0000 + u64::from(seed);
        let us = Identity { address, guid, ack_delay: 15, active_mtu: 3, slot: None };
        End { cm: Cm::new(us, limits, [seed; 32]), events: VecDeque::new(), drops: vec![] }
    }

    pub fn receive(&mut self, now: Time, from: IpAddr, bytes: &[u8]) {
        self.drops.extend(self.cm.handle_mad(now, from, bytes).err());
        self.collect();
    }

    pub fn collect(&mut self) {
        while let Some(event) = self.cm.poll_event() {
            self.events.push_back(event);
        }
    }

    pub fn event(&mut self) -> Event {
        self.collect();
        self.events.pop_front().expect("an event")
    }

    /// The only drop since the last call.
    pub fn drop_reason(&mut self) -> DropReason {
        match std::mem::take(&mut self.drops)[..] {
            [reason] => reason,
            ref other => panic!("one drop expected, not {other:?}"),
        }
    }

    pub fn quiet(&mut self) {
        self.collect();
        assert_eq!(self.events, [], "no event expected");
        assert_eq!(self.drops, [], "no drop expected");
    }
}

/// What sits at A (the caller, usually) and at B, and what is on its way.
pub struct World {
    pub now: Time,
    pub a: End,
    pub b: End,
}

pub fn call() -> Call {
    Call { source_port: 45_717, ..Call::new(B, SERVICE, CALLER_QPN, Psn::new(0xaaa)) }
}

pub fn acceptance() -> Acceptance {
    Acceptance::new(CALLED_QPN, Psn::new(0xbbb))
}

impl World {
    pub fn new() -> World {
        Self::with_limits(CmLimits::default())
    }

    pub fn with_limits(limits: CmLimits) -> World {
        let now = Duration::from_secs(1_000);
        World { now, a: End::new(A, limits, 1), b: End::new(B, limits, 2) }
    }

    /// What A has to send.
    pub fn sent_by_a(&mut self) -> Vec<Outgoing> {
        std::iter::from_fn(|| self.a.cm.poll_transmit()).collect()
    }

    /// What B has to send.
    pub fn sent_by_b(&mut self) -> Vec<Outgoing> {
        std::iter::from_fn(|| self.b.cm.poll_transmit()).collect()
    }

    pub fn arrive_at_a(&mut self, mads: &[Outgoing]) {
        for mad in mads {
            assert_eq!(mad.peer, A);
            self.a.receive(self.now, B, &mad.bytes);
        }
    }

    pub fn arrive_at_b(&mut self, mads: &[Outgoing]) {
        for mad in mads {
            assert_eq!(mad.peer, B);
            self.b.receive(self.now, A, &mad.bytes);
        }
    }

    /// Delivers everything until nobody has anything to send.
    pub fn exchange(&mut self) {
        for _ in 0..100 {
            let (a, b) = (self.sent_by_a(), self.sent_by_b());
            if a.is_empty() && b.is_empty() {
                return;
            }
            self.arrive_at_b(&a);
            self.arrive_at_a(&b);
        }
        panic!("the two never stop talking");
    }

    /// Lets time pass, deadline by deadline, while nothing on the wire arrives. Returns what A
    /// and B sent meanwhile.
    pub fn pass(&mut self, time: Duration) -> (Vec<Outgoing>, Vec<Outgoing>) {
        let until = self.now + time;
        let (mut a, mut b) = (vec![], vec![]);
        while let Some(at) = self.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.fire();
            a.extend(self.sent_by_a());
            b.extend(self.sent_by_b());
        }
        self.now = until;
        (a, b)
    }

    pub fn next_deadline(&self) -> Option<Time> {
        let ends = [&self.a.cm, &self.b.cm];
        for cm in ends {
            assert!(!cm.is_idle() || cm.poll_timeout().is_none(), "idle, with a deadline");
        }
        ends.iter().filter_map(|cm| cm.poll_timeout()).min()
    }

    pub fn fire(&mut self) {
        self.a.cm.handle_timeout(self.now);
        self.b.cm.handle_timeout(self.now);
        self.a.collect();
        self.b.collect();
    }

    /// B listens, A calls. Returns A's id.
    pub fn call(&mut self) -> CommId {
        self.b.cm.listen(self.now, SERVICE, 8).expect("the port is free");
        self.a.cm.connect(self.now, &call()).expect("a call")
    }

    /// The request has arrived. Returns both ids.
    pub fn ring(&mut self) -> (CommId, CommId) {
        let a = self.call();
        self.exchange();
        (a, self.request().0)
    }

    pub fn request(&mut self) -> (CommId, Box<ConnectionRequest>) {
        match self.b.event() {
            Event::Request { id, request } => (id, request),
            other => panic!("a request expected, not {other:?}"),
        }
    }

    /// The reply has arrived at A. Returns both ids and the caller's link.
    pub fn reply(&mut self) -> (CommId, CommId, Link) {
        let (a, b) = self.ring();
        self.b.cm.accept(self.now, b, &acceptance()).expect("accepted");
        self.exchange();
        let Event::Reply { id, link, .. } = self.a.event() else { panic!("a reply") };
        assert_eq!(id, a);
        (a, b, link)
    }

    /// Both stand.
    pub fn connected(&mut self) -> (CommId, CommId) {
        let (a, b, _) = self.reply();
        self.a.cm.establish(a, &[]).expect("established");
        self.exchange();
        assert!(matches!(self.b.event(), Event::Established { id, .. } if id == b));
        self.a.quiet();
        self.b.quiet();
        (a, b)
    }

    pub fn nothing_is_left(&self) {
        for end in [&self.a, &self.b] {
            assert!(end.cm.is_empty(), "{} connections are left", end.cm.len());
            assert_eq!((end.cm.half_open(), end.cm.poll_timeout()), (0, None));
            assert!(end.cm.is_idle());
        }
    }
}

pub fn message(mad: &Outgoing) -> Message {
    Mad::parse(&mad.bytes).expect("what we send is a MAD").message
}

pub fn names(mads: &[Outgoing]) -> Vec<&'static str> {
    mads.iter().map(|mad| message(mad).name()).collect()
}

pub fn tid(mad: &Outgoing) -> u64 {
    Mad::parse(&mad.bytes).expect("what we send is a MAD").tid
}

/// The REQ that A would send, to be changed.
pub fn req(change: impl FnOnce(&mut Req)) -> [u8; MAD_LEN] {
    let mut world = World::new();
    world.call();
    let Message::Req(mut req) = message(&world.sent_by_a()[0]) else { panic!("a REQ") };
    change(&mut req);
    Mad { tid: 77, message: req.into() }.emit()
}
