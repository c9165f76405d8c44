//! A wire and an agent for tests: time passes only where the code under test waits.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use uroce_wire::Opcode;

use crate::{
    AgentError, AgentLink, Card, CmEvent, CmRequest, Extensions, FrameEnds, Hex, Incoming,
    Outgoing, Packet, Reply, Request, State, Wire, WireError, pattern,
};

/// The address of the peer.
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// What there is to test: a device that can do everything.
pub(crate) fn card() -> Card {
    Card {
        extensions: Extensions {
            atomics_with_cpu: true,
            windows: true,
            invalidate: true,
            xrc: true,
            flush: true,
            persist: true,
            atomic_write: true,
        },
        ..Card::new("fake", PEER)
    }
}

/// Makes the answer to a packet.
type AnswerFn = fn(&[u8]) -> Option<Incoming>;

/// A wire on which nothing comes but what a test puts there.
#[derive(Default)]
pub(crate) struct FakeWire {
    pub(crate) now: Duration,
    /// What comes, one packet after the other.
    pub(crate) coming: VecDeque<Incoming>,
    /// What comes upon a packet of the tester.
    pub(crate) answer: Option<AnswerFn>,
    /// This packet comes for ever, whenever nothing else does.
    pub(crate) flood: Option<Incoming>,
    /// The tester cannot send frames.
    pub(crate) no_frames: bool,
    /// So many packets find no room whenever the counter is read.
    pub(crate) overflows_each: u64,
    pub(crate) overflows: Cell<u64>,
}

impl Wire for FakeWire {
    fn address(&self) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, 2).into()
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn overflows(&self) -> u64 {
        self.overflows.replace(self.overflows.get() + self.overflows_each)
    }

    fn send(&mut self, packet: &Outgoing<'_>) -> Result<Vec<u8>, WireError> {
        let sent = [packet.covered, &[0; 4]].concat();
        self.coming.extend(self.answer.and_then(|answer| answer(&sent)));
        Ok(sent)
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Incoming>, WireError> {
        let next = self.coming.pop_front().or_else(|| self.flood.clone());
        self.now += if next.is_some() { Duration::from_millis(1) } else { wait };
        Ok(next)
    }

    fn frame_ends(&mut self, _to: IpAddr) -> Result<FrameEnds, WireError> {
        match self.no_frames {
            true => Err(WireError("no right".to_owned())),
            false => Ok(FrameEnds { source: [2; 6], destination: [4; 6], udp_port: 4791 }),
        }
    }

    fn send_frame(&mut self, frame: &[u8]) -> Result<(), WireError> {
        // Neither tags nor options: the answers of tests look at PSNs only.
        let payload = frame.get(42..).unwrap_or_default();
        self.coming.extend(self.answer.and_then(|answer| answer(payload)));
        Ok(())
    }
}

/// A packet of the peer to a queue pair of the tester.
pub(crate) fn incoming(opcode: Opcode, qpn: u32) -> Incoming {
    let packet = Packet::new(opcode, qpn, uroce_wire::Psn::new(0), vec![0; 16]);
    let bytes = [packet.covered(), vec![0; 4]].concat();
    Incoming { from: PEER, source_port: 49152, traffic_class: 0, bytes, icrc_ok: true }
}

/// An agent that does as it is told, beside a device that does nothing.
#[derive(Default)]
pub(crate) struct FakeAgent {
    pub(crate) made: u32,
    /// Queue pair numbers of the tester, in the order in which they were used.
    pub(crate) numbers: Vec<u32>,
    /// Events of connection management, each the answer to one question.
    pub(crate) cm_events: VecDeque<CmEvent>,
    /// Queue pairs are in ERR, and not in RTS.
    pub(crate) failed: bool,
    /// What it answers when it is asked for counters, each once; then it has none.
    pub(crate) counters: VecDeque<Reply>,
    /// It answers with fewer bytes of memory than it was asked for.
    pub(crate) forgets_memory: bool,
    /// So often it keeps the tester waiting before each answer.
    pub(crate) waits: u32,
}

impl AgentLink for FakeAgent {
    fn call(&mut self, request: &Request, waiting: &mut dyn FnMut()) -> Result<Reply, AgentError> {
        (0..self.waits).for_each(|_| waiting());
        self.made += 1;
        let number = self.made;
        Ok(match request {
            Request::Region { .. } => {
                Reply::Region { region: number, va: 0, lkey: number, rkey: number << 8 }
            }
            Request::QueuePair { .. } => Reply::QueuePair { qp: number, qpn: number },
            Request::SharedQueue { .. } => Reply::Shared { shared: number },
            Request::XrcQueue { .. } => Reply::XrcQueue { shared: number, number },
            Request::Window { .. } | Request::Bind { .. } => {
                Reply::Window { window: number, rkey: number << 8 }
            }
            Request::StopAdding => Reply::Added { count: 0 },
            Request::Query { .. } if self.failed => Reply::State { state: State::Err },
            Request::Query { .. } => Reply::State { state: State::Rts },
            Request::Poll { .. } => Reply::Completions { completions: vec![] },
            Request::Woken { .. } | Request::Events { .. } => Reply::Events { events: vec![] },
            Request::Look { .. } if self.forgets_memory => Reply::Memory { bytes: Hex(vec![]) },
            Request::Look { offset, length, .. } => {
                let bytes = pattern(0, (offset + length) as usize).split_off(*offset as usize);
                Reply::Memory { bytes: Hex(bytes) }
            }
            Request::Connect { link, .. } => {
                self.numbers.push(link.qpn);
                Reply::Done
            }
            Request::Cm { what: CmRequest::Listen { .. } | CmRequest::Connect { .. } } => {
                Reply::CmId { id: number, port: 7000 }
            }
            Request::Counters => {
                let none = Reply::Counters { counters: vec![], missing: Some("none".to_owned()) };
                self.counters.pop_front().unwrap_or(none)
            }
            Request::Cm { what: CmRequest::Events { .. } } => {
                Reply::CmEvents { events: self.cm_events.pop_front().into_iter().collect() }
            }
            _ => Reply::Done,
        })
    }
}
