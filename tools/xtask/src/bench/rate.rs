//! Messages of 64 bytes in lists of 32, against plain UDP sends and receives of the same size.

use super::link::Link;
use super::play::{Contestant, play};
use super::record::{Reading, Series, Unit};
use super::{Setup, rival, uroce};
use crate::error::Result;

/// The name of this group.
pub const GROUP: &str = "rate";
/// The rival's series.
pub const RIVAL: &str = "UDP one datagram a call";
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
    let mut contestants = vec![Contestant::new(RIVAL, Unit::Mmps, &[], || {
        rival::udp_rate(&link, SIZE, 0.7).map(Reading::new)
    })];
    for datapath in &setup.datapaths {
        for verb in ["send", "write"] {
            for &qps in qps {
                // The depth keeps the queue of completions within its limit.
                let depth = 256;
                let words = format!("{verb} bw -D 1 -s {SIZE} -l 32 -t {depth} -q {qps}");
                let name = name(datapath, verb, qps);
                let link = &link;
                contestants.push(Contestant::new(name, Unit::Mmps, &[RIVAL], move || {
                    Ok(uroce::over(link, &setup.program, datapath, &words)?.rate())
                }));
            }
        }
    }
    eprintln!("{GROUP}: {SIZE} B");
    Ok(play(GROUP, contestants, 0, setup.rounds))
}
