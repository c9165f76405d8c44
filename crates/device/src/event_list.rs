//! A list of events with a file descriptor that is readable exactly while the list is not empty.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::eventfd::{EventFd, wait_readable};

/// Bounded, and no event is lost: [`push`](Self::push) merges an event with an equal one that was not fetched yet, so the
/// length cannot exceed the number of different events. Behind [`append`](Self::append) it is as long as its callers
/// make it.
#[derive(Debug)]
pub(crate) struct EventList<T> {
    fd: EventFd,
    pending: Mutex<VecDeque<T>>,
    limit: usize,
}

impl<T: PartialEq> EventList<T> {
    /// `limit`: most undelivered events; what comes beyond is refused by [`push`](Self::push).
    pub(crate) fn new(limit: usize) -> io::Result<Self> {
        Ok(EventList { fd: EventFd::new()?, pending: Mutex::new(VecDeque::new()), limit })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends `event` unless an equal one waits already. False: the list is full, the event is lost.
    pub(crate) fn push(&self, event: T) -> bool {
        let mut pending = self.lock();
        pending.contains(&event) || self.append_to(&mut pending, event)
    }

    /// Appends `event`, also if an equal one waits. False: the list is full, the event is lost.
    pub(crate) fn append(&self, event: T) -> bool {
        self.append_to(&mut self.lock(), event)
    }

    fn append_to(&self, pending: &mut VecDeque<T>, event: T) -> bool {
        if pending.len() >= self.limit {
            return false;
        }
        pending.push_back(event);
        debug_assert!(pending.len() <= self.limit, "{} events of {}", pending.len(), self.limit);
        if pending.len() == 1 {
            self.fd.signal();
        }
        true
    }

    /// As [`push`](Self::push), but the event is the last one afterwards, even if an equal one was
    /// queued before others: a reader that reaches the end knows the latest state.
    pub(crate) fn push_last(&self, event: T) -> bool {
        let mut pending = self.lock();
        if let Some(place) = pending.iter().position(|waiting| *waiting == event) {
            let moved = pending.remove(place);
            pending.extend(moved);
            return true;
        }
        drop(pending);
        self.push(event)
    }

    /// The oldest event, if there is one.
    pub(crate) fn pop(&self) -> Option<T> {
        self.pop_noted(|_| ())
    }

    /// The oldest event, if there is one. `note` is called with it before its removal is visible,
    /// so that a concurrent [`retain`](Self::retain) finds the event either in the list or noted.
    fn pop_noted(&self, note: impl FnOnce(&T)) -> Option<T> {
        let mut pending = self.lock();
        let event = pending.pop_front()?;
        note(&event);
        if pending.is_empty() {
            self.fd.clear();
        }
        Some(event)
    }

    /// The oldest event; sleeps as read(2) of the descriptor does.
    pub(crate) fn read(&self) -> io::Result<T> {
        loop {
            if let Some(event) = self.pop_after_read(|_| ()) {
                return Ok(event);
            }
            self.fd.read()?;
        }
    }

    /// The oldest event, if there is one, for a caller that may have read the descriptor. There may be more, which others sleep
    /// for: it is readable as long as events wait. For `note` see [`pop_noted`](Self::pop_noted).
    pub(crate) fn pop_after_read(&self, note: impl FnOnce(&T)) -> Option<T> {
        let event = self.pop_noted(note)?;
        // Locked until the signal is out: another thread that takes the last event clears the descriptor afterwards.
        let pending = self.lock();
        if !pending.is_empty() {
            self.fd.signal();
        }
        Some(event)
    }

    /// Forgets the events for which `keep` says no (their object is gone).
    pub(crate) fn retain(&self, keep: impl FnMut(&T) -> bool) {
        let mut pending = self.lock();
        let had_events = !pending.is_empty();
        pending.retain(keep);
        if had_events && pending.is_empty() {
            self.fd.clear();
        }
    }

    /// Waits for an event; `None` as timeout waits for ever, zero only looks.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<Option<T>> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            if let Some(event) = self.pop() {
                return Ok(Some(event));
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left.is_some_and(|d| d.is_zero()) {
                return Ok(None);
            }
            wait_readable(&[self.fd.as_fd()], left)?;
        }
    }
}

impl<T> AsFd for EventList<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn equal_events_are_merged_and_order_is_kept() {
        let list = EventList::new(8).expect("eventfd");
        for event in [1, 2, 1, 3, 2] {
            assert!(list.push(event));
        }
        assert_eq!(std::iter::from_fn(|| list.pop()).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn appended_events_are_not_merged() {
        let list = EventList::new(3).expect("eventfd");
        assert!([1, 1, 1].into_iter().all(|event| list.append(event)));
        assert!(!list.append(1), "the limit is exact");
        assert_eq!(std::iter::from_fn(|| list.pop()).collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn v47_the_last_event_is_the_one_that_came_last() {
        let list = EventList::new(2).expect("eventfd");
        for event in [1, 2, 1] {
            assert!(list.push_last(event));
        }
        assert!(!list.push_last(3));
        assert_eq!(std::iter::from_fn(|| list.pop()).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn the_limit_is_exact() {
        let list = EventList::new(2).expect("eventfd");
        assert!(list.push(1));
        assert!(list.push(2));
        assert!(!list.push(3));
        assert!(list.push(2));
    }

    #[test]
    fn retained_away_events_do_not_leave_the_descriptor_readable() {
        let list = EventList::new(2).expect("eventfd");
        list.push(1);
        list.retain(|event| *event != 1);
        assert_eq!(list.wait(Some(Duration::from_millis(5))).expect("poll"), None);
        list.push(2);
        assert_eq!(list.wait(Some(Duration::from_millis(5))).expect("poll"), Some(2));
    }

    #[test]
    fn v2_an_event_is_noted_before_it_is_gone() {
        let list = Arc::new(EventList::new(8).expect("eventfd"));
        list.push(1);
        let (retained, is_over) = std::sync::mpsc::channel();
        let destroyer = Arc::clone(&list);
        let got = list.pop_after_read(|_| {
            let retained = retained.clone();
            let destroyer = Arc::clone(&destroyer);
            std::thread::spawn(move || {
                destroyer.retain(|_| false);
                retained.send(())
            });
            let early = is_over.recv_timeout(Duration::from_millis(50));
            assert!(early.is_err(), "an event was neither in the list nor noted");
        });
        assert_eq!(got.expect("an event waits"), 1);
        is_over.recv_timeout(Duration::from_secs(10)).expect("the list is free");
    }

    #[test]
    fn v1_a_program_that_reads_the_descriptor_stops_nobody() {
        let list = Arc::new(EventList::new(8).expect("eventfd"));
        rustix::io::ioctl_fionbio(&list.fd, false).expect("FIONBIO");
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            list.push(1);
            list.fd.read().expect("the program steals the signal");
            let first = list.pop();
            list.push(2);
            list.fd.read().expect("and again");
            list.retain(|_| false);
            done.send((first, list.push(3), list.read().ok()))
        });
        let end = ended.recv_timeout(Duration::from_secs(10));
        assert_eq!(end, Ok((Some(1), true, Some(3))));
    }

    #[test]
    fn v1_sleeping_readers_get_every_event_once() {
        const EVENTS: u32 = 3000;
        let list = EventList::new(usize::MAX).expect("eventfd");
        rustix::io::ioctl_fionbio(&list.fd, false).expect("FIONBIO");
        let taken = Mutex::new(Vec::new());
        let take = || {
            loop {
                match list.read().expect("nothing interrupts") {
                    u32::MAX => break,
                    event => taken.lock().expect("no panic").push(event),
                }
            }
            // So do the others.
            list.push(u32::MAX);
        };
        std::thread::scope(|scope| {
            let readers = [(); 3].map(|()| scope.spawn(take));
            assert!((0..EVENTS).all(|event| list.push(event)));
            list.push(u32::MAX);
            readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
        });
        let mut taken = taken.into_inner().expect("no panic");
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..EVENTS));
    }

    #[test]
    fn a_sleeper_gets_every_event() {
        let list = Arc::new(EventList::new(100_000).expect("eventfd"));
        let writer = Arc::clone(&list);
        let thread = std::thread::spawn(move || (0..10_000).all(|event| writer.push(event)));
        for expected in 0..10_000 {
            let got = list.wait(Some(Duration::from_secs(10))).expect("poll");
            assert_eq!(got, Some(expected));
        }
        assert!(thread.join().expect("the writer does not panic"));
    }
}
