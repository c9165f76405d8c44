//! 1 MiB WRITEs while single packets are lost at random, against TCP that loses single packets.
//!
//! Our receiver drops packets itself, since the kernel hands over many as one. TCP's packets are
//! dropped on arrival by a classifier; so that what is lost is one packet, TCP leaves without
//! segmentation offload. What counts is the share of the loss-free rate that is left.

use uroce_testbed::error::Result;

use crate::interleave::{self, Benchmark};
use crate::link::Link;
use crate::record::{Series, Unit};
use crate::{Setup, iperf, uroce};

/// The name of this group.
pub const GROUP: &str = "loss";
const MTU: u32 = 1500;
/// Lost packets, percent.
pub const PERCENTS: [&str; 5] = ["0", "0.01", "0.1", "1", "3"];
/// The congestion controls of the baselines.
pub const CONGESTION: [&str; 2] = ["cubic", "bbr"];

/// The name of our series.
pub fn name(datapath: &str, percent: &str) -> String {
    format!("{datapath} write 1 MiB, {percent} % lost")
}

/// The name of TCP's series.
pub fn baseline(congestion: &str, percent: &str) -> String {
    format!("TCP {congestion} without TSO, {percent} % lost")
}

/// Measures all datapaths.
///
/// # Errors
/// Not root, or iperf3 is missing.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    iperf::ensure()?;
    let ours = Link::create(MTU)?;
    let single = Link::create(MTU)?;
    single.send_single_packets()?;
    let mut benchmarks = Vec::new();
    for percent in PERCENTS {
        for datapath in &setup.datapaths {
            benchmarks.push(our_end(setup, &ours, datapath, percent));
        }
        let single = &single;
        benchmarks.extend(CONGESTION.map(|congestion| {
            let name = baseline(congestion, percent);
            Benchmark::new(name, Unit::Gbps, &[&baseline(congestion, "0")], move || {
                single.lose(percent.parse::<f64>().unwrap_or(0.0) / 100.0)?;
                iperf::over(single, congestion, 1)
            })
        }));
    }
    eprintln!("{GROUP}: 1 MiB, MTU {MTU}");
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds, &setup.best))
}

fn our_end<'a>(
    setup: &'a Setup,
    link: &'a Link,
    datapath: &'a str,
    percent: &str,
) -> Benchmark<'a> {
    let words = format!("write bw -D 1 -s 1048576 --fault 'rx drop {percent}%'");
    let lossless = name(datapath, "0");
    Benchmark::new(name(datapath, percent), Unit::Gbps, &[&lossless], move || {
        Ok(uroce::over(link, &setup.program, datapath, &words)?.bandwidth())
    })
}
