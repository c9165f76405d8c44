//! Destinations that get single packets, because trains to them were lost (docs/adr/011).

use std::net::IpAddr;
use uroce_transport::Instant;

/// For how long trains are not tried again, the first time (ns).
const FIRST_NS: u64 = 1_000_000_000;
/// And at most.
const LONGEST_NS: u64 = 64 * FIRST_NS;
/// A verdict that is older than this is forgotten.
const MEMORY_NS: u64 = 10 * LONGEST_NS;
/// Destinations that are remembered.
const MAX_BLACK_HOLES: usize = 64;

#[derive(Debug, Clone, Copy)]
struct BlackHole {
    destination: IpAddr,
    since: Instant,
    /// Packets travel singly for so long.
    lasts_ns: u64,
}

/// What is known about trains.
#[derive(Debug)]
pub(crate) struct GsoBlackHoles {
    /// The datapath sends trains.
    used: bool,
    black_holes: Vec<BlackHole>,
    /// How often trains were found to be lost.
    pub(crate) detected: u64,
    /// The last packet was to travel singly.
    single: bool,
}

impl GsoBlackHoles {
    /// `used`: the datapath sends trains at all.
    pub(crate) fn new(used: bool) -> Self {
        Self { used, black_holes: Vec::new(), detected: 0, single: false }
    }

    /// Single packets arrived at `destination`, and trains did not. Twice as long as the last time none is
    /// tried: a peer that has only been asleep looks the same.
    pub(crate) fn record(&mut self, destination: IpAddr, now: Instant) {
        if !self.used {
            return;
        }
        let known =
            self.black_holes.iter().position(|black_hole| black_hole.destination == destination);
        let old = known.map(|index| self.black_holes.swap_remove(index));
        let recent = old.filter(|old| now.since(old.since) < MEMORY_NS);
        if recent.is_some_and(|old| now.since(old.since) < old.lasts_ns) {
            // Another queue pair has found out the same.
            self.black_holes.extend(recent);
            return;
        }
        let lasts_ns = recent.map_or(FIRST_NS, |old| (2 * old.lasts_ns).min(LONGEST_NS));
        self.detected += 1;
        if self.black_holes.len() == MAX_BLACK_HOLES {
            self.black_holes.remove(0);
        }
        self.black_holes.push(BlackHole { destination, since: now, lasts_ns });
        let seconds = lasts_ns / FIRST_NS;
        if recent.is_none() {
            // A peer that was stopped, a link that was down and mere loss look the same, once.
            tracing::info!(%destination, "several packets in a row did not arrive, single ones did: for {seconds} s they leave one by one");
            return;
        }
        tracing::warn!(
            %destination,
            "again several packets in a row did not arrive, and single ones did: for {seconds} s they leave one by one, \
             which is slower; where nothing else loses packets, the kernel or a network card does not cut them (UDP \
             segmentation): see `ethtool -k` for tx-udp-segmentation at both ends"
        );
    }

    /// Does a packet to `destination`, of a queue pair that may have its `doubts`, have to travel alone,
    /// or behind one that had to?
    #[inline]
    pub(crate) fn needs_break(&mut self, destination: IpAddr, doubts: bool, now: Instant) -> bool {
        let single = doubts || !self.black_holes.is_empty() && self.is_black_hole(destination, now);
        std::mem::replace(&mut self.single, single) || single
    }

    fn is_black_hole(&self, destination: IpAddr, now: Instant) -> bool {
        self.black_holes.iter().any(|black_hole| {
            black_hole.destination == destination
                && now.since(black_hole.since) < black_hole.lasts_ns
        })
    }
}

#[cfg(test)]
mod tests;
