//! WRITE, READ and SEND over a veth pair, one queue pair, against one TCP stream of iperf3.

use uroce_testbed::error::Result;

use crate::interleave::{self, Benchmark};
use crate::link::Link;
use crate::record::{Series, Unit};
use crate::summary::bytes;
use crate::{Setup, bare, iperf, uroce};

/// The name of this group.
pub const GROUP: &str = "bandwidth";
/// The congestion control of the baseline: what Linux has by default, without the pacing of BBR.
const CONGESTION: &str = "cubic";
/// MTU of the wire and the path MTU that fits it.
pub const WIRES: [(u32, u32); 2] = [(1500, 1024), (9000, 4096)];
/// Bytes of a message.
pub const SIZES: [u64; 7] = [2, 64, 512, 4096, 65_536, 1 << 20, 8 << 20];
const QUICK_SIZES: [u64; 2] = [65_536, 1 << 20];
/// Seconds of one run.
const SECONDS: u32 = 1;

/// The name of the series of a `verb` in messages of `size` bytes.
pub fn name(datapath: &str, verb: &str, size: u64, mtu: u32) -> String {
    format!("{datapath} {verb} {} MTU {mtu}", bytes(size))
}

/// The name of the baseline's series.
pub fn baseline(mtu: u32) -> String {
    format!("TCP {CONGESTION} MTU {mtu}")
}

/// Measures all datapaths on both wires.
///
/// # Errors
/// Not root, or iperf3 is missing.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    iperf::ensure()?;
    let sizes = if setup.quick { &QUICK_SIZES[..] } else { &SIZES[..] };
    let mut all = Vec::new();
    for wire in WIRES {
        let link = Link::create(wire.0)?;
        for (turn, &size) in (0..).zip(sizes) {
            eprintln!("{GROUP}: {}, MTU {}", bytes(size), wire.0);
            let mut benchmarks = benchmarks(setup, &link, size, wire);
            benchmarks.extend(bare::bulk(&setup.datapaths, &link, wire)?);
            let first = turn * interleave::most_rounds(setup.rounds);
            for newer in interleave::run(GROUP, benchmarks, first, setup.rounds, &setup.best) {
                join(&mut all, newer);
            }
        }
    }
    Ok(all)
}

/// What is run again for each size, baselines and bare loops, becomes one series.
fn join(all: &mut Vec<Series>, newer: Series) {
    match all.iter_mut().find(|series| series.name == newer.name) {
        Some(series) => series.runs.extend(newer.runs),
        None => all.push(newer),
    }
}

/// TCP first, then every datapath with every verb.
fn benchmarks<'a>(
    setup: &'a Setup,
    link: &'a Link,
    size: u64,
    (mtu, path_mtu): (u32, u32),
) -> Vec<Benchmark<'a>> {
    let tcp = baseline(mtu);
    let mut all = vec![Benchmark::new(tcp.clone(), Unit::Gbps, &[], move || {
        iperf::over(link, CONGESTION, SECONDS)
    })];
    for datapath in &setup.datapaths {
        let write = name(datapath, "write", size, mtu);
        for verb in ["write", "read", "send"] {
            let words = format!("{verb} bw -D {SECONDS} -s {size} -m {path_mtu}");
            let bare = bare::bulk_name(datapath, mtu);
            let baselines: &[&str] =
                if verb == "write" { &[&tcp, &bare] } else { &[&tcp, &bare, &write] };
            let name = name(datapath, verb, size, mtu);
            all.push(Benchmark::new(name, Unit::Gbps, baselines, move || {
                Ok(uroce::over(link, &setup.program, datapath, &words)?.bandwidth())
            }));
        }
    }
    all
}
