//! Messages of 64 bytes in lists of 32, against plain UDP sends and receives of the same size.

use uroce_testbed::error::Result;

use crate::interleave::{Benchmark, run_interleaved};
use crate::link::Link;
use crate::record::{Reading, Series, Unit};
use crate::{Setup, baseline, uroce};

/// The name of this group.
pub const GROUP: &str = "rate";
/// The baseline's series.
pub const BASELINE: &str = "UDP one datagram a call";
const MTU: u32 = 1500;
const SIZE: u64 = 64;
const QPS: [u32; 4] = [1, 4, 16, 64];

/// The name of the series of a `verb` on so many queue pairs.
pub fn name(datapath: &str, verb: &str, qps: u32) -> String {
    format!("{datapath} {verb} {SIZE} B x 32, {qps} QP")
}

/// Measures all datapaths.
///
/// # Errors
/// Not root.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    let link = Link::create(MTU)?;
    let qps = if setup.quick { &QPS[..1] } else { &QPS[..] };
    let mut benchmarks = vec![Benchmark::new(BASELINE, Unit::Mmps, &[], || {
        baseline::udp_rate(&link, SIZE, 0.7).map(Reading::new)
    })];
    for datapath in &setup.datapaths {
        for verb in ["send", "write"] {
            for &qps in qps {
                // The depth keeps the queue of completions within its limit.
                let depth = 256;
                let words = format!("{verb} bw -D 1 -s {SIZE} -l 32 -t {depth} -q {qps}");
                let name = name(datapath, verb, qps);
                let link = &link;
                benchmarks.push(Benchmark::new(name, Unit::Mmps, &[BASELINE], move || {
                    Ok(uroce::over(link, &setup.program, datapath, &words)?.rate())
                }));
            }
        }
    }
    eprintln!("{GROUP}: {SIZE} B");
    Ok(run_interleaved(GROUP, benchmarks, 0, setup.rounds))
}
