//! The receiving side of a loopback endpoint: bursts waiting to be read.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

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

/// Bursts waiting, empty ones in exchange, and whether the receiver is about to sleep.
#[derive(Debug)]
struct Shelf {
    waiting: VecDeque<Burst>,
    empty: Vec<Burst>,
    armed: bool,
}

/// Keeps a value away from its neighbours' cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// Where the packets for one address wait.
///
/// A sender gives a full burst and takes an empty one for it, so nothing is copied and the number
/// of bursts never changes.
#[derive(Debug)]
pub(super) struct Inbox {
    shelf: Mutex<Shelf>,
    /// Length of `waiting`, to be read without the lock by a spinning receiver. It follows a moment
    /// later, so that the receiver does not run into a lock that is still held.
    ready: Apart<AtomicUsize>,
    dropped: AtomicUsize,
    closed: AtomicBool,
    event: OwnedFd,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let empty = (0..DEPTH).map(|_| new_burst()).collect();
        let shelf = Shelf { waiting: VecDeque::with_capacity(DEPTH), empty, armed: false };
        Ok(Self {
            shelf: Mutex::new(shelf),
            ready: Apart(AtomicUsize::new(0)),
            dropped: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Takes all packets of `burst`, which is empty afterwards; returns whether it woke the receiver.
    pub(super) fn give(&self, burst: &mut Burst) -> bool {
        let mut shelf = self.shelf();
        let before = shelf.waiting.len();
        let small = burst.bytes() <= COPY_BYTES || shelf.empty.len() < RESERVE;
        let dropped = match shelf.waiting.back_mut() {
            Some(last) if small && last.fits(burst.packets(), burst.bytes()) => {
                let lost = copy_all(last, burst);
                burst.clear();
                lost
            }
            _ => exchange(&mut shelf, burst),
        };
        self.finish(shelf, before, dropped)
    }

    /// Takes a copy of one train of `burst`; returns whether it woke the receiver.
    pub(super) fn give_copy(&self, burst: &Burst, train: &Train) -> bool {
        let mut shelf = self.shelf();
        let before = shelf.waiting.len();
        let mut left = *train;
        if let Some(last) = shelf.waiting.back_mut() {
            let fitted = last.append(burst, &left);
            left = left.without(fitted);
        }
        if left.packets > 0
            && let Some(mut fresh) = shelf.empty.pop()
        {
            let fitted = fresh.append(burst, &left);
            left = left.without(fitted);
            shelf.waiting.push_back(fresh);
        }
        self.finish(shelf, before, left.packets)
    }

    /// Gives the lock back and tells the receiver; `before` bursts waited when it was taken.
    fn finish(&self, mut shelf: MutexGuard<'_, Shelf>, before: usize, dropped: usize) -> bool {
        let fresh = shelf.waiting.len() - before;
        let wake = std::mem::take(&mut shelf.armed);
        drop(shelf);
        if fresh > 0 {
            self.ready.0.fetch_add(fresh, Ordering::Release);
        }
        if dropped > 0 {
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        if wake {
            // The only possible error is a full counter, and then the descriptor is readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
        wake
    }

    /// Puts the oldest waiting burst in place of `done`; `false` when none waits.
    pub(super) fn take(&self, done: &mut Burst) -> bool {
        if self.ready.0.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut shelf = self.shelf();
        let Some(next) = shelf.waiting.pop_front() else {
            return false;
        };
        let mut done = std::mem::replace(done, next);
        done.clear();
        shelf.empty.push(done);
        drop(shelf);
        // Wraps round for a moment when the sender has not counted its burst yet.
        self.ready.0.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Asks for a wake-up; `true` when packets wait already.
    pub(super) fn arm(&self) -> bool {
        // An earlier wake-up must not end the coming sleep at once.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        let mut shelf = self.shelf();
        shelf.armed = shelf.waiting.is_empty();
        !shelf.armed
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

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty burst of the one size that all endpoints exchange.
pub(super) fn new_burst() -> Burst {
    Burst::with_room(PARCEL_PACKETS, PARCEL_BYTES, TrainLimit::NONE)
}

/// Swaps `burst` with an empty one, or empties it when there is none; returns the packets lost.
fn exchange(shelf: &mut Shelf, burst: &mut Burst) -> usize {
    let Some(fresh) = shelf.empty.pop() else {
        let lost = burst.packets();
        burst.clear();
        return lost;
    };
    shelf.waiting.push_back(std::mem::replace(burst, fresh));
    0
}

/// Copies every train of `burst` behind `last`; returns the packets that found no room.
fn copy_all(last: &mut Burst, burst: &Burst) -> usize {
    let trains = burst.trains().iter();
    trains.map(|train| train.packets - last.append(burst, train)).sum()
}
