//! A client that has a place.

use std::collections::HashSet;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{Ordering, fence};

use rustix::io::Errno;
use uroce_datapath::RxPacket;
use uroce_host::option::is_unread;
use uroce_host::process::Peer;
use uroce_wire::{DropReason, FlowIcrc, Slot};

use crate::control::ControlSocket;
use crate::head::{self, ArrivedHead, MAX_PAYLOAD, MIN_PAYLOAD, SentHead};
use crate::message::ServiceMessage;
use crate::ring::{
    ARRIVED, BadRing, CLIENT_SLEEPS, DROPPED, LINKS_CHANGED, RingReceiver, RingSender, SENT,
    SERVICE_SLEEPS,
};
use crate::status::ClientStatus;
use crate::sys::shared_memory::SharedMemory;

/// Most marks that wait for room in the client's ring.
const MAX_MARKS: usize = 256;

/// What a client has written into its ring.
#[derive(Debug)]
pub(super) enum Sent {
    Packet(SentHead),
    /// What it sends to the other end of that link comes over the link from here on.
    Switch(u32),
}

/// What the service has counted of a client.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientCounts {
    /// Packets for the client.
    pub(super) arrived: u64,
    /// Packets for the client that were dropped: its ring was full, as the client did not keep up.
    pub(super) queue_full: u64,
    /// Packets from the client.
    pub(super) sent: u64,
    /// Packets from the client that were refused, since a client may not send such ones.
    pub(super) refused: u64,
}

/// A client with its rings.
#[derive(Debug)]
pub(super) struct AttachedClient {
    pub(super) control: ControlSocket,
    pub(super) memory: SharedMemory,
    sent: RingReceiver,
    arrived: RingSender,
    pub(super) slot: Slot,
    pub(super) peer: Peer,
    pub(super) services: HashSet<u64>,
    pub(super) groups: HashSet<IpAddr>,
    pub(super) icrc: FlowIcrc,
    /// The source port that was asked for last, and the one that the datapath has in its place.
    pub(super) port: Option<(u16, u16)>,
    pub(super) counts: ClientCounts,
    /// Packets that the service has brought to each other slot.
    pub(super) sent_to: Box<[u16; 256]>,
    /// Links whose mark waits for room in the client's ring.
    marks: Vec<u32>,
    /// How often the client was told something about links.
    told: u32,
    /// Descriptors of a link were sent to it, and there was no moment since at which it had read everything.
    offered: bool,
}

impl AttachedClient {
    pub(super) fn new(
        control: ControlSocket,
        memory: SharedMemory,
        slot: Slot,
        peer: Peer,
    ) -> Self {
        Self {
            control,
            memory,
            sent: RingReceiver::new(SENT),
            arrived: RingSender::new(ARRIVED),
            slot,
            peer,
            services: HashSet::new(),
            groups: HashSet::new(),
            icrc: FlowIcrc::default(),
            port: None,
            counts: ClientCounts::default(),
            sent_to: Box::new([0; 256]),
            marks: vec![],
            told: 0,
            offered: false,
        }
    }

    /// Writes a packet to the client's ring, for [`publish`](Self::publish).
    pub(super) fn deliver(&mut self, rx: &RxPacket<'_>) -> Result<(), DropReason> {
        let len = rx.payload.len();
        if len > MAX_PAYLOAD {
            return Err(DropReason::RxTruncated);
        }
        if len < MIN_PAYLOAD {
            return Err(DropReason::TooShort);
        }
        let head = ArrivedHead {
            src: rx.src,
            dst: rx.dst.ip(),
            hop_limit: rx.hop_limit,
            traffic_class: rx.traffic_class,
            ip_id: rx.ip_id,
            icrc_checked: rx.icrc_checked,
            len,
        };
        // A mark is the shortest that there is: what finds no room before it finds none behind it.
        if self.write_marks() && self.arrived.push(&self.memory, &head.encode(), rx.payload) {
            self.counts.arrived += 1;
            return Ok(());
        }
        self.counts.queue_full += 1;
        self.memory.store(DROPPED, self.counts.queue_full as u32);
        Err(DropReason::QueueFull)
    }

    /// Shows the client what was delivered, and wakes it if it sleeps.
    #[inline]
    pub(super) fn publish(&mut self) {
        if !self.arrived.publish(&self.memory) {
            return;
        }
        // The client writes the word and then looks at the ring; here it is the other way round.
        fence(Ordering::SeqCst);
        if self.memory.load(CLIENT_SLEEPS) != 0 && self.memory.swap(CLIENT_SLEEPS, 0) != 0 {
            // If its socket is full, there is something for it to read already.
            self.control.send(&ServiceMessage::Wake.encode()).ok();
        }
    }

    /// What the client has written next.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Sent>, BadRing> {
        let Some(head) = self.sent.next(&self.memory)? else { return Ok(None) };
        if let Some(number) = head::switched(&head) {
            self.sent.take(&self.memory, &mut [0; MIN_PAYLOAD]);
            return Ok(Some(Sent::Switch(number)));
        }
        SentHead::decode(&head).map(|head| Some(Sent::Packet(head))).ok_or(BadRing)
    }

    /// Marks where packets of the other end of that link end to come from the service; false if there is no room yet.
    pub(super) fn mark(&mut self, number: u32) -> bool {
        if self.marks.len() < MAX_MARKS {
            self.marks.push(number);
        }
        self.write_marks()
    }

    /// Writes the marks that wait, for [`publish`](Self::publish); false if there is no room for all.
    #[inline]
    pub(super) fn write_marks(&mut self) -> bool {
        while let Some(number) = self.marks.first() {
            if !self.arrived.push(&self.memory, &head::switch(*number), &[0; MIN_PAYLOAD]) {
                return false;
            }
            self.marks.remove(0);
        }
        true
    }

    /// Sends a message about a link, and has a client see it that does not sleep.
    pub(super) fn tell_of_link(
        &mut self,
        message: &ServiceMessage,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        match descriptors {
            [] => self.control.send(&message.encode())?,
            _ => {
                self.control.send_with(&message.encode(), descriptors)?;
                self.offered = true;
            }
        }
        self.told = self.told.wrapping_add(1);
        self.memory.store(LINKS_CHANGED, self.told);
        Ok(())
    }

    /// True if descriptors may be on the way to it, whatever it says, and whatever has become of their link.
    pub(super) fn awaits_descriptors(&mut self) -> bool {
        self.offered = self.offered && is_unread(&self.control);
        self.offered
    }

    /// Copies the payload of that packet.
    #[inline]
    pub(super) fn take(&mut self, payload: &mut [u8]) {
        self.sent.take(&self.memory, payload);
        self.counts.sent += 1;
    }

    /// Gives the room of what was taken back to the client.
    #[inline]
    pub(super) fn release(&mut self) {
        self.sent.release(&self.memory);
    }

    #[inline]
    pub(super) fn has_sent(&self) -> bool {
        !self.sent.is_empty(&self.memory)
    }

    pub(super) fn status(&self, links: u32) -> ClientStatus {
        let counts = self.counts;
        ClientStatus {
            slot: self.slot.get(),
            user: self.peer.user,
            process: self.peer.pid,
            sent: counts.sent,
            received: counts.arrived,
            refused: counts.refused,
            dropped: counts.queue_full,
            links,
        }
    }

    /// Asks the client for a message with its next packet, or undoes that.
    pub(super) fn announce_sleep(&self, sleeps: bool) {
        self.memory.store(SERVICE_SLEEPS, u32::from(sleeps));
    }
}
