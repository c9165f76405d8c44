//! One AF_XDP socket on one queue of the interface.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::reassembly::Reassembly;
use crate::refill::RefillPolicy;
use crate::sys::socket::{BindFlags, CHUNK, RingSizes, Rings, Socket};
use crate::umem::{SLOT, Slot, Umem};

/// How much a queue can hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueSize {
    /// Received chunks of 4 KiB, a power of two.
    pub(crate) receive: u32,
    /// Packets on their way out, a power of two.
    pub(crate) transmit: u32,
}

impl QueueSize {
    /// Bytes of memory that the kernel locks.
    pub(crate) fn bytes(self) -> usize {
        self.receive as usize * CHUNK + self.transmit as usize * SLOT
    }
}

/// What became of the transmit ring in one flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pushed {
    /// The kernel did not take everything.
    pub(crate) blocked: bool,
    /// Packets that the kernel took and threw away.
    pub(crate) dropped: u64,
    /// System calls.
    pub(crate) calls: u64,
}

/// Calls of one flush: the kernel takes 32 descriptors in each.
const MAX_KICKS: usize = 64;

/// A socket with its memory and rings.
#[derive(Debug)]
pub(crate) struct Queue {
    // Dropped in this order: rings and socket first, the kernel's memory last.
    rings: Rings,
    socket: Socket,
    umem: Umem,
    refill: RefillPolicy,
    frames: Reassembly,
    flags: BindFlags,
    /// Receive calls also work the driver's queue.
    busy_poll: bool,
    /// What the kernel said that cannot be.
    nonsense: u64,
}

impl Queue {
    /// Makes a socket with its rings, and lends the kernel all receive chunks.
    pub(crate) fn new(size: QueueSize) -> io::Result<Self> {
        let socket = Socket::open()?;
        let mut umem = Umem::new(size.receive as usize, size.transmit as usize)?;
        umem.register(&socket)?;
        let descs = size.transmit * 2;
        let sizes = RingSizes {
            fill: size.receive,
            completion: descs,
            receive: size.receive,
            transmit: descs,
        };
        let mut rings = socket.rings(sizes)?;
        for addr in umem.lend_all() {
            assert!(rings.fill.push(addr), "the fill ring holds every chunk");
        }
        rings.fill.publish();
        let flags = BindFlags { zero_copy: false, multi_buffer: false };
        let (refill, frames) = (RefillPolicy::new(size.receive), Reassembly::default());
        Ok(Self { rings, socket, umem, refill, frames, flags, busy_poll: false, nonsense: 0 })
    }

    /// Takes the queue of the interface.
    pub(crate) fn bind(&mut self, interface: u32, queue: u32, flags: BindFlags) -> io::Result<()> {
        self.socket.bind(interface, queue, flags)?;
        self.socket.enlarge_send_buffer(SEND_BUFFER);
        self.flags = flags;
        if flags.zero_copy {
            // The card takes them in advance.
            self.keep_nothing();
        }
        Ok(())
    }

    /// From now on the kernel has all chunks but those that are being read.
    pub(crate) fn keep_nothing(&mut self) {
        self.refill.keep_nothing();
    }

    /// Lets [`receive`](Self::receive) work the driver's queue.
    pub(crate) fn busy_poll(&mut self, micros: u32) -> io::Result<()> {
        self.socket.busy_poll(micros, BUSY_POLL_BUDGET)?;
        self.busy_poll = true;
        Ok(())
    }

    /// A slot for a packet; `None` when all are on their way.
    #[inline]
    pub(crate) fn slot(&mut self) -> Option<Slot> {
        let slot = self.umem.slot();
        if slot.is_some() {
            return slot;
        }
        self.reclaim();
        self.umem.slot()
    }

    /// Whether [`slot`](Self::slot) has one.
    #[inline]
    pub(crate) fn has_slot(&self) -> bool {
        self.umem.has_slot()
    }

    /// The slot's bytes.
    #[inline]
    pub(crate) fn space(&mut self, slot: &Slot) -> &mut [u8] {
        self.umem.space(slot)
    }

    /// Lets `write` prepare every slot that is free.
    pub(crate) fn for_every_slot(&mut self, mut write: impl FnMut(&mut [u8])) {
        let slots: Vec<Slot> = std::iter::from_fn(|| self.umem.slot()).collect();
        for slot in slots {
            write(self.umem.space(&slot));
            self.umem.discard(slot);
        }
    }

    /// Gives up a slot unsent.
    pub(crate) fn discard(&mut self, slot: Slot) {
        self.umem.discard(slot);
    }

    /// Puts the frame in the transmit ring, for the next [`flush`](Self::flush).
    #[inline]
    pub(crate) fn send(&mut self, slot: Slot, frame: Range<usize>) {
        let (first, second) = self.umem.send(slot, frame);
        let mut fits = self.rings.transmit.push(first);
        if let Some(second) = second {
            fits &= self.rings.transmit.push(second);
        }
        debug_assert!(fits, "the transmit ring holds two descriptors for every slot");
    }

    /// Shows the kernel what was put into the ring, and takes back what it has sent.
    ///
    /// # Errors
    ///
    /// When the interface is down or gone.
    pub(crate) fn flush(&mut self) -> io::Result<Pushed> {
        self.rings.transmit.publish();
        let mut pushed = Pushed::default();
        let mut waiting = self.rings.transmit.waiting();
        while waiting > 0 && pushed.calls < MAX_KICKS as u64 && self.rings.transmit.needs_wakeup() {
            pushed.calls += 1;
            pushed.dropped += u64::from(dropped(self.socket.kick_transmit())?);
            let left = self.rings.transmit.waiting();
            if self.flags.zero_copy || left == waiting {
                break;
            }
            waiting = left;
        }
        // Without a copy the driver empties the ring by itself.
        pushed.blocked = !self.flags.zero_copy && self.rings.transmit.waiting() > 0;
        self.reclaim();
        Ok(pushed)
    }

    /// Takes back the slots of packets that are sent.
    fn reclaim(&mut self) {
        while let Some(addr) = self.rings.completion.pop() {
            self.nonsense += u64::from(!self.umem.completed(addr));
        }
        self.rings.completion.release();
    }

    /// Hands frames to `sink`, oldest first, until it wants no more or none is left.
    pub(crate) fn receive(&mut self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let Self { rings, umem, refill, frames, .. } = self;
        self.nonsense += receive(rings, umem, refill, frames, sink);
    }

    /// The datapath may not be polled for a while: the kernel gets every chunk.
    pub(crate) fn prepare_sleep(&mut self) {
        self.refill.refill_all(&mut self.rings.fill, &mut self.umem);
    }

    /// Calls the kernel when it waits for that; returns how many system calls it took.
    pub(crate) fn wake_receiver(&mut self) -> u64 {
        let driver_waits = self.flags.zero_copy && self.rings.fill.needs_wakeup();
        if !driver_waits && !self.busy_poll {
            return 0;
        }
        if let Err(error) = self.socket.kick_receive()
            && Errno::from_io_error(&error) != Some(Errno::AGAIN)
        {
            tracing::debug!(%error, "waking the driver");
        }
        1
    }

    /// Whether something is there to receive.
    #[inline]
    pub(crate) fn has_frame(&mut self) -> bool {
        self.rings.receive.has_entry()
    }

    /// Frames that were lost between the interface and us.
    pub(crate) fn lost(&self) -> u64 {
        self.socket.lost().saturating_add(self.nonsense)
    }

    /// Frames that were longer than any IP packet.
    pub(crate) fn oversized(&self) -> u64 {
        self.frames.oversized()
    }

    /// How the socket sits on its queue.
    pub(crate) fn flags(&self) -> BindFlags {
        self.flags
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Hands frames to `sink` and their chunks back to the kernel; returns how many descriptors could
/// not be.
pub(crate) fn receive(
    rings: &mut Rings,
    umem: &mut Umem,
    refill: &mut RefillPolicy,
    frames: &mut Reassembly,
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> u64 {
    let mut nonsense = 0;
    let (mut wanted, mut taken) = (true, false);
    while wanted && let Some(desc) = rings.receive.pop() {
        taken = true;
        let Some(chunk) = umem.claim(desc) else {
            nonsense += 1;
            continue;
        };
        let bytes = umem.received(&chunk);
        wanted = frames.take(bytes, chunk.continued).is_none_or(&mut *sink);
        refill.put(chunk);
    }
    // An empty poll touches one line of memory only: the kernel writes to the others for each
    // packet.
    if taken {
        rings.receive.release();
        refill.refill(&mut rings.fill, umem);
    }
    nonsense
}

/// Room for packets that are sent and not yet consumed by the other end of a virtual link.
const SEND_BUFFER: u32 = 8 * 1024 * 1024;

/// Packets that one busy-polling call may take from the driver.
const BUSY_POLL_BUDGET: u32 = 64;

/// Whether the kernel threw a packet away in this call; errors that pass are no errors.
fn dropped(result: io::Result<()>) -> io::Result<bool> {
    let Err(error) = result else {
        return Ok(false);
    };
    match Errno::from_io_error(&error) {
        // The device's own queue was full: the packet is gone.
        Some(Errno::BUSY) => Ok(true),
        // The kernel did its share for one call, or has no memory for now.
        Some(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => Ok(false),
        _ => Err(error),
    }
}
