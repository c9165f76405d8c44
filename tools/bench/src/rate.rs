//! Messages of 64 bytes in lists, against plain UDP sends and receives of the same size, and bare loops.

use uroce_testbed::error::Result;

use crate::interleave::{self, Benchmark};
use crate::link::Link;
use crate::record::{Reading, Series, Unit};
use crate::{Setup, bare, baseline, uroce};

/// The name of this group.
pub const GROUP: &str = "rate";
/// The baseline's series.
pub const BASELINE: &str = "UDP one datagram a call";
const MTU: u32 = 1500;
const SIZE: u64 = 64;
const QPS: [u32; 4] = [1, 4, 16, 64];

/// Messages in a list: the first is that of the targets.
pub const LISTS: [usize; 2] = [32, 128];

/// The name of the series of a `verb` in lists of so many, on so many queue pairs.
pub fn name(datapath: &str, verb: &str, list: usize, qps: u32) -> String {
    format!("{datapath} {verb} {SIZE} B x {list}, {qps} QP")
}

/// Measures all datapaths.
///
/// # Errors
/// Not root.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    let link = Link::create(MTU)?;
    let mut benchmarks = vec![Benchmark::new(BASELINE, Unit::Mmps, &[], || {
        baseline::udp_rate(&link, SIZE, 0.7).map(Reading::new)
    })];
    for list in LISTS {
        let qps = if setup.quick { &QPS[..1] } else { &QPS[..] };
        for datapath in &setup.datapaths {
            for (verb, &qps) in
                ["send", "write"].into_iter().flat_map(|v| qps.iter().map(move |q| (v, q)))
            {
                benchmarks.push(ours(setup, &link, datapath, verb, (list, qps)));
            }
        }
        benchmarks.extend(bare::rate(&setup.datapaths, &link, SIZE as usize, list));
    }
    eprintln!("{GROUP}: {SIZE} B");
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds, &setup.best))
}

fn ours<'a>(
    setup: &'a Setup,
    link: &'a Link,
    datapath: &'a str,
    verb: &str,
    (list, qps): (usize, u32),
) -> Benchmark<'a> {
    // The depth keeps the queue of completions within its limit.
    let depth = 256;
    let words = format!("{verb} bw -D 1 -s {SIZE} -l {list} -t {depth} -q {qps}");
    let bare = bare::rate_name(datapath, list);
    let name = name(datapath, verb, list, qps);
    Benchmark::new(name, Unit::Mmps, &[BASELINE, &bare], move || {
        Ok(uroce::over(link, &setup.program, datapath, &words)?.rate())
    })
}
