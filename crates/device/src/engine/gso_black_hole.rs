//! Detection of GSO black holes: destinations to which GSO batches are lost while single packets
//! arrive (docs/adr/011).

use std::net::IpAddr;

use uroce_transport::Instant;

/// Time without GSO after the first detection (ns).
const FIRST_NS: u64 = 1_000_000_000;
/// Longest time without GSO (ns).
const LONGEST_NS: u64 = 64 * FIRST_NS;
/// Age at which a detection is forgotten (ns).
const MEMORY_NS: u64 = 10 * LONGEST_NS;
/// Destinations on record at most.
const MAX_BLACK_HOLES: usize = 64;

#[derive(Debug, Clone, Copy)]
struct BlackHole {
    destination: IpAddr,
    since: Instant,
    /// Time without GSO (ns).
    lasts_ns: u64,
}

/// The GSO black holes that were detected.
#[derive(Debug)]
pub(crate) struct GsoBlackHoles {
    /// The datapath uses GSO.
    used: bool,
    black_holes: Vec<BlackHole>,
    /// Number of detections.
    pub(crate) detected: u64,
    /// The last packet had to be sent outside any GSO batch.
    single: bool,
}

impl GsoBlackHoles {
    /// `used`: the datapath uses GSO at all.
    pub(crate) fn new(used: bool) -> Self {
        Self { used, black_holes: Vec::new(), detected: 0, single: false }
    }

    /// Records that single packets arrived at `destination` and GSO batches did not. The time
    /// without GSO is twice that of the last detection: a peer that was only suspended looks the
    /// same.
    pub(crate) fn record(&mut self, destination: IpAddr, now: Instant) {
        if !self.used {
            return;
        }
        let known =
            self.black_holes.iter().position(|black_hole| black_hole.destination == destination);
        let old = known.map(|index| self.black_holes.swap_remove(index));
        let recent = old.filter(|old| now.since(old.since) < MEMORY_NS);
        if recent.is_some_and(|old| now.since(old.since) < old.lasts_ns) {
            // Another queue pair has already detected the same black hole.
            self.black_holes.extend(recent);
            return;
        }
        let lasts_ns = recent.map_or(FIRST_NS, |old| (2 * old.lasts_ns).min(LONGEST_NS));
        self.detected += 1;
        if self.black_holes.len() == MAX_BLACK_HOLES {
            self.black_holes.remove(0);
        }
        debug_assert!(self.black_holes.len() < MAX_BLACK_HOLES, "the oldest one has gone");
        debug_assert!(!self.is_known(destination), "one record for each destination");
        self.black_holes.push(BlackHole { destination, since: now, lasts_ns });
        let seconds = lasts_ns / FIRST_NS;
        if recent.is_none() {
            // A suspended peer, a link that was down and plain loss look the same, once.
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

    /// True if a packet to `destination` must not join the GSO batch before it: GSO to
    /// `destination` is suspended, its queue pair suspects GSO (`doubts`), or the packet before had
    /// to be sent alone.
    #[inline]
    pub(crate) fn needs_break(&mut self, destination: IpAddr, doubts: bool, now: Instant) -> bool {
        let single = doubts || !self.black_holes.is_empty() && self.is_black_hole(destination, now);
        std::mem::replace(&mut self.single, single) || single
    }

    fn is_known(&self, destination: IpAddr) -> bool {
        self.black_holes.iter().any(|black_hole| black_hole.destination == destination)
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
