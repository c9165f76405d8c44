//! How long the service looks for packets before it sleeps.

use std::time::{Duration, Instant};

/// Time for which the service looks for packets after the last one.
const SPIN: Duration = Duration::from_micros(200);

/// A yield of this length has let a program run that has much work of its own.
const LONG_YIELD: Duration = Duration::from_micros(500);

/// Time after such a yield for which the service sleeps at once.
const NO_SPIN: Duration = Duration::from_millis(50);

/// Decides whether the service looks again or sleeps, when there is nothing to do.
///
/// Where processors are rare a yield is no small thing: the program that runs in its place may do so for its whole time
/// slice, some milliseconds, while packets wait. A thread that is woken from sleep comes before such a program.
#[derive(Debug)]
pub(super) struct IdleSpin {
    worked: Instant,
    no_spin_until: Instant,
}

impl IdleSpin {
    pub(super) fn new(now: Instant) -> Self {
        Self { worked: now, no_spin_until: now }
    }

    /// There were packets.
    pub(super) fn record_work(&mut self, now: Instant) {
        self.worked = now;
    }

    /// Whether to look again, after a yield.
    pub(super) fn may_spin(&self, now: Instant) -> bool {
        now < self.worked + SPIN && now >= self.no_spin_until
    }

    /// A yield took that time.
    pub(super) fn record_yield(&mut self, before: Instant, after: Instant) {
        if after.saturating_duration_since(before) >= LONG_YIELD {
            self.no_spin_until = after + NO_SPIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_for_a_while_after_each_packet() {
        let start = Instant::now();
        let mut spin = IdleSpin::new(start);
        assert!(spin.may_spin(start) && !spin.may_spin(start + SPIN));
        spin.record_work(start + 3 * SPIN);
        assert!(spin.may_spin(start + 3 * SPIN) && !spin.may_spin(start + 4 * SPIN));
    }

    #[test]
    fn yields_that_take_nothing_change_nothing() {
        let start = Instant::now();
        let mut spin = IdleSpin::new(start);
        for n in 0..100 {
            let before = start + n * Duration::from_micros(1);
            spin.record_yield(before, before + Duration::from_micros(20));
            assert!(spin.may_spin(before));
        }
    }

    /// Beside a program that computes all the time each yield would cost a time slice of it.
    #[test]
    fn beside_a_busy_program_it_sleeps_at_once() {
        let start = Instant::now();
        let mut spin = IdleSpin::new(start);
        let after = start + Duration::from_millis(3);
        spin.record_yield(start, after);
        spin.record_work(after);
        assert!(!spin.may_spin(after), "packets are there, and a wake-up is quicker");
        let later = after + NO_SPIN;
        assert!(!spin.may_spin(later), "nothing to look for");
        spin.record_work(later);
        assert!(spin.may_spin(later), "the program may have ended");
    }
}
