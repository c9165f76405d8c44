//! A client that has a place.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{Ordering, fence};

use uroce_datapath::RxPacket;
use uroce_host::process::Peer;
use uroce_wire::{DropReason, FlowIcrc, Slot};

use crate::control::ControlSocket;
use crate::head::{ArrivedHead, HeadBytes, MAX_PAYLOAD, MIN_PAYLOAD, SentHead};
use crate::message::ServiceMessage;
use crate::ring::{
    ARRIVED, BadRing, CLIENT_SLEEPS, DROPPED, RingReceiver, RingSender, SENT, SERVICE_SLEEPS,
};
use crate::status::ClientStatus;
use crate::sys::shared_memory::SharedMemory;

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
        if self.arrived.push(&self.memory, &head.encode(), rx.payload) {
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

    /// The head of the next packet that the client sends.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<SentHead>, BadRing> {
        let head: Option<HeadBytes> = self.sent.next(&self.memory)?;
        head.map(|head| SentHead::decode(&head).ok_or(BadRing)).transpose()
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

    pub(super) fn status(&self) -> ClientStatus {
        let counts = self.counts;
        ClientStatus {
            slot: self.slot.get(),
            user: self.peer.user,
            process: self.peer.pid,
            sent: counts.sent,
            received: counts.arrived,
            refused: counts.refused,
            dropped: counts.queue_full,
        }
    }

    /// Asks the client for a message with its next packet, or undoes that.
    pub(super) fn announce_sleep(&self, sleeps: bool) {
        self.memory.store(SERVICE_SLEEPS, u32::from(sleeps));
    }
}
