//! Links between clients: who gets one, and who is told that one has ended.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use uroce_wire::Slot;

use super::demux::Clients;
use crate::control;
use crate::message::{LinkEnd, ServiceMessage};
use crate::ring::LINK_MEMORY;
use crate::sys::shared_memory::SharedMemory;

/// Packets from one client to another after which the two get a link, and after which it is tried again.
const FIRST_PACKETS: u16 = 64;
const RETRY_PACKETS: u16 = 256;

/// Most links of a client that it has not taken yet: their descriptors are on the way, and the system limits those.
const MAX_UNTAKEN: usize = 1;

/// A link between two clients.
#[derive(Debug)]
struct ServedLink {
    number: u32,
    ends: [Slot; 2],
    /// The two are of different users.
    is_foreign: bool,
    /// Which ends send over it.
    switched: [bool; 2],
    /// An end has ended it. The two get no other one.
    is_broken: bool,
}

/// The links between the clients of an address.
#[derive(Debug)]
pub(super) struct Links {
    list: Vec<ServedLink>,
    next: u32,
    /// Most of one client.
    most: usize,
}

impl Links {
    pub(super) fn new(most: usize) -> Self {
        Self { list: vec![], next: 1, most }
    }

    fn of(&self, slot: Slot) -> impl Iterator<Item = &ServedLink> {
        self.list.iter().filter(move |link| link.ends.contains(&slot))
    }

    /// How many links a client has.
    pub(super) fn count(&self, slot: Slot) -> u32 {
        self.of(slot).filter(|link| !link.is_broken).count() as u32
    }

    /// Whether these two may have a link.
    fn admits(&self, ends: [Slot; 2], is_foreign: bool) -> bool {
        let has = self.of(ends[0]).any(|link| link.ends.contains(&ends[1]));
        ends[0] != ends[1] && !has && ends.iter().all(|end| self.has_place(*end, is_foreign))
    }

    /// Whether the client may have one more. Clients of other users leave half of its places.
    fn has_place(&self, slot: Slot, is_foreign: bool) -> bool {
        let foreign = self.of(slot).filter(|link| link.is_foreign).count();
        let taken = |link: &ServedLink| {
            link.is_broken
                || link.ends.iter().zip(link.switched).any(|(end, yes)| *end == slot && yes)
        };
        let untaken = self.of(slot).filter(|link| !taken(link)).count();
        self.of(slot).count() < self.most
            && untaken < MAX_UNTAKEN
            && (!is_foreign || foreign < self.most.div_ceil(2))
    }

    /// A link of that client, and which end it is.
    fn find(&mut self, number: u32, slot: Slot) -> Option<(&mut ServedLink, usize)> {
        let link = self.list.iter_mut().find(|link| link.number == number && !link.is_broken)?;
        let end = link.ends.iter().position(|end| *end == slot)?;
        Some((link, end))
    }
}

impl Clients {
    /// Counts a packet from one client to another; they get a link when there were some.
    #[inline]
    pub(super) fn count_between(&mut self, from: Slot, to: Slot) {
        let Some(client) = self.get(from) else { return };
        let count = &mut client.sent_to[usize::from(to.get())];
        *count = count.wrapping_add(1);
        if *count % RETRY_PACKETS == FIRST_PACKETS {
            self.link([from, to]);
        }
    }

    #[cold]
    fn link(&mut self, ends: [Slot; 2]) {
        let [Some(one), Some(other)] = ends.map(|end| self.get(end).map(|client| client.peer.user))
        else {
            return;
        };
        let (is_foreign, number) = (one != other, self.links.next);
        if !self.links.admits(ends, is_foreign) {
            return;
        }
        self.links.next = number.wrapping_add(1);
        match self.offer(number, ends, [one, other]) {
            Ok(()) => {
                tracing::debug!(number, one = %ends[0], other = %ends[1], "a link between clients");
                let (switched, is_broken) = ([false; 2], false);
                let link = ServedLink { number, ends, is_foreign, switched, is_broken };
                self.links.list.push(link);
            }
            Err(error) => tracing::debug!(%error, "no link between clients"),
        }
    }

    /// Makes a link and hands its ends to both clients.
    fn offer(&mut self, number: u32, ends: [Slot; 2], users: [u32; 2]) -> io::Result<()> {
        let memory = SharedMemory::file(LINK_MEMORY)?;
        let sockets = control::pair()?;
        let first = LinkEnd { number, sends: 0, peer: ends[1], user: users[1] };
        let second = LinkEnd { number, sends: 1, peer: ends[0], user: users[0] };
        let client = self.get(ends[0]).ok_or(Errno::NOENT)?;
        client.tell_of_link(&ServiceMessage::Link(first), &[memory.as_fd(), sockets.0.as_fd()])?;
        let client = self.get(ends[1]).ok_or(Errno::NOENT)?;
        let descriptors = [memory.as_fd(), sockets.1.as_fd()];
        let told = client.tell_of_link(&ServiceMessage::Link(second), &descriptors);
        if told.is_err() {
            self.tell_unlinked(ends[0], number);
        }
        Ok(told?)
    }

    /// What `from` sends to the other end comes over the link from here on: the other end learns where that is among
    /// what it receives.
    pub(super) fn switch(&mut self, from: Slot, number: u32) {
        let Some((link, end)) = self.links.find(number, from) else { return };
        if std::mem::replace(&mut link.switched[end], true) {
            return;
        }
        let to = link.ends[1 - end];
        if let Some(client) = self.get(to) {
            self.has_marks |= !client.mark(number);
        }
    }

    /// A client has ended a link.
    pub(super) fn unlink(&mut self, by: Slot, number: u32) {
        let Some((link, end)) = self.links.find(number, by) else { return };
        link.is_broken = true;
        let to = link.ends[1 - end];
        self.tell_unlinked(to, number);
    }

    /// Forgets the links of a client that has left, whose slot another one may get.
    pub(super) fn unlink_all(&mut self, slot: Slot) {
        let mut ended = vec![];
        self.links.list.retain(|link| {
            let Some(end) = link.ends.iter().position(|end| *end == slot) else { return true };
            if !link.is_broken {
                ended.push((link.ends[1 - end], link.number));
            }
            false
        });
        ended.into_iter().for_each(|(peer, number)| self.tell_unlinked(peer, number));
        for n in 0..self.slots.len() {
            let other = self.slots[n];
            if let Some(client) = self.get(other) {
                client.sent_to[usize::from(slot.get())] = 0;
            }
        }
    }

    fn tell_unlinked(&mut self, slot: Slot, number: u32) {
        if let Some(client) = self.get(slot) {
            // A client that does not read its messages finds out by the socket of the link.
            client.tell_of_link(&ServiceMessage::Unlink(number), &[]).ok();
        }
    }

    /// Writes marks again that found a full ring.
    #[cold]
    pub(super) fn retry_marks(&mut self) {
        self.has_marks = false;
        for n in 0..self.slots.len() {
            let slot = self.slots[n];
            if let Some(client) = self.get(slot) {
                self.has_marks |= !client.write_marks();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u8) -> Slot {
        Slot::new(number).expect("a slot")
    }

    /// A link that both ends use.
    fn used(links: &mut Links, one: u8, other: u8, is_foreign: bool) {
        let number = links.next;
        links.next += 1;
        let ends = [slot(one), slot(other)];
        let (switched, is_broken) = ([true; 2], false);
        links.list.push(ServedLink { number, ends, is_foreign, switched, is_broken });
    }

    #[test]
    fn clients_of_other_users_take_half_of_the_links_at_most() {
        let mut links = Links::new(5);
        for other in 2..5 {
            assert!(links.admits([slot(1), slot(other)], true));
            used(&mut links, 1, other, true);
        }
        assert!(!links.admits([slot(1), slot(5)], true) && !links.admits([slot(5), slot(1)], true));
        for other in 5..7 {
            assert!(links.admits([slot(other), slot(1)], false));
            used(&mut links, other, 1, false);
        }
        assert!(!links.admits([slot(1), slot(7)], false), "five");
        assert!(links.admits([slot(8), slot(7)], true));
        assert_eq!((links.count(slot(1)), links.count(slot(2)), links.count(slot(7))), (5, 1, 0));
    }

    #[test]
    fn two_clients_have_one_link_and_get_none_after_it_was_ended() {
        let mut links = Links::new(5);
        used(&mut links, 1, 2, false);
        assert!(
            !links.admits([slot(1), slot(2)], false) && !links.admits([slot(2), slot(1)], false)
        );
        assert!(!links.admits([slot(3), slot(3)], false), "with itself");
        assert!(links.find(1, slot(3)).is_none() && links.find(2, slot(1)).is_none());
        let (link, end) = links.find(1, slot(2)).expect("its own");
        link.is_broken = true;
        assert_eq!(end, 1);
        assert!(links.find(1, slot(2)).is_none() && !links.admits([slot(1), slot(2)], false));
        assert_eq!(links.count(slot(1)), 0);
    }

    /// What it does not read stays on the way, with its descriptors.
    #[test]
    fn a_client_that_takes_no_link_is_offered_one() {
        let mut links = Links::new(5);
        used(&mut links, 1, 2, false);
        links.list[0].switched[1] = false;
        assert!(
            links.admits([slot(1), slot(3)], false) && !links.admits([slot(2), slot(3)], false)
        );
        links.list[0].is_broken = true;
        assert!(links.admits([slot(2), slot(3)], false));
    }

    #[test]
    fn a_service_may_make_no_links_at_all() {
        assert!(!Links::new(0).admits([slot(1), slot(2)], false));
    }
}
