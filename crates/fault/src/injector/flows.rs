//! What is remembered of queue pairs.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use uroce_wire::{Operation, Psn};

use super::stream::{Position, Stream};
use crate::packet_view::PacketView;
use crate::{Direction, PacketMeta};

/// How far behind the newest request an acknowledged one may be.
const ACKNOWLEDGED_BEHIND: u64 = 1 << 16;
/// Pairs of queue pairs that are remembered at most.
const PAIRS_MAX: usize = 2048;
/// The first number that is not that of a special queue pair; so is the last one.
const FIRST_QPN: u32 = 2;
const MULTICAST_QPN: u32 = 0xff_ffff;

/// Packets to one queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    pub direction: Direction,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub dest_qp: u32,
}

impl FlowKey {
    pub(super) fn new(meta: &PacketMeta, packet: &PacketView<'_>) -> Option<Self> {
        let dest_qp = packet.dest_qp()?;
        let (src, dst) = (meta.flow.src, meta.flow.dst);
        Some(Self { direction: meta.direction, src, dst, dest_qp })
    }

    /// The flow that goes back, to the queue pair `dest_qp`.
    fn back(&self, dest_qp: u32) -> Self {
        Self { direction: self.direction.opposite(), src: self.dst, dst: self.src, dest_qp }
    }
}

#[derive(Debug)]
struct Flow {
    key: FlowKey,
    index: Option<u32>,
    packets: u64,
    requests: Stream,
    responses: Stream,
    /// The queue pair that these packets come from.
    peer: Option<u32>,
    /// The last MSN that went this way.
    msn: u32,
    last_used: u64,
}

/// What is known of a packet from those before it. Numbers count from 1; 0 is not known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    /// Index of the queue pair in order of appearance, from 0.
    pub index: Option<u32>,
    pub packet: u64,
    /// Distance from the first PSN.
    pub offset: Option<u64>,
    pub iteration: u16,
    pub message: u32,
}

/// What is remembered of queue pairs: of so many, the ones that were used last.
#[derive(Debug)]
pub(super) struct Flows {
    places: HashMap<FlowKey, usize>,
    flows: Vec<Flow>,
    limit: usize,
    with_history: bool,
    /// Flows of either direction that have an index.
    indices: [u32; 2],
    clock: u64,
    forgotten: u64,
    /// Peers of flows, as connection management said, the newest last.
    pairs: VecDeque<(FlowKey, u32)>,
    /// Place of the last packet's flow.
    recent: usize,
}

impl Flows {
    pub(super) fn new(limit: usize, with_history: bool) -> Self {
        Self {
            places: HashMap::with_capacity(limit),
            flows: Vec::new(),
            limit: limit.max(1),
            with_history,
            indices: [0; 2],
            clock: 0,
            forgotten: 0,
            pairs: VecDeque::new(),
            recent: 0,
        }
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// A packet has come.
    pub(super) fn note(&mut self, meta: &PacketMeta, packet: &PacketView<'_>) -> Facts {
        let (Some(key), Some(psn)) = (FlowKey::new(meta, packet), packet.psn()) else {
            return Facts::default();
        };
        let place = self.place_for(key);
        let with_history = self.with_history;
        let flow = &mut self.flows[place];
        flow.packets += 1;
        let position = flow.note(packet, psn, with_history);
        Facts {
            index: flow.index,
            packet: flow.packets,
            offset: position.offset,
            iteration: position.iteration,
            message: position.message,
        }
    }

    fn place_for(&mut self, key: FlowKey) -> usize {
        let is_recent = self.flows.get(self.recent).is_some_and(|flow| flow.key == key);
        if !is_recent {
            let known = self.places.get(&key).copied();
            self.recent = known.unwrap_or_else(|| self.add(key));
        }
        self.clock += 1;
        self.flows[self.recent].last_used = self.clock;
        self.recent
    }

    fn add(&mut self, key: FlowKey) -> usize {
        let is_special = key.dest_qp < FIRST_QPN || key.dest_qp == MULTICAST_QPN;
        let index = (!is_special).then(|| self.next_index(key.direction));
        let peer = self.pairs.iter().rev().find(|(known, _)| *known == key);
        let flow = Flow::new(key, index, peer.map(|(_, peer)| *peer));
        let place = if self.flows.len() < self.limit {
            self.flows.push(flow);
            self.flows.len() - 1
        } else {
            let place = self.oldest();
            self.places.remove(&self.flows[place].key);
            self.flows[place] = flow;
            self.forgotten += 1;
            place
        };
        self.places.insert(key, place);
        place
    }

    fn oldest(&self) -> usize {
        let places = self.flows.iter().enumerate();
        places.min_by_key(|(_, flow)| flow.last_used).map_or(0, |(place, _)| place)
    }

    fn next_index(&mut self, direction: Direction) -> u32 {
        let next = &mut self.indices[direction.index()];
        let index = *next;
        *next = next.saturating_add(1);
        index
    }

    /// Learns from a response which queue pair sends the requests that it answers.
    pub(super) fn learn_from_response(&mut self, meta: &PacketMeta, packet: &PacketView<'_>) {
        let is_response = packet.info().is_some_and(|info| info.is_response());
        let Some(key) = FlowKey::new(meta, packet).filter(|_| is_response) else {
            return;
        };
        let place = self.place_for(key);
        if let Some(msn) = packet.msn() {
            self.flows[place].msn = msn;
        }
        if self.flows[place].peer.is_some() {
            return;
        }
        let requests = packet.psn().and_then(|psn| self.only_one_that_awaits(&key, psn));
        if let Some(requests) = requests {
            self.flows[requests].peer = Some(key.dest_qp);
            self.flows[place].peer = Some(self.flows[requests].key.dest_qp);
        }
    }

    /// The flow back whose requests had this PSN lately. With several of them nothing is learned.
    fn only_one_that_awaits(&self, response: &FlowKey, psn: Psn) -> Option<usize> {
        let awaits = |flow: &Flow| {
            flow.key == response.back(flow.key.dest_qp)
                && flow.requests.behind(psn).is_some_and(|behind| behind < ACKNOWLEDGED_BEHIND)
        };
        let mut candidates = self.flows.iter().enumerate().filter(|(_, flow)| awaits(flow));
        let (place, _) = candidates.next()?;
        candidates.next().is_none().then_some(place)
    }

    /// The packets of `key` come from the queue pair `src_qp`, and its packets go back there.
    pub(super) fn pair(&mut self, key: FlowKey, src_qp: u32) {
        for (key, peer) in [(key, src_qp), (key.back(src_qp), key.dest_qp)] {
            if self.pairs.len() == PAIRS_MAX {
                self.pairs.pop_front();
            }
            self.pairs.push_back((key, peer));
            if let Some(place) = self.places.get(&key) {
                self.flows[*place].peer = Some(peer);
            }
        }
    }

    /// The queue pair that sends the packets of this flow, and the last MSN that went back to it.
    pub(super) fn sender(&self, key: &FlowKey) -> Option<(u32, u32)> {
        let peer = self.flows.get(*self.places.get(key)?)?.peer?;
        let back = self.places.get(&key.back(peer)).and_then(|place| self.flows.get(*place));
        Some((peer, back.map_or(0, |flow| flow.msn)))
    }
}

impl Flow {
    fn new(key: FlowKey, index: Option<u32>, peer: Option<u32>) -> Self {
        Self {
            key,
            index,
            packets: 0,
            requests: Stream::default(),
            responses: Stream::default(),
            peer,
            msn: 0,
            last_used: 0,
        }
    }

    fn note(&mut self, packet: &PacketView<'_>, psn: Psn, with_history: bool) -> Position {
        match packet.info() {
            Some(info) if info.operation == Operation::Cnp => Position::default(),
            Some(info) if info.is_response() => self.responses.note(psn, info, with_history),
            Some(info) => self.requests.note(psn, info, with_history),
            None => Position::default(),
        }
    }
}
