//! The links of a client: which packets leave by which of them.

use super::link::PeerLink;

/// Most links, with those that have ended and are still read.
pub(super) const MAX_LINKS: usize = 254;

/// Place of no link.
const NONE: u8 = u8::MAX;

/// All links of a client.
#[derive(Debug)]
pub(super) struct PeerLinks {
    pub(super) list: Vec<PeerLink>,
    /// The place in the list of the link for packets to each slot.
    by_slot: Box<[u8; 256]>,
    /// What the word of the service said when it was heard last.
    pub(super) heard: u32,
    /// Who was written to since the last flush.
    written: Vec<u8>,
}

impl PeerLinks {
    pub(super) fn new() -> Self {
        let written = Vec::with_capacity(MAX_LINKS);
        Self { list: vec![], by_slot: Box::new([NONE; 256]), heard: 0, written }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The link for a packet to a queue pair of that slot.
    #[inline]
    pub(super) fn to(&mut self, slot: u8) -> Option<&mut PeerLink> {
        let place = self.by_slot[usize::from(slot)];
        if place == NONE {
            return None;
        }
        if !self.written.contains(&place) {
            self.written.push(place);
        }
        self.list.get_mut(usize::from(place))
    }

    /// Shows the other ends what was written.
    #[inline]
    pub(super) fn publish(&mut self, system_calls: &mut u64) {
        while let Some(place) = self.written.pop() {
            if let Some(link) = self.list.get_mut(usize::from(place)) {
                link.publish(system_calls);
            }
        }
    }

    /// The service has gone, and with it all links.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.heard = 0;
        self.renumber();
    }

    /// Finds again which link is for whom.
    pub(super) fn renumber(&mut self) {
        self.written.clear();
        self.by_slot.fill(NONE);
        for (place, link) in self.list.iter().enumerate() {
            if link.switched && !link.has_ended() {
                self.by_slot[usize::from(link.end.peer.get())] = place as u8;
            }
        }
    }

    pub(super) fn find(&mut self, number: u32) -> Option<&mut PeerLink> {
        self.list.iter_mut().find(|link| link.end.number == number)
    }

    pub(super) fn announce_sleep(&self, sleeps: bool) {
        self.list.iter().for_each(|link| link.announce_sleep(sleeps));
    }

    pub(super) fn have_packets(&self) -> bool {
        self.list.iter().any(PeerLink::has_packets)
    }

    /// Drops the links on which nothing comes any more.
    pub(super) fn drop_those_that_are_over(&mut self) {
        self.list.retain(|link| !link.is_over());
        self.renumber();
    }
}

#[cfg(test)]
impl PeerLinks {
    /// How many links there are, with those that have ended.
    pub(super) fn held(&self) -> usize {
        self.list.len()
    }

    /// How many links this client sends over, and receives from.
    pub(super) fn counts(&self) -> (usize, usize) {
        let sends = self.by_slot.iter().filter(|place| **place != NONE).count();
        (sends, self.list.iter().filter(|link| link.is_open).count())
    }
}
