//! What a stretch of a run cost this process.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A reading of the clocks, or the difference of two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Usage {
    /// Seconds on the wall clock.
    pub elapsed_seconds: f64,
    /// Processor time of all threads of this process, in the kernel too, in seconds.
    pub cpu_seconds: f64,
}

impl Usage {
    /// The clocks now.
    pub fn now() -> Usage {
        Usage {
            elapsed_seconds: seconds(ClockId::Monotonic),
            cpu_seconds: seconds(ClockId::ProcessCPUTime),
        }
    }

    /// What was used since.
    pub fn elapsed(self) -> Usage {
        let now = Usage::now();
        Usage {
            elapsed_seconds: now.elapsed_seconds - self.elapsed_seconds,
            cpu_seconds: now.cpu_seconds - self.cpu_seconds,
        }
    }
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_processor_time_and_sleep_does_not() {
        let start = Usage::now();
        let mut sum = 0_u64;
        while start.elapsed().cpu_seconds < 0.01 {
            sum = std::hint::black_box(sum + 1);
        }
        let worked = start.elapsed();
        assert!(worked.cpu_seconds >= 0.01 && worked.elapsed_seconds >= 0.009, "{worked:?}");
        let start = Usage::now();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let slept = start.elapsed();
        assert!(slept.elapsed_seconds >= 0.03, "{slept:?}");
    }
}
