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
const PLACES: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Verdict {
    destination: IpAddr,
    since: Instant,
    /// Packets travel singly for so long.
    lasts_ns: u64,
}

/// What is known about trains.
#[derive(Debug)]
pub(crate) struct Trains {
    /// The datapath sends trains.
    used: bool,
    verdicts: Vec<Verdict>,
    /// How often trains were found to be lost.
    pub(crate) lost: u64,
    /// The last packet was to travel singly.
    single: bool,
}

impl Trains {
    /// `used`: the datapath sends trains at all.
    pub(crate) fn new(used: bool) -> Self {
        Self { used, verdicts: Vec::new(), lost: 0, single: false }
    }

    /// Single packets arrived at `destination`, and trains did not. Twice as long as the last time none is
    /// tried: a peer that has only been asleep looks the same.
    pub(crate) fn note_lost(&mut self, destination: IpAddr, now: Instant) {
        if !self.used {
            return;
        }
        let known = self.verdicts.iter().position(|verdict| verdict.destination == destination);
        let old = known.map(|place| self.verdicts.swap_remove(place));
        let recent = old.filter(|old| now.since(old.since) < MEMORY_NS);
        if recent.is_some_and(|old| now.since(old.since) < old.lasts_ns) {
            // Another queue pair has found out the same.
            self.verdicts.extend(recent);
            return;
        }
        let lasts_ns = recent.map_or(FIRST_NS, |old| (2 * old.lasts_ns).min(LONGEST_NS));
        self.lost += 1;
        if self.verdicts.len() == PLACES {
            self.verdicts.remove(0);
        }
        self.verdicts.push(Verdict { destination, since: now, lasts_ns });
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
    pub(crate) fn part(&mut self, destination: IpAddr, doubts: bool, now: Instant) -> bool {
        let single = doubts || !self.verdicts.is_empty() && self.distrusts(destination, now);
        std::mem::replace(&mut self.single, single) || single
    }

    fn distrusts(&self, destination: IpAddr, now: Instant) -> bool {
        self.verdicts.iter().any(|verdict| {
            verdict.destination == destination && now.since(verdict.since) < verdict.lasts_ns
        })
    }
}

#[cfg(test)]
mod tests;
