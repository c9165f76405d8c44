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

/// What it took to make the queue pairs of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setup {
    /// Seconds on the wall clock.
    pub seconds: f64,
    /// By how much the memory of this process grew; freed memory that was used again does not show.
    pub resident_bytes: u64,
}

/// Memory of this process that is in use, to a page; 0 where there is no /proc.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_memory_is_resident() {
        let before = resident_bytes();
        let bytes = vec![1_u8; 32 << 20];
        let after = resident_bytes();
        assert!(after >= before + (16 << 20), "{before} {after}");
        drop(std::hint::black_box(bytes));
    }

    #[test]
    fn work_costs_processor_time_and_sleep_does_not() {
        let start = Usage::now();
        let mut sum = 0_u64;
        while start.elapsed().cpu_seconds < 0.01 {
            sum = std::hint::black_box(sum + 1);
        }
        let worked = start.elapsed();
        // Other tests work beside this one, and their time counts as well.
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get()) as f64;
        assert!(worked.elapsed_seconds >= worked.cpu_seconds / processors / 2.0, "{worked:?}");
        let start = Usage::now();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let slept = start.elapsed();
        assert!(slept.elapsed_seconds >= 0.03, "{slept:?}");
    }
}
