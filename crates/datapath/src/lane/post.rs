//! The way from one engine to the others.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::audience::{Set, engines};
use super::bell::Bell;
use super::parcel::{MOST, PROMPT, Parcel};
use crate::packet::RxPacket;

/// What became of packets for other engines.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Posted {
    /// Handed over. A packet for several engines counts for each.
    pub(super) handed: u64,
    /// Dropped: the engine does not keep up, or is gone.
    pub(super) lost: u64,
}

/// One of the engines, as all see it.
#[derive(Debug)]
pub(super) struct Door {
    inlet: SyncSender<Box<Parcel>>,
    returns: SyncSender<Box<Parcel>>,
}

/// What an engine gets by its door.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) inlet: Receiver<Box<Parcel>>,
    returns: Receiver<Box<Parcel>>,
}

/// A door for one of `count` engines. Every parcel that may be under way has a place.
pub(super) fn door(count: usize) -> (Door, Mail) {
    let most = MOST * count;
    let (inlet, incoming) = sync_channel(most);
    let (returns, returned) = sync_channel(most);
    (Door { inlet, returns }, Mail { inlet: incoming, returns: returned })
}

/// Another engine, as one of them sees it.
#[derive(Debug, Default)]
struct Lane {
    /// The parcel that is being filled.
    open: Option<Box<Parcel>>,
    /// Parcels that have not come back.
    away: usize,
}

/// Fills parcels for other engines.
#[derive(Debug)]
pub(super) struct Post {
    own: usize,
    doors: Arc<[Door]>,
    bells: Arc<[Bell]>,
    lanes: Box<[Lane]>,
    /// Those with a parcel that is being filled.
    filling: Set,
    returns: Receiver<Box<Parcel>>,
    #[expect(
        clippy::vec_box,
        reason = "parcels change hands as boxes: the channels have small places"
    )]
    spare: Vec<Box<Parcel>>,
    pub(super) counts: Posted,
}

impl Post {
    /// The post of engine `own`; returns also what comes to it.
    pub(super) fn new(
        own: usize,
        doors: Arc<[Door]>,
        bells: Arc<[Bell]>,
        mail: Mail,
    ) -> (Self, Receiver<Box<Parcel>>) {
        let lanes = doors.iter().map(|_| Lane::default()).collect();
        let spare = Vec::with_capacity(MOST * doors.len());
        let (counts, Mail { inlet, returns }) = (Posted::default(), mail);
        (Self { own, doors, bells, lanes, filling: 0, returns, spare, counts }, inlet)
    }

    /// Puts a copy of the packet into the parcel for another engine.
    pub(super) fn put(&mut self, to: usize, rx: &RxPacket<'_>) {
        // A parcel that is full, and a fresh one.
        for _ in 0..2 {
            let Some(parcel) = self.parcel(to) else { break };
            if parcel.packets.put(rx) {
                return;
            }
            if parcel.packets.is_empty() {
                break;
            }
            self.send(to);
        }
        self.counts.lost += 1;
    }

    /// The parcel that is being filled; `None` when too many are under way.
    fn parcel(&mut self, to: usize) -> Option<&mut Box<Parcel>> {
        if self.lanes[to].open.is_none() {
            self.collect();
            if self.lanes[to].away >= MOST {
                return None;
            }
            let mut parcel = self.spare.pop().unwrap_or_else(|| Parcel::new(self.own));
            parcel.to = to;
            self.lanes[to].open = Some(parcel);
            self.filling |= 1 << to;
        }
        self.lanes[to].open.as_mut()
    }

    /// Takes back what others have read.
    fn collect(&mut self) {
        while let Ok(parcel) = self.returns.try_recv() {
            self.lanes[parcel.to].away -= 1;
            self.spare.push(parcel);
        }
    }

    /// Sends what was filled, all of it or, for engines that have much to read already, later.
    #[inline]
    pub(super) fn settle(&mut self, all: bool) {
        if self.filling == 0 {
            return;
        }
        self.collect();
        for to in engines(self.filling) {
            if all || self.lanes[to].away < PROMPT {
                self.send(to);
            }
        }
    }

    fn send(&mut self, to: usize) {
        self.filling &= !(1 << to);
        let Some(parcel) = self.lanes[to].open.take() else { return };
        let packets = parcel.packets.len() as u64;
        let bell = &self.bells[to];
        bell.announce();
        match self.doors[to].inlet.try_send(parcel) {
            Ok(()) => {
                self.lanes[to].away += 1;
                self.counts.handed += packets;
                bell.ring();
            }
            Err(_) => {
                // There is a place for each: the engine is gone.
                bell.strike_off();
                self.counts.lost += packets;
            }
        }
    }

    /// Gives a parcel that was read back to its sender; if that one is gone, nobody needs it.
    pub(super) fn give_back(&self, parcel: Box<Parcel>) {
        let from = parcel.from;
        self.doors[from].returns.try_send(parcel).ok();
    }
}

#[cfg(test)]
mod tests;
