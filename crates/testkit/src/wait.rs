//! Waiting for a condition instead of for a time.

use std::thread;
use std::time::{Duration, Instant};

/// How long a condition may take on a busy machine; the limit only ends a test that would wait for ever.
const LIMIT: Duration = Duration::from_secs(60);

/// How long the condition is looked at without sleep, so that what takes microseconds is seen at once.
const SPIN: Duration = Duration::from_millis(10);

/// Waits until `done` is true.
///
/// # Panics
/// It is not true after 60 seconds; the message names `what`.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        let waited = start.elapsed();
        assert!(waited < LIMIT, "in vain: {what}");
        if waited < SPIN { thread::yield_now() } else { thread::sleep(Duration::from_millis(1)) }
    }
}
