//! The sending side of the channels from one engine to the others.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::membership::{Set, engines};
use super::packet_batch::{EAGER_BATCHES, MAX_BATCHES, PacketBatch};
use super::wakeup::Wakeup;
use crate::packet::RxPacket;

/// Counts of packets for other engines.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SendCounts {
    /// Redirected packets. A packet for several engines counts for each.
    pub(super) handed: u64,
    /// Dropped packets: the engine does not keep up, or is gone.
    pub(super) lost: u64,
}

/// The sending ends of the channels of one engine: batches to it, and empty ones back to it.
#[derive(Debug)]
pub(super) struct SenderEnds {
    inlet: SyncSender<Box<PacketBatch>>,
    returns: SyncSender<Box<PacketBatch>>,
}

/// The receiving ends of the channels of one engine.
#[derive(Debug)]
pub(super) struct ReceiverEnds {
    pub(super) inlet: Receiver<Box<PacketBatch>>,
    returns: Receiver<Box<PacketBatch>>,
}

/// The channels of one of `count` engines, with room for every batch that may be in transit.
pub(super) fn channel(count: usize) -> (SenderEnds, ReceiverEnds) {
    let most = MAX_BATCHES * count;
    let (inlet, incoming) = sync_channel(most);
    let (returns, returned) = sync_channel(most);
    (SenderEnds { inlet, returns }, ReceiverEnds { inlet: incoming, returns: returned })
}

/// Another engine, as the sender sees it.
#[derive(Debug, Default)]
struct Destination {
    /// The batch that is being filled.
    open: Option<Box<PacketBatch>>,
    /// Batches that have not come back.
    in_transit: usize,
}

/// Fills and sends batches for other engines.
#[derive(Debug)]
pub(super) struct Sender {
    own: usize,
    channels: Arc<[SenderEnds]>,
    wakeups: Arc<[Wakeup]>,
    destinations: Box<[Destination]>,
    /// Engines with a batch that is being filled.
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
    /// The sender of engine `own`, and the receiving end of its channel.
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

    /// Puts a copy of the packet into the batch for another engine.
    pub(super) fn put(&mut self, to: usize, rx: &RxPacket<'_>) {
        // A full batch, and a fresh one.
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

    /// The batch that is being filled; `None` when too many are in transit.
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

    /// Takes back the batches that others have read.
    fn collect(&mut self) {
        while let Ok(batch) = self.returns.try_recv() {
            self.destinations[batch.to].in_transit -= 1;
            self.spare.push(batch);
        }
    }

    /// Sends the filled batches: all, or only those for engines without a backlog.
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
                // The channel has room for all batches: the engine is gone.
                wakeup.cancel();
                self.counts.lost += packets;
            }
        }
    }

    /// Returns a batch that was read to its sender; it is dropped if the sender is gone.
    pub(super) fn give_back(&self, batch: Box<PacketBatch>) {
        let from = batch.from;
        self.channels[from].returns.try_send(batch).ok();
    }
}

#[cfg(test)]
mod tests;
