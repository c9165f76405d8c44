//! Messages of other processes, until the datapath is asked for packets.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::message::LONGEST;

/// Most queued messages: 8 MiB, allocated as needed.
const ROOM: usize = 128;

/// One message.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) len: usize,
}

#[derive(Debug)]
struct Buffers {
    empty: Vec<Box<[u8]>>,
    /// Buffers that were not allocated yet.
    unallocated: usize,
    full: VecDeque<Received>,
}

/// Queue between the redirect thread and the user of the datapath, for whom an empty queue costs no
/// lock and no system call.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffers: Mutex<Buffers>,
    /// Number of queued messages.
    count: AtomicUsize,
    /// A message was taken out, or the datapath is closed.
    changed: Condvar,
    closed: AtomicBool,
    /// The user of the datapath is about to sleep until a message comes.
    armed: AtomicBool,
    event: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let (empty, full) = (Vec::with_capacity(ROOM), VecDeque::with_capacity(ROOM));
        Ok(Self {
            buffers: Mutex::new(Buffers { empty, unallocated: ROOM, full }),
            count: AtomicUsize::new(0),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer for a message, as soon as there is one; `None` once the inbox is closed, or after `timeout`.
    pub(crate) fn room(&self, timeout: Option<Duration>) -> Option<Box<[u8]>> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let mut buffers = self.buffers();
        loop {
            if self.closed.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(bytes) = buffers.empty.pop() {
                return Some(bytes);
            }
            if buffers.unallocated > 0 {
                buffers.unallocated -= 1;
                return Some(vec![0; LONGEST].into_boxed_slice());
            }
            buffers = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(buffers).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return None,
                Some(left) => {
                    let waited = self.changed.wait_timeout(buffers, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Queues a message, and wakes the user of the datapath if it sleeps.
    pub(crate) fn put(&self, message: Received) {
        let mut buffers = self.buffers();
        buffers.full.push_back(message);
        self.count.store(buffers.full.len(), Ordering::SeqCst);
        drop(buffers);
        if self.armed.swap(false, Ordering::SeqCst) {
            // The counter of the eventfd cannot overflow by steps of one.
            rustix::io::write(&self.event, &1u64.to_ne_bytes()).ok();
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// The oldest message.
    pub(crate) fn take(&self) -> Option<Received> {
        let mut buffers = self.buffers();
        let message = buffers.full.pop_front();
        self.count.store(buffers.full.len(), Ordering::SeqCst);
        message
    }

    /// Returns the buffer of a message.
    pub(crate) fn recycle(&self, bytes: Box<[u8]>) {
        self.buffers().empty.push(bytes);
        self.changed.notify_one();
    }

    /// From now on a message makes the descriptor readable; `true` if there is one already.
    pub(crate) fn arm(&self) -> bool {
        rustix::io::read(&self.event, &mut [0; 8]).ok();
        self.armed.store(true, Ordering::SeqCst);
        !self.is_empty()
    }

    /// Ends the wait for [`room`](Self::room).
    pub(crate) fn close(&self) {
        let buffers = self.buffers();
        self.closed.store(true, Ordering::Relaxed);
        drop(buffers);
        self.changed.notify_all();
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(inbox: &Inbox, first: u8) -> Received {
        let mut bytes = inbox.room(None).expect("room");
        bytes[0] = first;
        Received { bytes, len: 1 }
    }

    #[test]
    fn messages_come_out_in_order_and_leave_their_room() {
        let inbox = Inbox::new().expect("a descriptor");
        for round in 0..3 * ROOM {
            let first = round as u8;
            inbox.put(message(&inbox, first));
            let out = inbox.take().expect("just put");
            assert_eq!((out.bytes[0], out.len), (first, 1));
            inbox.recycle(out.bytes);
        }
        assert!(inbox.is_empty() && inbox.take().is_none());
    }

    #[test]
    fn a_full_inbox_holds_the_thread_until_there_is_room_or_it_closes() {
        let inbox = Inbox::new().expect("a descriptor");
        (0..ROOM).for_each(|_| inbox.put(message(&inbox, 0)));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| (inbox.room(None).is_some(), inbox.room(None).is_none()));
            inbox.recycle(inbox.take().expect("full").bytes);
            inbox.close();
            // Whether it got the room before the end is a race; that it comes back is not.
            assert!(thread.join().expect("no panic").1);
        });
    }

    /// The thread has something else to do at times, whether the application polls or not.
    #[test]
    fn a_wait_for_room_may_have_an_end() {
        let inbox = Inbox::new().expect("a descriptor");
        (0..ROOM).for_each(|_| inbox.put(message(&inbox, 0)));
        assert!(inbox.room(Some(Duration::from_millis(1))).is_none());
        inbox.recycle(inbox.take().expect("full").bytes);
        assert!(inbox.room(Some(Duration::ZERO)).is_some());
    }

    #[test]
    fn only_the_armed_are_woken() {
        let inbox = Inbox::new().expect("a descriptor");
        inbox.put(message(&inbox, 0));
        assert!(rustix::io::read(&inbox, &mut [0; 8]).is_err(), "the user is awake");
        assert!(inbox.arm(), "one is there");
        inbox.put(message(&inbox, 1));
        assert!(rustix::io::read(&inbox, &mut [0; 8]).is_ok(), "woken");
    }
}
