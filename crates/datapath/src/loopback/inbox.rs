//! The receiving side of a loopback endpoint: bursts waiting to be read.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};

use super::neighbour::{Handovers, Neighbour, Visit};
use super::ring::{self, Apart, Next, Ring, SLOTS};
use crate::burst::{Burst, PACKET_ROOM, Train, TrainLimit};

/// Packets between two flushes.
pub(super) const BATCH: usize = 64;

/// Bytes between two flushes, about: the receiver works on them while the next ones are made.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// Packets in one waiting burst, into which several flushes may go.
const PARCEL_PACKETS: usize = 1024;

/// Bytes in one waiting burst.
const PARCEL_BYTES: usize = BATCH * PACKET_ROOM;

/// Bursts that an inbox holds; with all of them full the next packets are dropped.
const DEPTH: usize = 16;

/// With fewer empty bursts than this, packets are copied behind those that wait.
const RESERVE: usize = DEPTH / 2;

/// A burst of up to this many bytes is always copied behind a waiting one: that is cheaper than
/// another exchange.
const COPY_BYTES: usize = 2 * 1024;

/// Small trains that may wait in the ring; what comes then waits on the shelf, where there is more room.
const BACKLOG: usize = 32;

/// Trains of a small burst: each takes a slot of the ring.
const SMALL_TRAINS: usize = 4;

/// Bursts waiting, and empty ones in exchange.
#[derive(Debug)]
struct Shelf {
    waiting: VecDeque<Burst>,
    empty: Vec<Burst>,
}

/// What those who send have to agree on.
#[derive(Debug)]
struct Tail {
    /// Number of the next slot.
    next: usize,
    /// Up to this number small trains may be put into the ring without another look.
    small_until: usize,
    /// What was sent last is on the shelf; so more can be put with it.
    shelved: bool,
}

/// Where the packets for one address wait.
///
/// Small trains are copied through the ring. For others a sender gives a full burst and takes an empty
/// one for it, so nothing is copied and the number of bursts never changes.
pub(super) struct Inbox {
    ring: Ring,
    tail: Apart<Mutex<Tail>>,
    shelf: Apart<Mutex<Shelf>>,
    /// The receiver is about to sleep.
    armed: Apart<AtomicBool>,
    dropped: AtomicUsize,
    closed: AtomicBool,
    /// The user may be visited.
    invites: AtomicBool,
    /// Locked while he is met.
    user: Mutex<Option<Weak<dyn Neighbour>>>,
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
        let shelf = Shelf { waiting: VecDeque::with_capacity(DEPTH), empty };
        Ok(Self {
            ring: Ring::new(),
            tail: Apart(Mutex::new(Tail { next: 0, small_until: 0, shelved: false })),
            shelf: Apart(Mutex::new(shelf)),
            armed: Apart(AtomicBool::new(false)),
            dropped: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            invites: AtomicBool::new(false),
            user: Mutex::new(None),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Takes all packets of `burst`, which is empty afterwards. The receiver is not told: see
    /// [`wake`](Self::wake) and [`visit`](Self::visit).
    pub(super) fn give(&self, burst: &mut Burst) {
        let mut tail = self.tail();
        if self.is_small(&mut tail, burst.trains()) {
            for train in burst.trains() {
                self.put_small(&mut tail, burst, train);
            }
            burst.clear();
            return;
        }
        let mut shelf = self.shelf();
        let small = burst.bytes() <= COPY_BYTES || shelf.empty.len() < RESERVE;
        let before = shelf.waiting.len();
        let dropped = match shelf.waiting.back_mut() {
            Some(last) if small && tail.shelved && last.fits(burst.packets(), burst.bytes()) => {
                let lost = copy_all(last, burst);
                burst.clear();
                lost
            }
            _ if self.ring.is_free(tail.next) => exchange(&mut shelf, burst),
            _ => lose(burst),
        };
        self.announce(&mut tail, shelf, before, dropped);
    }

    /// Takes a copy of one train of `burst`. The receiver is not told.
    pub(super) fn give_copy(&self, burst: &Burst, train: &Train) {
        let mut tail = self.tail();
        if self.is_small(&mut tail, std::slice::from_ref(train)) {
            self.put_small(&mut tail, burst, train);
            return;
        }
        let mut shelf = self.shelf();
        let before = shelf.waiting.len();
        let mut left = *train;
        if let Some(last) = shelf.waiting.back_mut().filter(|_| tail.shelved) {
            let fitted = last.append(burst, &left);
            left = left.without(fitted);
        }
        if left.packets > 0
            && self.ring.is_free(tail.next)
            && let Some(mut fresh) = shelf.empty.pop()
        {
            let fitted = fresh.append(burst, &left);
            left = left.without(fitted);
            shelf.waiting.push_back(fresh);
        }
        self.announce(&mut tail, shelf, before, left.packets);
    }

    /// Whether the trains go into the ring. Looked at once for many, since the look takes a cache line
    /// away from the receiver: of the slots in use, bursts take [`DEPTH`], trains [`BACKLOG`].
    fn is_small(&self, tail: &mut Tail, trains: &[Train]) -> bool {
        if trains.len() > SMALL_TRAINS || !trains.iter().all(ring::fits) {
            return false;
        }
        if tail.next + trains.len() > tail.small_until {
            // What was sent this many numbers ago has been read, if the slot is free.
            let ahead = SLOTS - BACKLOG / 2;
            if !self.ring.is_free(tail.next + ahead) {
                return false;
            }
            tail.small_until = tail.next + BACKLOG / 2;
        }
        true
    }

    fn put_small(&self, tail: &mut Tail, burst: &Burst, train: &Train) {
        self.ring.put_train(tail.next, train, burst.train_bytes(train));
        tail.next += 1;
        tail.shelved = false;
        if tail.next < tail.small_until {
            self.ring.fetch(tail.next);
        }
    }

    /// Counts what was dropped, and tells of a burst that is on the shelf now but was not `before`.
    fn announce(
        &self,
        tail: &mut Tail,
        shelf: MutexGuard<'_, Shelf>,
        before: usize,
        dropped: usize,
    ) {
        let fresh = shelf.waiting.len() > before;
        drop(shelf);
        if fresh {
            self.ring.put_parcel(tail.next);
            tail.next += 1;
            tail.shelved = true;
        }
        if dropped > 0 {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// Wakes the receiver if it sleeps; returns whether it did.
    pub(super) fn wake(&self) -> bool {
        // In one order with `arm`: either it sees what was sent, or we that it sleeps.
        let wake =
            self.armed.0.load(Ordering::SeqCst) && self.armed.0.swap(false, Ordering::SeqCst);
        if wake {
            // The only possible error is a full counter, and then the descriptor is readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
        wake
    }

    /// Puts what is next in place of `done`; `false` when nothing waits.
    pub(super) fn take(&self, done: &mut Burst) -> bool {
        if self.ring.is_empty() {
            return false;
        }
        done.clear();
        match self.ring.next(done) {
            Next::Nothing => false,
            Next::Train => true,
            Next::Parcel => {
                let mut shelf = self.shelf();
                let Some(next) = shelf.waiting.pop_front() else {
                    return false;
                };
                let done = std::mem::replace(done, next);
                shelf.empty.push(done);
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

    /// Who is met here from now on. When it returns, whoever was before is met no more.
    pub(super) fn introduce(&self, user: Option<Weak<dyn Neighbour>>) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = user;
    }

    /// Whether he may be visited.
    pub(super) fn invite(&self, welcome: bool) {
        self.invites.store(welcome, Ordering::SeqCst);
    }

    pub(super) fn invites(&self) -> bool {
        self.invites.load(Ordering::Relaxed)
    }

    /// Visits whoever has invited, if nobody else does.
    pub(super) fn visit(&self, further: &mut Handovers) -> Visit {
        let visit = |user: &dyn Neighbour| user.visit(further);
        if self.invites() { self.meet(visit).unwrap_or(Visit::Busy) } else { Visit::Busy }
    }

    /// Calls `call` with the user, if nobody else does that now.
    pub(super) fn meet<T>(&self, call: impl FnOnce(&dyn Neighbour) -> T) -> Option<T> {
        let user = self.user.try_lock().ok()?;
        // Given back before the lock is: see `introduce`.
        let met = user.as_ref().and_then(Weak::upgrade);
        met.map(|user| call(&*user))
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

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty burst of the one size that all endpoints exchange.
pub(super) fn new_burst() -> Burst {
    Burst::with_room(PARCEL_PACKETS, PARCEL_BYTES, TrainLimit::NONE)
}

/// Swaps `burst` with an empty one, or empties it when there is none; returns the packets lost.
fn exchange(shelf: &mut Shelf, burst: &mut Burst) -> usize {
    let Some(fresh) = shelf.empty.pop() else {
        return lose(burst);
    };
    shelf.waiting.push_back(std::mem::replace(burst, fresh));
    0
}

/// Empties `burst`; returns the packets lost.
fn lose(burst: &mut Burst) -> usize {
    let lost = burst.packets();
    burst.clear();
    lost
}

/// Copies every train of `burst` behind `last`; returns the packets that found no room.
fn copy_all(last: &mut Burst, burst: &Burst) -> usize {
    let trains = burst.trains().iter();
    trains.map(|train| train.packets - last.append(burst, train)).sum()
}
