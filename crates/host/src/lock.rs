//! Locks that a thread cannot wait for without a limit: their holder may never let go.

use std::sync::TryLockError::{Poisoned, WouldBlock};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The lock, if it is free before `end`. Where a process exits or forks, the thread that waits may be in the middle of what
/// holds it.
pub fn lock_until<T>(lock: &Mutex<T>, end: Instant) -> Option<MutexGuard<'_, T>> {
    loop {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(WouldBlock) if Instant::now() >= end => return None,
            Err(WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_waited_for_until_the_end() {
        let lock = Mutex::new(7);
        let held = lock.lock().expect("free");
        let end = Instant::now() + Duration::from_millis(20);
        assert!(lock_until(&lock, end).is_none() && Instant::now() >= end);
        drop(held);
        assert_eq!(lock_until(&lock, end).as_deref(), Some(&7), "free although the time is over");
    }
}
