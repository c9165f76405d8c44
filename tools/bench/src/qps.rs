//! Many queue pairs: what is left of the throughput, what each costs in memory and time.

use uroce_testbed::error::Result;

use crate::interleave::{self, Benchmark};
use crate::link::Link;
use crate::record::{Reading, Series, Unit};
use crate::{Setup, uroce};

/// The name of this group.
pub const GROUP: &str = "qps";
const MTU: u32 = 1500;
const SIZE: u64 = 4096;
/// How many.
pub const QPS: [u32; 5] = [1, 10, 100, 1000, 10_000];
const QUICK: [u32; 2] = [1, 1000];
/// Messages in flight on all queue pairs together, as far as each has at least two.
const IN_FLIGHT: u32 = 512;

/// The name of the series of the throughput.
pub fn name(datapath: &str, qps: u32) -> String {
    format!("{datapath} write 4 KiB, {qps} QP")
}

/// The name of the series of the memory for each queue pair.
pub fn memory(qps: u32) -> String {
    format!("memory for each of {qps} QP")
}

/// Measures all datapaths.
///
/// # Errors
/// Not root.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    let link = Link::create(MTU)?;
    let all = if setup.quick { &QUICK[..] } else { &QPS[..] };
    let mut benchmarks = Vec::new();
    for datapath in &setup.datapaths {
        for &qps in all {
            let words = words(qps);
            let link = &link;
            let one = name(datapath, 1);
            let baselines = if qps == 1 { Vec::new() } else { vec![one.as_str()] };
            benchmarks.push(Benchmark::new(
                name(datapath, qps),
                Unit::Gbps,
                &baselines,
                move || {
                    let reports = uroce::over(link, &setup.program, datapath, &words)?;
                    let reading = reports.bandwidth();
                    Ok(reading.with("create_us_per_qp", reports.create_us(qps)))
                },
            ));
        }
    }
    for &qps in all.iter().filter(|&&qps| qps >= 1000) {
        benchmarks.push(Benchmark::new(memory(qps), Unit::KiB, &[], move || {
            let words = format!("{} --local", words(qps));
            let reports = uroce::alone(&setup.program, &words)?;
            Ok(Reading::new(reports.memory_kib(qps))
                .with("create_us_per_qp", reports.create_us(qps)))
        }));
    }
    eprintln!("{GROUP}");
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds.min(5), &setup.best))
}

fn words(qps: u32) -> String {
    let depth = (IN_FLIGHT / qps).clamp(2, 128);
    format!("write bw -D 1 -s {SIZE} -q {qps} -t {depth} -Q {}", depth / 2)
}
