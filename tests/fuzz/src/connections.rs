//! Connection management at work: two ends, and a wire that loses, repeats and changes what they say.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use uroce_cm::{
    Acceptance, Answer, Call, Cm, CmLimits, CommId, Event, Identity, MAD_LEN, Outgoing, PortSpace,
    Question, RejReason, ServiceId, SidrStatus,
};
use uroce_wire::{Psn, Qpn};

use crate::input::Input;

const SERVICES: [ServiceId; 2] =
    [ServiceId::new(PortSpace::Tcp, 7174), ServiceId::new(PortSpace::Udp, 7174)];
/// Connections that an end may have.
const MOST_CONNECTIONS: usize = 8;
/// Connections of those that are not established.
const MOST_HALF_OPEN: usize = 4;
/// Steps of a run.
const MOST_STEPS: usize = 400;
/// What an end may have to say after one step: each connection a few messages, and answers to strangers.
const MOST_SAID: usize = 1000;
/// MADs that the wire holds; the oldest is lost first.
const WIRE: usize = 64;

struct End {
    address: IpAddr,
    cm: Cm,
    ids: Vec<CommId>,
}

impl End {
    fn new(last: u8) -> Self {
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let guid = 0x0200_00ff_fe00_0000 + u64::from(last);
        let us = Identity { address, guid, ack_delay: 15, active_mtu: 3, slot: None };
        let limits = CmLimits {
            max_connections: MOST_CONNECTIONS,
            max_half_open: MOST_HALF_OPEN,
            max_half_open_per_source: 3,
            ..CmLimits::default()
        };
        let mut cm = Cm::new(us, limits, [last; 32]);
        for service in SERVICES {
            cm.listen(Duration::ZERO, service, 2).expect("nobody else listens");
        }
        Self { address, cm, ids: Vec::new() }
    }

    /// One of the ids that this end has given out or heard of.
    fn id(&self, number: u8) -> CommId {
        match self.ids.len() {
            0 => CommId(number.into()),
            length => self.ids[usize::from(number) % length],
        }
    }

    /// Remembers what the end is told, so that later steps can answer.
    fn collect(&mut self) {
        for _ in 0..MOST_SAID {
            let Some(event) = self.cm.poll_event() else { return };
            if let Event::Request { id, .. } | Event::Query { id, .. } | Event::Reply { id, .. } =
                event
            {
                self.ids.push(id);
            }
        }
        panic!("events without end");
    }
}

struct World<'a> {
    input: Input<'a>,
    now: Duration,
    ends: [End; 2],
    wire: VecDeque<(IpAddr, Outgoing)>,
}

/// Lets two ends call, answer, refuse and leave each other in any order, while the wire does what it wants.
pub(crate) fn run(bytes: &[u8]) {
    let ends = [End::new(1), End::new(2)];
    let (input, wire) = (Input::new(bytes), VecDeque::new());
    let mut world = World { input, now: Duration::from_secs(1000), ends, wire };
    for _ in 0..MOST_STEPS {
        if world.input.is_empty() {
            break;
        }
        world.step();
        world.carry();
    }
    world.silence();
}

impl World<'_> {
    fn step(&mut self) {
        match self.input.below(16) {
            0..4 => self.deliver(),
            4 => drop(self.wire.pop_front()),
            5 => self.repeat(),
            6 | 7 => self.change(),
            8 => self.forge(),
            9 => self.wait(),
            _ => self.command(),
        }
    }

    /// What an application does. Each refusal is right: the ids are any that were ever given out.
    fn command(&mut self) {
        let side = usize::from(self.input.bool());
        let (other, now) = (self.ends[1 - side].address, self.now);
        let number = self.input.u8();
        let end = &mut self.ends[side];
        let id = end.id(number);
        match self.input.below(9) {
            0 => {
                let call = Call {
                    max_retries: number & 15,
                    response_timeout: number >> 3,
                    private_data: self.input.piece().to_vec(),
                    ..Call::new(other, SERVICES[0], Qpn::new(0x11), Psn::new(number.into()))
                };
                end.ids.extend(end.cm.connect(now, &call));
            }
            1 => {
                let question = Question {
                    private_data: self.input.piece().to_vec(),
                    ..Question::new(other, SERVICES[1])
                };
                end.ids.extend(end.cm.resolve(now, &question));
            }
            2 => drop(end.cm.accept(now, id, &Acceptance::new(Qpn::new(0x22), Psn::new(5)))),
            3 => drop(end.cm.reject(now, id, RejReason(number.into()), self.input.piece())),
            4 => drop(end.cm.establish(id, self.input.piece())),
            5 => drop(end.cm.disconnect(now, id, self.input.piece())),
            6 => drop(end.cm.answer(now, id, &Answer::refusal(SidrStatus(number)))),
            7 => end.cm.handle_comm_est(id),
            _ => end.cm.release(now, id),
        }
    }

    fn deliver(&mut self) {
        if let Some((from, mad)) = self.wire.pop_front() {
            self.give(from, mad.peer, &mad.bytes);
        }
    }

    fn give(&mut self, from: IpAddr, to: IpAddr, bytes: &[u8]) {
        if let Some(end) = self.ends.iter_mut().find(|end| end.address == to) {
            // Whatever the reason, a MAD that is not taken has one.
            let _ = end.cm.handle_mad(self.now, from, bytes);
        }
    }

    fn repeat(&mut self) {
        if let Some(first) = self.wire.front() {
            self.wire.push_back(*first);
        }
    }

    /// A few bytes of a message on its way become others.
    fn change(&mut self) {
        let (at, by) = (self.input.u8(), self.input.u8());
        if let Some((_, mad)) = self.wire.front_mut() {
            mad.bytes[usize::from(at)] ^= by;
        }
    }

    /// A message from nobody, of any attribute, with an id that may be right.
    fn forge(&mut self) {
        let to = usize::from(self.input.bool());
        let mut bytes = [0; MAD_LEN];
        (bytes[0], bytes[1], bytes[2], bytes[3]) = (1, 7, 2, 3);
        bytes[17] = 0x10 + self.input.below(16);
        let body = self.input.piece();
        let length = body.len().min(MAD_LEN - 24);
        bytes[24..24 + length].copy_from_slice(&body[..length]);
        let id = self.ends[to].id(self.input.u8());
        if self.input.bool() {
            bytes[28..32].copy_from_slice(&id.0.to_be_bytes());
        }
        let from = if self.input.bool() { self.ends[1 - to].address } else { [10, 0, 0, 9].into() };
        self.give(from, self.ends[to].address, &bytes);
    }

    fn wait(&mut self) {
        self.now += Duration::from_millis(u64::from(self.input.u16()));
        for end in &mut self.ends {
            end.cm.handle_timeout(self.now);
        }
    }

    /// Takes what the ends say, and looks at what they keep.
    fn carry(&mut self) {
        for end in &mut self.ends {
            end.collect();
            for _ in 0..MOST_SAID {
                let Some(mad) = end.cm.poll_transmit() else { break };
                self.wire.push_back((end.address, mad));
            }
            assert!(end.cm.poll_transmit().is_none(), "messages without end");
            // Answers to questions are kept besides: one for each step at most.
            assert!(end.cm.len() <= MOST_CONNECTIONS + MOST_STEPS);
            assert!(end.cm.half_open() <= MOST_HALF_OPEN);
        }
        while self.wire.len() > WIRE {
            self.wire.pop_front();
        }
    }

    /// Nothing arrives any more and every application leaves: in the end nothing is kept.
    fn silence(&mut self) {
        for end in &mut self.ends {
            for id in std::mem::take(&mut end.ids) {
                end.cm.release(self.now, id);
            }
            for _ in 0..10_000 {
                let Some(at) = end.cm.poll_timeout() else { break };
                self.now = self.now.max(at);
                end.cm.handle_timeout(self.now);
                while end.cm.poll_transmit().is_some() || end.cm.poll_event().is_some() {}
            }
            assert_eq!(end.cm.poll_timeout(), None, "timers without end");
            assert_eq!(end.cm.len(), 0, "what is left behind everybody");
        }
    }
}
