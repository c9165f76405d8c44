//! The receiving side of a loopback endpoint: bursts waiting to be read.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::{fmt, io};

use rustix::event::{EventfdFlags, eventfd};

use super::ring::{self, CachePadded, Next, Ring, SLOTS};
use crate::burst::{Burst, GsoBatch, GsoLimit, PACKET_ROOM};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};

/// Packets between two flushes.
pub(super) const BATCH: usize = 64;

/// Bytes between two flushes, about: the receiver works on them while the next ones are made.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// Packets in one waiting burst, into which several flushes may go.
const BURST_PACKETS: usize = 1024;

/// Bytes in one waiting burst.
const BURST_BYTES: usize = BATCH * PACKET_ROOM;

/// Bursts that an inbox holds; with all of them full the next packets are dropped.
const DEPTH: usize = SLOTS / 4;

/// With fewer empty bursts than this, packets are copied behind those that wait.
const RESERVE: usize = DEPTH / 2;

/// A burst of up to this many bytes is always copied behind a waiting one: that is cheaper than
/// another exchange.
const COPY_BYTES: usize = 2 * 1024;

/// Most small batches in the ring; further ones go to the burst queue, which has more room.
const BACKLOG: usize = SLOTS / 2;

/// Most batches of a small burst: each takes a slot of the ring.
const SMALL_BATCHES: usize = 4;

/// Queued bursts, and empty ones in exchange.
#[derive(Debug)]
struct BurstQueue {
    waiting: VecDeque<Burst>,
    empty: Vec<Burst>,
}

/// State that the senders share.
#[derive(Debug)]
struct Tail {
    /// Number of the next slot.
    next: usize,
    /// Up to this slot number small batches may be written without another check.
    small_until: usize,
    /// The last sent burst is in the burst queue, so more packets can be appended to it.
    last_in_queue: bool,
}

/// The queue of packets for one address.
///
/// Small batches are copied through the ring. For others a sender exchanges a full burst for an
/// empty one, so nothing is copied and the number of bursts never changes.
pub(super) struct Inbox {
    ring: Ring,
    tail: CachePadded<Mutex<Tail>>,
    burst_queue: CachePadded<Mutex<BurstQueue>>,
    /// The receiver is about to sleep.
    armed: CachePadded<AtomicBool>,
    dropped: AtomicUsize,
    closed: AtomicBool,
    /// See [`LoopbackEndpoint::set_assisted`](super::LoopbackEndpoint::set_assisted).
    assisted: AtomicBool,
    event: OwnedFd,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let empty = (0..DEPTH).map(|_| new_burst()).collect();
        let burst_queue = BurstQueue { waiting: VecDeque::with_capacity(DEPTH), empty };
        Ok(Self {
            ring: Ring::new(),
            tail: CachePadded(Mutex::new(Tail { next: 0, small_until: 0, last_in_queue: false })),
            burst_queue: CachePadded(Mutex::new(burst_queue)),
            armed: CachePadded(AtomicBool::new(false)),
            dropped: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            assisted: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Takes all packets of `burst`, which is empty afterwards. The receiver is not woken: see
    /// [`wake`](Self::wake).
    pub(super) fn push(&self, burst: &mut Burst) {
        let mut tail = self.tail();
        if self.is_small(&mut tail, burst.batches()) {
            for batch in burst.batches() {
                self.put_small(&mut tail, burst, batch);
            }
            burst.clear();
            return;
        }
        let mut burst_queue = self.burst_queue();
        let small = burst.bytes() <= COPY_BYTES || burst_queue.empty.len() < RESERVE;
        let before = burst_queue.waiting.len();
        let dropped = match burst_queue.waiting.back_mut() {
            Some(last)
                if small && tail.last_in_queue && last.fits(burst.packets(), burst.bytes()) =>
            {
                let lost = copy_all(last, burst);
                burst.clear();
                lost
            }
            _ if self.ring.is_free(tail.next) => exchange(&mut burst_queue, burst),
            _ => drop_all(burst),
        };
        self.announce(&mut tail, burst_queue, before, dropped);
    }

    /// Takes a copy of one batch of `burst`. The receiver is not woken.
    pub(super) fn push_copy(&self, burst: &Burst, batch: &GsoBatch) {
        let mut tail = self.tail();
        if self.is_small(&mut tail, std::slice::from_ref(batch)) {
            self.put_small(&mut tail, burst, batch);
            return;
        }
        let mut burst_queue = self.burst_queue();
        let before = burst_queue.waiting.len();
        let mut left = *batch;
        if let Some(last) = burst_queue.waiting.back_mut().filter(|_| tail.last_in_queue) {
            let fitted = last.append(burst, &left);
            left = left.without(fitted);
        }
        if left.packets > 0
            && self.ring.is_free(tail.next)
            && let Some(mut fresh) = burst_queue.empty.pop()
        {
            let fitted = fresh.append(burst, &left);
            left = left.without(fitted);
            burst_queue.waiting.push_back(fresh);
        }
        self.announce(&mut tail, burst_queue, before, left.packets);
    }

    /// Whether the batches go into the ring. Checked once for many, since the check takes a cache
    /// line away from the receiver: of the slots in use, bursts take [`DEPTH`], batches
    /// [`BACKLOG`].
    fn is_small(&self, tail: &mut Tail, batches: &[GsoBatch]) -> bool {
        if batches.len() > SMALL_BATCHES || !batches.iter().all(ring::fits) {
            return false;
        }
        if tail.next + batches.len() > tail.small_until {
            // What was sent this many numbers ago has been read, if the slot is free.
            let ahead = SLOTS - BACKLOG / 2;
            if !self.ring.is_free(tail.next + ahead) {
                return false;
            }
            tail.small_until = tail.next + BACKLOG / 2;
        }
        true
    }

    fn put_small(&self, tail: &mut Tail, burst: &Burst, batch: &GsoBatch) {
        self.ring.put_batch(tail.next, batch, burst.batch_bytes(batch));
        tail.next += 1;
        tail.last_in_queue = false;
        if tail.next < tail.small_until {
            self.ring.prefetch(tail.next);
        }
    }

    /// Counts dropped packets, and announces a burst that is queued now but was not `before`.
    fn announce(
        &self,
        tail: &mut Tail,
        burst_queue: MutexGuard<'_, BurstQueue>,
        before: usize,
        dropped: usize,
    ) {
        let fresh = burst_queue.waiting.len() > before;
        drop(burst_queue);
        if fresh {
            self.ring.put_burst_marker(tail.next);
            tail.next += 1;
            tail.last_in_queue = true;
        }
        if dropped > 0 {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// Wakes the receiver if it sleeps; returns whether it did.
    pub(super) fn wake(&self) -> bool {
        // Sequentially consistent with `arm`: either the receiver sees the packets, or the sender
        // sees that it sleeps.
        let wake =
            self.armed.0.load(Ordering::SeqCst) && self.armed.0.swap(false, Ordering::SeqCst);
        if wake {
            // The only possible error is a full counter, and then the descriptor is readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
        wake
    }

    /// Puts what is next in place of `done`; `false` when nothing waits.
    pub(super) fn pop(&self, done: &mut Burst) -> bool {
        if self.ring.is_empty() {
            return false;
        }
        done.clear();
        match self.ring.next(done) {
            Next::Nothing => false,
            Next::Batch => true,
            Next::Burst => {
                let mut burst_queue = self.burst_queue();
                let Some(next) = burst_queue.waiting.pop_front() else {
                    return false;
                };
                let done = std::mem::replace(done, next);
                burst_queue.empty.push(done);
                true
            }
        }
    }

    /// No packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Asks for a wake-up; `true` when packets wait already.
    pub(super) fn arm(&self) -> bool {
        // An earlier wake-up must not end the coming sleep at once.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        self.armed.0.store(true, Ordering::SeqCst);
        let waits = !self.ring.is_empty();
        if waits {
            self.armed.0.store(false, Ordering::Relaxed);
        }
        waits
    }

    pub(super) fn set_assisted(&self, assisted: bool) {
        self.assisted.store(assisted, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn is_assisted(&self) -> bool {
        self.assisted.load(Ordering::Relaxed)
    }

    pub(super) fn event(&self) -> io::Result<OwnedFd> {
        self.event.try_clone()
    }

    pub(super) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn burst_queue(&self) -> MutexGuard<'_, BurstQueue> {
        self.burst_queue.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty burst of the one size that all endpoints exchange.
pub(super) fn new_burst() -> Burst {
    Burst::with_room(BURST_PACKETS, BURST_BYTES, GsoLimit::NONE)
}

/// Swaps `burst` with an empty one, or empties it when there is none; returns the packets lost.
fn exchange(burst_queue: &mut BurstQueue, burst: &mut Burst) -> usize {
    let Some(fresh) = burst_queue.empty.pop() else {
        return drop_all(burst);
    };
    burst_queue.waiting.push_back(std::mem::replace(burst, fresh));
    0
}

/// Empties `burst`; returns the packets lost.
fn drop_all(burst: &mut Burst) -> usize {
    let lost = burst.packets();
    burst.clear();
    lost
}

/// Appends a copy of every batch of `burst` to `last`; returns the number of packets that did not
/// fit.
fn copy_all(last: &mut Burst, burst: &Burst) -> usize {
    let batches = burst.batches().iter();
    batches.map(|batch| batch.packets - last.append(burst, batch)).sum()
}
