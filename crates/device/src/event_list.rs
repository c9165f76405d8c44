//! A list of events with a file descriptor that is readable exactly while the list is not empty.

use crate::eventfd::{EventFd, wait_readable};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bounded, and no event is lost: an event equal to one that nobody fetched yet is merged with it,
/// so the length cannot exceed the number of different events.
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
        if pending.contains(&event) {
            return true;
        }
        if pending.len() >= self.limit {
            return false;
        }
        pending.push_back(event);
        if pending.len() == 1 {
            self.fd.signal();
        }
        true
    }

    /// The oldest event, if there is one.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut pending = self.lock();
        let event = pending.pop_front();
        if event.is_some() && pending.is_empty() {
            self.fd.clear();
        }
        event
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
    use super::*;
    use std::sync::Arc;

    #[test]
    fn equal_events_are_merged_and_order_is_kept() {
        let list = EventList::new(8).expect("eventfd");
        for event in [1, 2, 1, 3, 2] {
            assert!(list.push(event));
        }
        assert_eq!(std::iter::from_fn(|| list.pop()).collect::<Vec<_>>(), [1, 2, 3]);
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
