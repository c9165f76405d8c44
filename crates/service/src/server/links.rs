//! What the service does about links: it makes them, and tells clients that one has ended.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use uroce_wire::Slot;

use super::attached::AttachedClient;
use super::demux::Clients;
use super::link_table::ServedLink;
use crate::control;
use crate::message::{LinkEnd, ServiceMessage};
use crate::ring::LINK_MEMORY;
use crate::sys::shared_memory::SharedMemory;

/// Packets from one client to another after which the two get a link, and after which it is tried again.
const FIRST_PACKETS: u16 = 64;
const RETRY_PACKETS: u16 = 256;

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
        let mut awaits = |end| self.get(end).is_some_and(AttachedClient::awaits_descriptors);
        if ends.into_iter().any(&mut awaits) || !self.links.admits(ends, is_foreign) {
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
        let (ends, switched) = (link.ends, link.switched);
        self.tell_unlinked(ends[1 - end], number);
        for end in [0, 1] {
            self.mark_end(ends[1 - end], number, switched[end]);
        }
    }

    /// No mark of the other end of a link comes any more. Without one what is in the link would be kept for ever.
    fn mark_end(&mut self, slot: Slot, number: u32, has_mark: bool) {
        if let Some(client) = self.get(slot).filter(|_| !has_mark) {
            let is_written = client.mark(number);
            client.publish();
            self.has_marks |= !is_written;
        }
    }

    /// Forgets the links of a client that has left, whose slot another one may get.
    pub(super) fn unlink_all(&mut self, slot: Slot) {
        let mut ended = vec![];
        self.links.list.retain(|link| {
            let Some(end) = link.ends.iter().position(|end| *end == slot) else { return true };
            if !link.is_broken {
                ended.push((link.ends[1 - end], link.number, link.switched[end]));
            }
            false
        });
        for (peer, number, has_mark) in ended {
            self.tell_unlinked(peer, number);
            self.mark_end(peer, number, has_mark);
        }
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
