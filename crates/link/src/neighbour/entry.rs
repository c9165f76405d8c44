//! What is remembered of one destination, and for how long.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::{NextHop, Resolution, Unreachable};

/// How long an answer holds: a peer that moves to another hardware address is found again after
/// this time.
const LIFETIME: Duration = Duration::from_secs(1);

/// How often the kernel's table is looked at while a neighbour is being resolved.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// How often a silent neighbour is asked for.
const SOLICIT_MISSING: Duration = Duration::from_secs(1);

/// How often the kernel is made to confirm a stale hardware address. Our frames pass its table by,
/// so it would never do so by itself.
const SOLICIT_STALE: Duration = Duration::from_secs(30);

/// After this time without an answer a neighbour counts as silent. The kernel itself asks three
/// times, a second apart.
const RESOLUTION_TIMEOUT: Duration = Duration::from_secs(3);

/// What the kernel's tables said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A way that needs no neighbour.
    Local(NextHop),
    /// A neighbour with its hardware address.
    Neighbour { hop: NextHop, next_hop: IpAddr, stale: bool },
    /// A neighbour without one.
    Missing { next_hop: IpAddr, interface: u32 },
    /// No way.
    Never(Unreachable),
}

impl Found {
    /// The neighbour and its interface, if there is one.
    pub(super) fn next_hop(&self) -> Option<(IpAddr, u32)> {
        match *self {
            Self::Neighbour { hop, next_hop, .. } => Some((next_hop, hop.interface)),
            Self::Missing { next_hop, interface } => Some((next_hop, interface)),
            Self::Local(_) | Self::Never(_) => None,
        }
    }
}

/// One destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) resolution: Resolution,
    /// Until then the resolution holds.
    pub(super) ask_at: Instant,
    /// Since when the neighbour is missing.
    missing_since: Option<Instant>,
    nudged_at: Option<Instant>,
}

impl Entry {
    /// A destination without a request yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { resolution: Resolution::Pending, ask_at: now, missing_since: None, nudged_at: None }
    }

    /// The entry after a look at the tables, and whether the neighbour must be nudged.
    pub(super) fn after(self, found: &Found, now: Instant) -> (Self, bool) {
        match *found {
            Found::Never(reason) => (self.settled(Resolution::Unreachable(reason), now), false),
            Found::Local(hop) => (self.settled(Resolution::Ready(hop), now), false),
            Found::Neighbour { hop, stale, .. } => {
                let settled = self.settled(Resolution::Ready(hop), now);
                settled.solicited(stale && self.may_solicit(SOLICIT_STALE, now), now)
            }
            Found::Missing { next_hop, .. } => {
                self.missing(next_hop, now).solicited(self.may_solicit(SOLICIT_MISSING, now), now)
            }
        }
    }

    fn settled(self, resolution: Resolution, now: Instant) -> Self {
        Self { resolution, ask_at: now + LIFETIME, missing_since: None, ..self }
    }

    /// Waits for the neighbour for a while. A hardware address known before is used meanwhile: the
    /// kernel forgets addresses that only we use.
    fn missing(self, next_hop: IpAddr, now: Instant) -> Self {
        // There was no request for a long time: that time does not count as waiting.
        let idle = now.saturating_duration_since(self.ask_at) > RESOLUTION_TIMEOUT;
        let since = self.missing_since.filter(|_| !idle).unwrap_or(now);
        let missing_since = Some(since);
        if now.saturating_duration_since(since) >= RESOLUTION_TIMEOUT {
            let resolution = Resolution::Unreachable(Unreachable::Silent(next_hop));
            return Self { resolution, ask_at: now + LIFETIME, missing_since, ..self };
        }
        let resolution = match self.resolution {
            Resolution::Ready(hop) => Resolution::Ready(hop),
            _ => Resolution::Pending,
        };
        Self { resolution, ask_at: now + LOOK_AGAIN, missing_since, ..self }
    }

    fn may_solicit(&self, pause: Duration, now: Instant) -> bool {
        self.nudged_at.is_none_or(|at| now.saturating_duration_since(at) >= pause)
    }

    fn solicited(self, solicitor: bool, now: Instant) -> (Self, bool) {
        let nudged_at = if solicitor { Some(now) } else { self.nudged_at };
        (Self { nudged_at, ..self }, solicitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const HOP: NextHop = NextHop { interface: 3, src: [2; 6], dst: [4; 6], mtu: 1500 };
    const MISSING: Found = Found::Missing { next_hop: PEER, interface: 3 };

    fn known(stale: bool) -> Found {
        Found::Neighbour { hop: HOP, next_hop: PEER, stale }
    }

    #[test]
    fn a_missing_neighbour_is_waited_for_and_then_silent() {
        let start = Instant::now();
        let (mut entry, mut nudges, mut now) = (Entry::new(start), 0, start);
        while now < start + RESOLUTION_TIMEOUT {
            let (next, solicitor) = entry.after(&MISSING, now);
            assert_eq!(next.resolution, Resolution::Pending);
            nudges += u32::from(solicitor);
            (entry, now) = (next, next.ask_at);
        }
        assert_eq!(nudges, 3);
        let (silent, _) = entry.after(&MISSING, now);
        let expected = Resolution::Unreachable(Unreachable::Silent(PEER));
        assert_eq!((silent.resolution, silent.ask_at), (expected, now + LIFETIME));
        // It is still asked for, so that it is found when it comes up.
        let later = now + LIFETIME;
        assert!(silent.after(&MISSING, later).1);
        assert_eq!(silent.after(&known(false), later).0.resolution, Resolution::Ready(HOP));
    }

    #[test]
    fn an_address_known_before_is_used_while_the_kernel_asks_again() {
        let now = Instant::now();
        let (entry, solicitor) = Entry::new(now).after(&known(false), now);
        assert_eq!((entry.resolution, solicitor), (Resolution::Ready(HOP), false));
        let later = now + LIFETIME;
        let (entry, solicitor) = entry.after(&MISSING, later);
        assert_eq!((entry.resolution, solicitor), (Resolution::Ready(HOP), true));
        let (entry, _) = entry.after(&MISSING, later + RESOLUTION_TIMEOUT);
        assert_eq!(entry.resolution, Resolution::Unreachable(Unreachable::Silent(PEER)));
    }

    #[test]
    fn a_stale_address_is_used_and_confirmed_now_and_then() {
        let start = Instant::now();
        let (mut entry, mut nudges) = (Entry::new(start), 0);
        for second in 0..60 {
            let (next, solicitor) = entry.after(&known(true), start + second * LIFETIME);
            assert_eq!(next.resolution, Resolution::Ready(HOP));
            (entry, nudges) = (next, nudges + u32::from(solicitor));
        }
        assert_eq!(nudges, 2);
    }

    #[test]
    fn after_a_pause_a_missing_neighbour_gets_its_full_time() {
        let now = Instant::now();
        let (entry, _) = Entry::new(now).after(&MISSING, now);
        let (entry, solicitor) = entry.after(&MISSING, now + 10 * RESOLUTION_TIMEOUT);
        assert_eq!((entry.resolution, solicitor), (Resolution::Pending, true));
    }

    #[test]
    fn no_way_is_asked_for_again_after_its_lifetime() {
        let now = Instant::now();
        let (entry, solicitor) = Entry::new(now).after(&Found::Never(Unreachable::NotUnicast), now);
        let expected = Resolution::Unreachable(Unreachable::NotUnicast);
        assert_eq!((entry.resolution, entry.ask_at, solicitor), (expected, now + LIFETIME, false));
    }
}
