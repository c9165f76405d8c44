//! WRITE, READ and SEND over a veth pair, one queue pair, against one TCP stream of iperf3.

use uroce_testbed::error::Result;

use crate::interleave::{Benchmark, run_interleaved};
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
/// The series of bare AF_XDP rings.
pub const BARE: &str = "bare AF_XDP rings MTU 1500";
/// The MTU and the size of the WRITEs that they are compared with.
pub const BARE_MTU: u32 = 1500;
/// See [`BARE_MTU`].
pub const BARE_SIZE: u64 = 65_536;
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
        let mut tcp: Option<Series> = None;
        for (turn, &size) in (0..).zip(sizes) {
            eprintln!("{GROUP}: {}, MTU {}", bytes(size), wire.0);
            let mut benchmarks = benchmarks(setup, &link, size, wire);
            benchmarks.extend(yardstick(setup, &link, size, wire)?);
            let mut series = run_interleaved(GROUP, benchmarks, turn * setup.rounds, setup.rounds);
            let newer = series.remove(0);
            match &mut tcp {
                Some(tcp) => tcp.runs.extend(newer.runs),
                None => tcp = Some(newer),
            }
            all.extend(series);
        }
        all.extend(tcp);
    }
    Ok(all)
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
            let baselines: &[&str] = match (verb, datapath.as_str()) {
                ("write", "xdp") => &[&tcp, BARE],
                ("write", _) => &[&tcp],
                _ => &[&tcp, &write],
            };
            let name = name(datapath, verb, size, mtu);
            all.push(Benchmark::new(name, Unit::Gbps, baselines, move || {
                Ok(uroce::over(link, &setup.program, datapath, &words)?.bandwidth())
            }));
        }
    }
    all
}

/// Bare rings, where they are a baseline: beside 64 KiB WRITEs over AF_XDP on the small wire.
fn yardstick<'a>(
    setup: &Setup,
    link: &'a Link,
    size: u64,
    (mtu, path_mtu): (u32, u32),
) -> Result<Option<Benchmark<'a>>> {
    let wanted = setup.datapaths.iter().any(|datapath| datapath == "xdp");
    if !wanted || size != BARE_SIZE || mtu != BARE_MTU {
        return Ok(None);
    }
    let program = bare::build()?.display().to_string();
    Ok(Some(Benchmark::new(BARE, Unit::Gbps, &[], move || {
        bare::bandwidth(link, &program, path_mtu)
    })))
}
