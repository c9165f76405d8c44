//! How much memory a replay takes; alone in its program, so that no other test is counted.

#[allow(dead_code, reason = "this program needs a part of what the others use")]
#[path = "it/scene/mod.rs"]
mod scene;

use scene::{ACK, Scene};
use uroce_replay::{Device, Limits, Options, play};

const MIB: u64 = 1 << 20;
const MTU: u64 = 4096;

/// The most memory that this process has had.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// READs are small, and what answers them is not: no answer waits for the next one.
#[test]
fn responses_to_many_reads_are_not_kept() {
    let (reads, length) = (8, 4 * MIB);
    let mut scene = Scene::default().write(5, 0, &[0; MTU as usize]);
    for read in 0..reads {
        scene = scene.read(6 + read * (length / MTU) as u32, 0, length as u32);
    }
    let recording = scene.answer(5, ACK, 1).recording();
    let before = peak();
    let report = play(recording, &Device::default(), &Limits::default(), &Options::default());
    let report = report.expect("it can be played");
    let answers = report.counts.only_now + report.counts.differs;
    assert_eq!(answers, u64::from(reads) * length / MTU, "{:?}", report.counts);
    let taken = peak() - before;
    // The region, and the lines of two reports.
    assert!(taken < length + 16 * MIB, "{taken}");
}
