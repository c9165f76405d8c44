//! Giving way to others on the only processor.

use std::sync::atomic::{AtomicU32, Ordering};
use uroce_transport::Instant;

/// A yield that took this long (ns) let somebody run.
const USEFUL_YIELD_NS: u64 = 3_000;
/// Most polls in vain without a yield.
const MAX_EMPTY_POLLS: u32 = 63;

/// Decides when a thread that polls in vain lets others run.
///
/// There is one processor for this process, so the peer may be waiting for it. Or it has one of its own, as where each
/// process is kept to a processor: then a yield is a system call for nothing, in which packets wait. A yield
/// that let nobody run makes the next one rarer.
#[derive(Debug, Default)]
pub(crate) struct YieldBackoff {
    /// Polls until the next yield.
    left: AtomicU32,
    /// Polls between the last yield and that one.
    pause: AtomicU32,
}

impl YieldBackoff {
    /// A poll was in vain. Calls `yield_now` if it is time, and asks `now` how long that took.
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
    use super::*;
    use std::cell::Cell;

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
