//! Sources that have shown that they receive what is sent to their address.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use crate::limits::PROVEN_SOURCES;

/// The last sources that completed an exchange: they have seen a random communication id of ours,
/// so their address is not forged. In a flood they come first.
#[derive(Debug, Default)]
pub(crate) struct ProvenSources {
    known: BTreeSet<IpAddr>,
    order: VecDeque<IpAddr>,
}

impl ProvenSources {
    pub(crate) fn add(&mut self, source: IpAddr) {
        if !self.known.insert(source) {
            return;
        }
        self.order.push_back(source);
        if self.order.len() > PROVEN_SOURCES
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, source: IpAddr) -> bool {
        self.known.contains(&source)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut proven = ProvenSources::default();
        let source = |n: usize| IpAddr::V4(Ipv4Addr::from(n as u32));
        (0..=PROVEN_SOURCES).for_each(|n| proven.add(source(n)));
        assert!(!proven.contains(source(0)));
        assert!((1..=PROVEN_SOURCES).all(|n| proven.contains(source(n))));
        proven.add(source(1));
        assert_eq!((proven.known.len(), proven.order.len()), (PROVEN_SOURCES, PROVEN_SOURCES));
    }
}
