//! Events that a program has to acknowledge.

use std::sync::{Condvar, Mutex, PoisonError};

/// Events that the program has fetched and not yet acknowledged. An object is not destroyed while
/// there are some: the program may still use its pointer.
#[derive(Debug, Default)]
pub struct Unacknowledged {
    count: Mutex<u32>,
    none: Condvar,
}

impl Unacknowledged {
    /// The program fetches one more.
    pub fn add(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// The program acknowledges so many.
    pub fn acknowledge(&self, events: u32) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_sub(events);
        self.none.notify_all();
    }

    /// Sleeps until all are acknowledged.
    pub fn wait(&self) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.none.wait_while(count, |count| *count > 0));
    }
}
