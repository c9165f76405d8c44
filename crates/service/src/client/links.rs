//! What a client does about its links: it takes them, sends over them behind a mark, reads them, and gives them up.

use uroce_datapath::RxPacket;
use uroce_wire::Slot;

use super::attachment::{FIRST_LINK, ServiceState};
use super::datapath::ServedDatapath;
use super::link::PeerLink;
use super::peer_links::MAX_LINKS;
use crate::control::Datagram;
use crate::head::{MIN_PAYLOAD, switch};
use crate::message::{ClientMessage, LinkEnd, ServiceMessage};
use crate::ring::{BadRing, LINKS_CHANGED};

#[cfg(test)]
impl ServedDatapath {
    /// How many links this client sends over, and receives from.
    pub(crate) fn link_counts(&self) -> (usize, usize) {
        self.links.counts()
    }

    /// How many links it has, with those that have ended.
    pub(crate) fn links_held(&self) -> usize {
        self.links.held()
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
