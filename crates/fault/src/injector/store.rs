//! Packets that go on later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flows::FlowKey;
use crate::{Direction, PacketMeta, Time};

/// Memory that an empty place keeps.
const KEPT_CAPACITY: usize = 16 << 10;

/// Where a released packet comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// A packet that was given to the injector.
    #[default]
    Packet,
    /// A copy of one.
    Copy,
    /// An answer that the injector made.
    Answer,
}

/// A packet that waits, or has just been released.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub meta: Option<PacketMeta>,
    pub bytes: Vec<u8>,
    pub comment: String,
    pub origin: Origin,
    pub is_damaged: bool,
    /// The entry of the queue that is valid; an older one of the same place is not.
    ticket: u64,
    is_held: bool,
}

/// What a packet waits for besides a time.
#[derive(Debug)]
struct Hold {
    place: usize,
    key: FlowKey,
    others: u32,
}

/// A packet as it is put into the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewPacket<'a> {
    pub meta: PacketMeta,
    pub bytes: &'a [u8],
    pub comment: &'a str,
    pub origin: Origin,
    pub is_damaged: bool,
}

/// Packets that go on later, in the order of their times.
#[derive(Debug)]
pub(super) struct Store {
    places: Vec<Waiting>,
    free: Vec<usize>,
    /// Time, ticket and place of what waits in either direction.
    queues: [BinaryHeap<Reverse<(Time, u64, usize)>>; 2],
    holds: Vec<Hold>,
    next_ticket: u64,
    bytes: usize,
    bytes_max: usize,
    packets_max: usize,
    /// The packet that was released last.
    current: Waiting,
}

impl Store {
    pub(super) fn new(packets_max: usize, bytes_max: usize) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            queues: Default::default(),
            holds: Vec::new(),
            next_ticket: 1,
            bytes: 0,
            bytes_max,
            packets_max,
            current: Waiting::default(),
        }
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a packet until `at`, or until as many others as `hold` says have passed; false if
    /// there is no room.
    #[must_use]
    pub(super) fn put(
        &mut self,
        at: Time,
        packet: NewPacket<'_>,
        hold: Option<(FlowKey, u32)>,
    ) -> bool {
        let fits = self.len() < self.packets_max
            && self.bytes.saturating_add(packet.bytes.len()) <= self.bytes_max;
        if !fits {
            return false;
        }
        let place = self.free_place();
        self.bytes += packet.bytes.len();
        self.places[place].fill(packet, hold.is_some());
        self.schedule(place, at);
        if let Some((key, others)) = hold {
            self.holds.push(Hold { place, key, others });
        }
        true
    }

    fn free_place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Waiting::default());
            self.places.len() - 1
        })
    }

    fn schedule(&mut self, place: usize, at: Time) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.places[place].ticket = ticket;
        if let Some(meta) = self.places[place].meta {
            self.queues[meta.direction.index()].push(Reverse((at, ticket, place)));
            self.drop_stale(meta.direction);
        }
    }

    /// Removes entries at the head that another one of the same packet has replaced, and all such
    /// entries when they outnumber the packets.
    fn drop_stale(&mut self, direction: Direction) {
        let (queue, places) = (&mut self.queues[direction.index()], &self.places);
        if queue.len() > 2 * places.len() + 64 {
            queue.retain(|Reverse((_, ticket, place))| places[*place].ticket == *ticket);
        }
        while let Some(Reverse((_, ticket, place))) = queue.peek() {
            if self.places[*place].ticket == *ticket {
                return;
            }
            queue.pop();
        }
    }

    /// A packet of a flow has gone on.
    #[inline]
    pub(super) fn note_passed(&mut self, now: Time, key: Option<FlowKey>) {
        if !self.holds.is_empty() {
            self.count_down(now, key);
        }
    }

    fn count_down(&mut self, now: Time, key: Option<FlowKey>) {
        let mut index = 0;
        while let Some(hold) = self.holds.get_mut(index) {
            hold.others -= u32::from(Some(hold.key) == key);
            if hold.others > 0 {
                index += 1;
                continue;
            }
            let place = self.holds.remove(index).place;
            self.places[place].is_held = false;
            self.schedule(place, now);
        }
    }

    /// True if packets of this flow wait for others.
    pub(super) fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }

    /// When the next packet is to be released.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.first_direction().and_then(|direction| self.next_time_of(direction))
    }

    pub(super) fn next_time_of(&self, direction: Direction) -> Option<Time> {
        self.queues[direction.index()].peek().map(|Reverse((at, _, _))| *at)
    }

    /// The direction of the packet that is released next.
    pub(super) fn first_direction(&self) -> Option<Direction> {
        let head = |direction: Direction| {
            let Reverse((at, ticket, _)) = self.queues[direction.index()].peek()?;
            Some((*at, *ticket, direction.index()))
        };
        let heads = [Direction::Tx, Direction::Rx].map(|direction| (head(direction), direction));
        let waiting = heads.into_iter().filter(|(head, _)| head.is_some());
        waiting.min_by_key(|(head, _)| *head).map(|(_, direction)| direction)
    }

    /// The next packet of a direction whose time has come.
    pub(super) fn take(&mut self, now: Time, direction: Direction) -> Option<&Waiting> {
        if self.next_time_of(direction)? > now {
            return None;
        }
        let Reverse((_, _, place)) = self.queues[direction.index()].pop()?;
        let waiting = &mut self.places[place];
        std::mem::swap(waiting, &mut self.current);
        waiting.clear();
        self.bytes -= self.current.bytes.len();
        if self.current.is_held {
            self.holds.retain(|hold| hold.place != place);
        }
        self.free.push(place);
        self.drop_stale(direction);
        Some(&self.current)
    }

    /// The packet that [`Store::take`] returned last.
    pub(super) fn current(&self) -> &Waiting {
        &self.current
    }
}

impl Waiting {
    fn fill(&mut self, packet: NewPacket<'_>, is_held: bool) {
        self.meta = Some(packet.meta);
        self.bytes.extend_from_slice(packet.bytes);
        self.comment.push_str(packet.comment);
        self.origin = packet.origin;
        self.is_damaged = packet.is_damaged;
        self.is_held = is_held;
    }

    /// Empties it, but keeps memory for the next packet.
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.comment.clear();
        self.ticket = 0;
    }
}
