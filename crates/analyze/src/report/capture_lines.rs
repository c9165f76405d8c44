//! What a capture holds, in lines of text.

use std::time::Duration;

use super::CaptureSummary;
use super::calendar::utc;
use crate::Timestamp;
use crate::quantity::{count, duration};

/// Packets by encapsulation, what else there was, ICRCs, and what is missing; without what is zero.
pub(super) fn contents(capture: &CaptureSummary) -> impl Iterator<Item = String> {
    let lines = [
        Some(packets(capture)),
        others(capture),
        icrcs(capture),
        lost(capture),
        untracked(capture),
    ];
    lines.into_iter().flatten()
}

/// Number and time of the frames.
pub(super) fn frames(capture: &CaptureSummary) -> String {
    let frames = count(capture.frames, "frame");
    match (capture.first_ns, capture.last_ns) {
        (Some(first), Some(last)) => {
            let time = duration(Duration::from_nanos(last.saturating_sub(first)));
            format!("{frames} in {time}, from {}", utc(Timestamp::from_nanos(first)))
        }
        _ => frames,
    }
}

fn packets(capture: &CaptureSummary) -> String {
    let kinds = [
        (capture.rocev2_packets, "RoCEv2"),
        (capture.rocev1_packets, "RoCEv1"),
        (capture.infiniband_packets, "InfiniBand"),
    ];
    let kinds = kinds.iter().filter(|(number, _)| *number > 0);
    let kinds: Vec<_> =
        kinds.map(|(number, name)| count(*number, &format!("{name} packet"))).collect();
    if kinds.is_empty() { "no RoCE packets".to_owned() } else { kinds.join(", ") }
}

fn others(capture: &CaptureSummary) -> Option<String> {
    let mut words = Vec::new();
    let mut add = |number: u64, noun: &str, what: &str| {
        if number > 0 {
            words.push(format!("{}{what}", count(number, noun)));
        }
    };
    add(capture.other_frames, "frame", " of other protocols");
    add(capture.iwarp_frames, "iWARP frame", "");
    add(capture.cut_frames, "frame", " cut by the snap length");
    add(capture.batches, "frame", " of several packets (segmentation offload)");
    let reason = capture.malformed_reason.as_deref().unwrap_or_default();
    add(capture.malformed_frames, "malformed frame", &format!(" ({reason})"));
    (!words.is_empty()).then(|| words.join(", "))
}

fn icrcs(capture: &CaptureSummary) -> Option<String> {
    let icrc = &capture.icrc;
    let all = capture.packets();
    if all == 0 {
        return None;
    }
    if icrc.right == all {
        return Some("every ICRC is right".to_owned());
    }
    let kinds = [
        (icrc.right, "right"),
        (icrc.wrong, "wrong"),
        (icrc.rewritten, "right but for a rewritten header"),
        (icrc.not_checked, "not checked"),
    ];
    let kinds = kinds.iter().filter(|(number, _)| *number > 0);
    let kinds: Vec<_> = kinds.map(|(number, what)| format!("{number} {what}")).collect();
    Some(format!("ICRCs: {}", kinds.join(", ")))
}

fn lost(capture: &CaptureSummary) -> Option<String> {
    let mut words = Vec::new();
    if capture.lost_by_capture > 0 {
        let packets = count(capture.lost_by_capture, "packet");
        words.push(format!("{packets} acknowledged and never captured: the capture lost them"));
    }
    if capture.not_captured > 0 {
        let packets = count(capture.not_captured, "packet");
        words.push(format!("{packets} not captured, as the capture itself says"));
    }
    if capture.dropped_packets > 0 {
        let packets = count(capture.dropped_packets, "packet");
        words.push(format!("{packets} dropped on purpose, as comments of the file say"));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

fn untracked(capture: &CaptureSummary) -> Option<String> {
    let packets = count(capture.untracked_packets, "packet");
    (capture.untracked_packets > 0).then(|| {
        format!(
            "{packets} of more flows than are followed, not analysed: cut the capture by hosts (tcpdump -r FILE -w PART host IP)"
        )
    })
}
