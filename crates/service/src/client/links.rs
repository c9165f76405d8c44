//! The links of a client: which packets leave by which of them, and what becomes of them when the other end goes.

use uroce_datapath::RxPacket;
use uroce_wire::Slot;

use super::attachment::{FIRST_LINK, ServiceState};
use super::datapath::ServedDatapath;
use super::link::PeerLink;
use crate::control::Datagram;
use crate::head::{MIN_PAYLOAD, switch};
use crate::message::{ClientMessage, LinkEnd, ServiceMessage};
use crate::ring::{BadRing, LINKS_CHANGED};

/// Most links, with those that have ended and are still read.
const MAX_LINKS: usize = 254;

/// Place of no link.
const NONE: u8 = u8::MAX;

/// All links of a client.
#[derive(Debug)]
pub(super) struct Links {
    list: Vec<PeerLink>,
    /// The place in the list of the link for packets to each slot.
    by_slot: Box<[u8; 256]>,
    /// What the word of the service said when it was heard last.
    heard: u32,
    /// Who was written to since the last flush.
    written: Vec<u8>,
}

impl Links {
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
    fn renumber(&mut self) {
        self.written.clear();
        self.by_slot.fill(NONE);
        for (place, link) in self.list.iter().enumerate() {
            if link.switched && !link.has_ended() {
                self.by_slot[usize::from(link.end.peer.get())] = place as u8;
            }
        }
    }

    fn find(&mut self, number: u32) -> Option<&mut PeerLink> {
        self.list.iter_mut().find(|link| link.end.number == number)
    }

    pub(super) fn announce_sleep(&self, sleeps: bool) {
        self.list.iter().for_each(|link| link.announce_sleep(sleeps));
    }

    pub(super) fn have_packets(&self) -> bool {
        self.list.iter().any(PeerLink::has_packets)
    }

    /// Drops the links on which nothing comes any more.
    fn drop_those_that_are_over(&mut self) {
        self.list.retain(|link| !link.is_over());
        self.renumber();
    }
}

#[cfg(test)]
impl ServedDatapath {
    /// How many links this client sends over, and receives from.
    pub(crate) fn link_counts(&self) -> (usize, usize) {
        let sends = self.links.by_slot.iter().filter(|place| **place != NONE).count();
        (sends, self.links.list.iter().filter(|link| link.is_open).count())
    }
}

impl ServedDatapath {
    /// Hears what the service has said about links, if it has said something.
    #[inline]
    pub(super) fn hear_of_links(&mut self) {
        let ServiceState::Up(attachment) = &self.service else { return };
        let word = attachment.memory.load(LINKS_CHANGED);
        if word != self.links.heard {
            self.links.heard = word;
            self.look_for_others();
        }
    }

    /// Reads what the service has said. A wake-up among it is for the thread that sleeps.
    #[cold]
    fn look_for_others(&mut self) {
        self.stats.syscalls += 1;
        if self.look() {
            rustix::io::write(&self.rewake, &1u64.to_ne_bytes()).ok();
        }
    }

    /// Does what a message about links asks for.
    pub(super) fn heed(&mut self, message: &ServiceMessage, datagram: Datagram) {
        match message {
            ServiceMessage::Link(end) => self.add_link(*end, datagram),
            ServiceMessage::Unlink(number) => self.end_link(*number),
            _ => {}
        }
    }

    #[cold]
    fn add_link(&mut self, end: LinkEnd, datagram: Datagram) {
        let made = PeerLink::new(end, datagram.descriptors, &self.epoll);
        let link = match made {
            Ok(link) if self.links.list.len() < MAX_LINKS => link,
            Ok(_) => return self.tell_unlinked(end.number),
            Err(error) => {
                tracing::debug!(%error, peer = %end.peer, "no link to another client");
                return self.tell_unlinked(end.number);
            }
        };
        tracing::debug!(peer = %end.peer, user = end.user, "a link to another client");
        // One whose end was not heard of.
        self.links.publish(&mut self.stats.syscalls);
        let old = self.links.list.iter_mut().filter(|link| link.end.peer == end.peer);
        old.for_each(PeerLink::end);
        self.links.list.push(link);
        self.links.drop_those_that_are_over();
        self.switch_links();
    }

    /// Sends over the links that are not used yet, behind a mark for the service.
    pub(super) fn switch_links(&mut self) {
        let ServiceState::Up(attachment) = &mut self.service else { return };
        let mut marked = false;
        for link in self.links.list.iter_mut().filter(|link| !link.switched && !link.has_ended()) {
            let mark = switch(link.end.number);
            if !attachment.sent.push(&attachment.memory, &mark, &[0; MIN_PAYLOAD]) {
                break;
            }
            link.switched = true;
            marked = true;
        }
        if marked {
            // What was written to links and not published is found again by nobody else.
            self.links.publish(&mut self.stats.syscalls);
            self.links.renumber();
            self.publish();
        }
    }

    /// All that the other end of that link had sent by the service was received.
    #[cold]
    pub(super) fn open_link(&mut self, number: u32) {
        if self.links.find(number).is_none() {
            self.look_for_others();
        }
        if let Some(link) = self.links.find(number) {
            link.is_open = true;
        }
    }

    /// The other end has gone. What it had sent is still received.
    #[cold]
    fn end_link(&mut self, number: u32) {
        self.links.publish(&mut self.stats.syscalls);
        if let Some(link) = self.links.find(number) {
            link.end();
        }
        self.links.drop_those_that_are_over();
    }

    /// The other end has written what no sound client writes.
    #[cold]
    fn break_link(&mut self, place: usize) {
        self.links.publish(&mut self.stats.syscalls);
        let link = self.links.list.remove(place);
        // For the log of a program no other client has a say.
        tracing::debug!(
            slot = %link.end.peer, user = link.end.user,
            "a client wrote nonsense into the ring that it shares with this one: packets go by the service"
        );
        self.links.renumber();
        self.tell_unlinked(link.end.number);
    }

    fn tell_unlinked(&mut self, number: u32) {
        if let ServiceState::Up(attachment) = &self.service {
            // A service that does not read it leaves the link to the other end, which finds out by the socket.
            attachment.control.send(&ClientMessage::Unlink(number).encode()).ok();
        }
    }

    /// A message woke this end, or the other end has gone.
    pub(super) fn hear_link(&mut self, event: u64) {
        let number = u32::try_from(event.saturating_sub(FIRST_LINK)).unwrap_or(0);
        let Some(link) = self.links.find(number) else { return };
        if let Err(error) = link.read_messages() {
            tracing::debug!(peer = %link.end.peer, %error, "a link has ended");
            self.end_link(number);
            self.tell_unlinked(number);
        }
    }

    /// Hands over packets from a link; returns how many.
    #[inline]
    pub(super) fn read_link(
        &mut self,
        place: usize,
        limit: usize,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> usize {
        let at: (Slot, _) = (self.slot, self.local);
        let Some(link) = self.links.list.get_mut(place).filter(|link| link.is_open) else {
            return 0;
        };
        let (mut count, mut outcome) = (0, Ok(()));
        // Packets that are refused count, too: there is an end.
        for _ in 0..limit {
            let head = match link.next() {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(BadRing) => {
                    outcome = Err(BadRing);
                    break;
                }
            };
            let payload = &mut self.rx_buffer[..head.len];
            link.take(payload);
            match link.accept(at, &head, payload) {
                Ok(packet) => {
                    self.stats.count_received(packet.payload.len());
                    count += 1;
                    sink(packet);
                }
                Err(reason) => self.stats.refuse(reason),
            }
        }
        link.release();
        let is_over = link.is_over();
        if outcome.is_err() {
            self.break_link(place);
        } else if is_over {
            self.links.drop_those_that_are_over();
        }
        count
    }
}
