//! How near two processors of this machine are to each other, by a hand-off over shared memory.
//!
//! On a virtual machine this changes by itself within seconds, and every figure of two threads
//! changes with it. So it is measured beside each run, and only runs of one kind are compared.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Below this the two processors count as close: cores that share a cache take 40 to 160 ns (AMD), those of one Intel processor 180
/// to 235, and those of two complexes 280 to 380.
const CLOSE_BELOW_NS: f64 = 250.0;
/// Above this another program had one of the processors.
const DISTURBED_ABOVE_NS: f64 = 1500.0;
/// Many short ones, so that some are left alone by other programs.
const BATCHES: u32 = 100;
const TRIPS: u32 = 50;
/// A measurement that takes longer was disturbed; what was seen until then counts.
const PROBE_LIMIT: Duration = Duration::from_millis(50);

/// Where the two processors were during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Within one complex, before and after.
    Close,
    /// Apart, before and after.
    Far,
    /// It changed on the way, or other programs were in the way.
    Mixed,
}

impl Place {
    /// Of a run with these round trips, in nanoseconds, before and after it.
    pub fn of(before_ns: f64, after_ns: f64) -> Self {
        let is_far = |ns: f64| (CLOSE_BELOW_NS..DISTURBED_ABOVE_NS).contains(&ns);
        if before_ns < CLOSE_BELOW_NS && after_ns < CLOSE_BELOW_NS {
            Self::Close
        } else if is_far(before_ns) && is_far(after_ns) {
            Self::Far
        } else {
            Self::Mixed
        }
    }

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Far => "far",
            Self::Mixed => "mixed",
        }
    }
}

/// Two different processors that this process may use; `None` if there is only one.
pub fn two_processors() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut found = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    Some([found.next()?, found.next()?])
}

/// Keeps this thread on a processor. Where that fails, the kernel chooses.
pub fn stay_on(processor: Option<usize>) {
    if let Some(processor) = processor {
        let mut one = CpuSet::new();
        one.set(processor);
        let _ = sched_setaffinity(None, &one);
    }
}

/// Shortest round trip of a spinning hand-off between two threads, in nanoseconds.
pub fn round_trip_ns() -> f64 {
    let (ball, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let processors = two_processors();
    let [here, there] = [0, 1].map(|nth| processors.map(|both| both[nth]));
    // In threads of its own: what this program starts is not to inherit the choice.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(there);
            answer(&ball, &over);
        });
        let asker = scope.spawn(|| {
            stay_on(here);
            ask(&ball, &over)
        });
        // A thread of this module does not panic; if it did, nothing is known.
        asker.join().unwrap_or(f64::MAX)
    })
}

/// Plays the ball until it was fast often enough; then it is over.
fn ask(ball: &AtomicU32, over: &AtomicBool) -> f64 {
    let started = Instant::now();
    let (mut best, mut next) = (f64::MAX, 1);
    for _ in 0..BATCHES {
        let from = Instant::now();
        for _ in 0..TRIPS {
            ball.store(next, Ordering::Release);
            wait_for(ball, next + 1, over);
            next += 2;
        }
        best = best.min(from.elapsed().as_nanos() as f64 / f64::from(TRIPS));
        if started.elapsed() > PROBE_LIMIT {
            break;
        }
    }
    over.store(true, Ordering::Release);
    best
}

/// Makes every odd number even.
fn answer(ball: &AtomicU32, over: &AtomicBool) {
    let mut next = 1;
    while wait_for(ball, next, over) {
        ball.store(next + 1, Ordering::Release);
        next += 2;
    }
}

/// Spins until `ball` is `wanted`; false when it is `over`.
fn wait_for(ball: &AtomicU32, wanted: u32, over: &AtomicBool) -> bool {
    loop {
        // The other thread may need this very processor, until the kernel moves it.
        for _ in 0..200 {
            if ball.load(Ordering::Acquire) == wanted {
                return true;
            }
            std::hint::spin_loop();
        }
        if over.load(Ordering::Acquire) {
            return false;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_one_place_only_if_nothing_moved() {
        assert_eq!(Place::of(90.0, 110.0), Place::Close);
        assert_eq!(Place::of(440.0, 380.0), Place::Far);
        assert_eq!(Place::of(90.0, 380.0), Place::Mixed);
        assert_eq!(Place::of(1e6, 1e6), Place::Mixed);
    }

    #[test]
    fn a_hand_off_takes_some_time() {
        let ns = round_trip_ns();
        assert!(ns > 1.0 && ns < 1e9, "{ns}");
    }
}
