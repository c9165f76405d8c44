//! Both ends in one process over the in-process switch, against TCP over the loopback interface.

use uroce_testbed::error::Result;

use crate::interleave::{self, Benchmark};
use crate::record::{Series, Unit};
use crate::summary::bytes;
use crate::{Setup, iperf, latency, uroce};

/// The name of this group.
pub const GROUP: &str = "loopback";
/// The baseline's series.
pub const BASELINE: &str = "TCP cubic over lo";
const SIZES: [u64; 3] = [4096, 65_536, 1 << 20];

/// The name of the series of WRITEs of `size` bytes.
pub fn bandwidth_name(size: u64) -> String {
    format!("in-process write {}", bytes(size))
}

/// The name of the series of half round trips of 8-byte WRITEs.
pub const LATENCY: &str = "in-process write 8 B half round trip";

/// Measures.
///
/// # Errors
/// Not root (for the baseline's namespace), or iperf3 is missing.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    iperf::ensure()?;
    let mut benchmarks =
        vec![Benchmark::new(BASELINE, Unit::Gbps, &[], || iperf::over_lo("cubic", 1))];
    for size in SIZES {
        let words = format!("write bw --local -D 1 -s {size}");
        benchmarks.push(Benchmark::new(bandwidth_name(size), Unit::Gbps, &[BASELINE], move || {
            Ok(uroce::alone(&setup.program, &words)?.bandwidth())
        }));
    }
    let words = format!("write lat --local -s 8 -n 100000 {}", latency::moderation("write"));
    benchmarks.push(Benchmark::new(LATENCY, Unit::Us, &[], move || {
        Ok(uroce::alone(&setup.program, &words)?.latency())
    }));
    eprintln!("{GROUP}");
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds, &setup.best))
}
