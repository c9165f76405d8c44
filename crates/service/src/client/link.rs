//! One end of a link: two rings that this client shares with another one.
//!
//! The other client is not trusted: what it writes is checked as the service checks it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};

use uroce_datapath::RxPacket;
use uroce_wire::{DropReason, Slot};

use super::attachment::{FIRST_LINK, watch};
use crate::control::ControlSocket;
use crate::head::SentHead;
use crate::message::{ClientMessage, LinkEnd};
use crate::ring::{BadRing, LINK_MEMORY, LINK_RINGS, LINK_SLEEPS, RingReceiver, RingSender};
use crate::sent_packet::{arrived, may_send};
use crate::sys::shared_memory::SharedMemory;

/// Bytes after which the other end sees what was written, although the burst goes on.
const PUBLISH_BYTES: u32 = 32 * 1024;

/// Most messages on the socket. A sound client sends one when this end is about to sleep.
const MAX_MESSAGES: usize = 16;

/// A link to another client.
#[derive(Debug)]
pub(super) struct PeerLink {
    pub(super) end: LinkEnd,
    memory: SharedMemory,
    /// For messages that wake the other end; `None` when the link has ended.
    socket: Option<ControlSocket>,
    sent: RingSender,
    arrived: RingReceiver,
    /// The service was told that this end sends over the link.
    pub(super) switched: bool,
    /// All that the other end had sent by the service was received.
    pub(super) is_open: bool,
}

impl PeerLink {
    /// The link that the service has made, watched by `epoll`.
    pub(super) fn new(
        end: LinkEnd,
        descriptors: [Option<OwnedFd>; 2],
        epoll: &OwnedFd,
    ) -> io::Result<Self> {
        let [Some(file), Some(socket)] = descriptors else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let memory = SharedMemory::open(&file, LINK_MEMORY)?;
        let socket = ControlSocket::of(socket);
        watch(epoll, &socket, FIRST_LINK + u64::from(end.number))?;
        let own = usize::from(end.sends);
        Ok(Self {
            end,
            memory,
            socket: Some(socket),
            sent: RingSender::new(LINK_RINGS[own]),
            arrived: RingReceiver::new(LINK_RINGS[1 - own]),
            switched: false,
            is_open: false,
        })
    }

    /// The link has ended: what the other end had sent is still read. It may keep the memory and go on writing, while
    /// its slot is somebody else's.
    pub(super) fn end(&mut self) {
        self.arrived.end(&self.memory);
        self.socket = None;
    }

    /// True if nothing comes any more, and all that came was read.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended() && self.arrived.is_empty(&self.memory)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.socket.is_none()
    }

    /// Writes a packet for the other end; false if there is no room: the other end does not keep up. `system_calls`
    /// counts messages.
    #[inline]
    pub(super) fn push(&mut self, head: &SentHead, packet: &[u8], system_calls: &mut u64) -> bool {
        let pushed = self.sent.push(&self.memory, &head.encode(), packet);
        if self.sent.unpublished() >= PUBLISH_BYTES {
            self.publish(system_calls);
        }
        pushed
    }

    /// Shows the other end what was written, and wakes it if it sleeps.
    #[inline]
    pub(super) fn publish(&mut self, system_calls: &mut u64) {
        if !self.sent.publish(&self.memory) {
            return;
        }
        // The other end writes the word and then looks at the ring; here it is the other way round. The fence keeps
        // this order, so one of the two sees the other.
        fence(Ordering::SeqCst);
        let word = LINK_SLEEPS[1 - usize::from(self.end.sends)];
        if self.memory.load(word) != 0 && self.memory.swap(word, 0) != 0 {
            *system_calls += 1;
            if let Some(socket) = &self.socket {
                // If its socket is full, there is something for it to read already.
                socket.send(&ClientMessage::Wake.encode()).ok();
            }
        }
    }

    /// The head of the next packet.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<SentHead>, BadRing> {
        let Some(head) = self.arrived.next(&self.memory)? else { return Ok(None) };
        SentHead::decode(&head).map(Some).ok_or(BadRing)
    }

    /// Copies the payload of that packet.
    #[inline]
    pub(super) fn take(&mut self, payload: &mut [u8]) {
        self.arrived.take(&self.memory, payload);
    }

    /// Gives the room of what was taken back to the other end.
    #[inline]
    pub(super) fn release(&mut self) {
        self.arrived.release(&self.memory);
    }

    /// The packet as a device receives it, if the other end may send it to the client that has `own` slot: the rules of
    /// the service, and nothing for others.
    #[inline]
    pub(super) fn accept<'a>(
        &self,
        (own, local): (Slot, SocketAddr),
        head: &SentHead,
        payload: &'a [u8],
    ) -> Result<RxPacket<'a>, DropReason> {
        may_send(self.end.peer, local.ip(), head, payload)?;
        if head.dst != local.ip() || payload[Slot::OFFSET] != own.get() {
            return Err(DropReason::WrongDestination);
        }
        Ok(arrived(local, head, payload))
    }

    /// True if there is something to read.
    pub(super) fn has_packets(&self) -> bool {
        self.is_open && !self.arrived.is_empty(&self.memory)
    }

    /// Asks the other end for a message with its next packet, or undoes that.
    pub(super) fn announce_sleep(&self, sleeps: bool) {
        self.memory.store(LINK_SLEEPS[usize::from(self.end.sends)], u32::from(sleeps));
    }

    /// Reads the messages that woke this end; an error if the other end has gone, or sends too many.
    pub(super) fn read_messages(&self) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        for _ in 0..MAX_MESSAGES {
            if socket.receive()?.is_none() {
                return Ok(());
            }
        }
        Err(io::Error::other("too many messages"))
    }
}
