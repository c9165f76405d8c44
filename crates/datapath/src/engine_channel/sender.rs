//! The way from one engine to the others.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::membership::{Set, engines};
use super::packet_batch::{EAGER_BATCHES, MAX_BATCHES, PacketBatch};
use super::wakeup::Wakeup;
use crate::packet::RxPacket;

/// What became of packets for other engines.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SendCounts {
    /// Handed over. A packet for several engines counts for each.
    pub(super) handed: u64,
    /// Dropped: the engine does not keep up, or is gone.
    pub(super) lost: u64,
}

/// One of the engines, as all see it.
#[derive(Debug)]
pub(super) struct SenderEnds {
    inlet: SyncSender<Box<PacketBatch>>,
    returns: SyncSender<Box<PacketBatch>>,
}

/// What an engine gets by its door.
#[derive(Debug)]
pub(super) struct ReceiverEnds {
    pub(super) inlet: Receiver<Box<PacketBatch>>,
    returns: Receiver<Box<PacketBatch>>,
}

/// A door for one of `count` engines. Every parcel that may be under way has a place.
pub(super) fn channel(count: usize) -> (SenderEnds, ReceiverEnds) {
    let most = MAX_BATCHES * count;
    let (inlet, incoming) = sync_channel(most);
    let (returns, returned) = sync_channel(most);
    (SenderEnds { inlet, returns }, ReceiverEnds { inlet: incoming, returns: returned })
}

/// Another engine, as one of them sees it.
#[derive(Debug, Default)]
struct Destination {
    /// The parcel that is being filled.
    open: Option<Box<PacketBatch>>,
    /// Parcels that have not come back.
    in_transit: usize,
}

/// Fills parcels for other engines.
#[derive(Debug)]
pub(super) struct Sender {
    own: usize,
    channels: Arc<[SenderEnds]>,
    wakeups: Arc<[Wakeup]>,
    destinations: Box<[Destination]>,
    /// Those with a parcel that is being filled.
    filling: Set,
    returns: Receiver<Box<PacketBatch>>,
    #[expect(
        clippy::vec_box,
        reason = "parcels change hands as boxes: the channels have small places"
    )]
    spare: Vec<Box<PacketBatch>>,
    pub(super) counts: SendCounts,
}

impl Sender {
    /// The post of engine `own`; returns also what comes to it.
    pub(super) fn new(
        own: usize,
        channels: Arc<[SenderEnds]>,
        wakeups: Arc<[Wakeup]>,
        ends: ReceiverEnds,
    ) -> (Self, Receiver<Box<PacketBatch>>) {
        let destinations = channels.iter().map(|_| Destination::default()).collect();
        let spare = Vec::with_capacity(MAX_BATCHES * channels.len());
        let (counts, ReceiverEnds { inlet, returns }) = (SendCounts::default(), ends);
        (Self { own, channels, wakeups, destinations, filling: 0, returns, spare, counts }, inlet)
    }

    /// Puts a copy of the packet into the parcel for another engine.
    pub(super) fn put(&mut self, to: usize, rx: &RxPacket<'_>) {
        // A parcel that is full, and a fresh one.
        for _ in 0..2 {
            let Some(batch) = self.batch(to) else { break };
            if batch.packets.put(rx) {
                return;
            }
            if batch.packets.is_empty() {
                break;
            }
            self.send(to);
        }
        self.counts.lost += 1;
    }

    /// The parcel that is being filled; `None` when too many are under way.
    fn batch(&mut self, to: usize) -> Option<&mut Box<PacketBatch>> {
        if self.destinations[to].open.is_none() {
            self.collect();
            if self.destinations[to].in_transit >= MAX_BATCHES {
                return None;
            }
            let mut batch = self.spare.pop().unwrap_or_else(|| PacketBatch::new(self.own));
            batch.to = to;
            self.destinations[to].open = Some(batch);
            self.filling |= 1 << to;
        }
        self.destinations[to].open.as_mut()
    }

    /// Takes back what others have read.
    fn collect(&mut self) {
        while let Ok(batch) = self.returns.try_recv() {
            self.destinations[batch.to].in_transit -= 1;
            self.spare.push(batch);
        }
    }

    /// Sends what was filled, all of it or, for engines that have much to read already, later.
    #[inline]
    pub(super) fn send_filled(&mut self, all: bool) {
        if self.filling == 0 {
            return;
        }
        self.collect();
        for to in engines(self.filling) {
            if all || self.destinations[to].in_transit < EAGER_BATCHES {
                self.send(to);
            }
        }
    }

    fn send(&mut self, to: usize) {
        self.filling &= !(1 << to);
        let Some(batch) = self.destinations[to].open.take() else { return };
        let packets = batch.packets.len() as u64;
        let wakeup = &self.wakeups[to];
        wakeup.announce();
        match self.channels[to].inlet.try_send(batch) {
            Ok(()) => {
                self.destinations[to].in_transit += 1;
                self.counts.handed += packets;
                wakeup.wake();
            }
            Err(_) => {
                // There is a place for each: the engine is gone.
                wakeup.cancel();
                self.counts.lost += packets;
            }
        }
    }

    /// Gives a parcel that was read back to its sender; if that one is gone, nobody needs it.
    pub(super) fn give_back(&self, batch: Box<PacketBatch>) {
        let from = batch.from;
        self.channels[from].returns.try_send(batch).ok();
    }
}

#[cfg(test)]
mod tests;
