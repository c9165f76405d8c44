//! Yields to other threads on the only processor.

use std::sync::atomic::{AtomicU32, Ordering};

use uroce_transport::Instant;

/// A yield that took at least this long (ns) has let another thread run.
const USEFUL_YIELD_NS: u64 = 3_000;
/// Most empty polls without a yield.
const MAX_EMPTY_POLLS: u32 = 63;

/// Decides when a thread whose polls are empty yields.
///
/// With one processor for this process, the peer may be waiting for it. Or the peer has a processor
/// of its own, where each process is pinned to one: then a yield is a useless system call that
/// delays packets. A yield that let no other thread run makes the next one rarer.
#[derive(Debug, Default)]
pub(crate) struct YieldBackoff {
    /// Empty polls until the next yield.
    left: AtomicU32,
    /// Empty polls between the last two yields.
    pause: AtomicU32,
}

impl YieldBackoff {
    /// Handles an empty poll. Calls `yield_now` if a yield is due, and measures by `now` how long
    /// it took.
    pub(crate) fn handle_empty_poll(&self, now: impl Fn() -> Instant, yield_now: impl FnOnce()) {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            return self.left.store(left - 1, Ordering::Relaxed);
        }
        let before = now();
        yield_now();
        let useful = now().since(before) >= USEFUL_YIELD_NS;
        let pause = if useful { 0 } else { self.pause.load(Ordering::Relaxed) * 2 + 1 };
        self.pause.store(pause.min(MAX_EMPTY_POLLS), Ordering::Relaxed);
        self.left.store(pause.min(MAX_EMPTY_POLLS), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How many of `polls` polls yield when each yield takes so long.
    fn yields(yield_backoff: &YieldBackoff, polls: u32, takes_ns: u64) -> u32 {
        let (time, count) = (Cell::new(0), Cell::new(0));
        for _ in 0..polls {
            yield_backoff.handle_empty_poll(
                || Instant::from_nanos(time.get()),
                || {
                    time.set(time.get() + takes_ns);
                    count.set(count.get() + 1);
                },
            );
        }
        count.get()
    }

    #[test]
    fn yields_that_help_nobody_become_rare() {
        let yield_backoff = YieldBackoff::default();
        assert!(yields(&yield_backoff, 64, 500) < 8);
        assert_eq!(yields(&yield_backoff, 640, 500), 10);
    }

    #[test]
    fn one_that_let_somebody_run_is_followed_by_the_next() {
        let yield_backoff = YieldBackoff::default();
        yields(&yield_backoff, 1000, 500);
        assert!(yields(&yield_backoff, 200, 50_000) > 200 - 64);
    }
}
