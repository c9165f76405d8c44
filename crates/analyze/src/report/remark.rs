//! What is remarkable about one packet.

use uroce_wire::Psn;

use crate::quantity::{count, duration};
use crate::track::{Annotation, Role};
use crate::{IcrcStatus, Packet};

/// What is remarkable about a packet, a short sentence each; nothing about an ordinary one.
pub fn remarks(packet: &Packet, annotation: &Annotation) -> Vec<String> {
    if annotation.is_second_sighting {
        return vec!["seen before, at another interface".to_owned()];
    }
    let mut remarks = Vec::new();
    remarks.extend(retransmission(annotation));
    remarks.extend(annotation.is_duplicate.then(|| duplicate(annotation)));
    remarks.extend(annotation.is_reordered.then(|| "came late: reordered".to_owned()));
    remarks.extend(gap(annotation));
    remarks.extend(rnr(annotation));
    remarks.extend(annotation.is_unsolicited.then(|| "answers nothing under way".to_owned()));
    remarks.extend(coalesced(annotation));
    remarks.extend(
        annotation.is_congestion_experienced.then(|| "congestion experienced (CE)".to_owned()),
    );
    remarks.extend(icrc(packet.icrc));
    remarks
}

/// The packet is a sign of trouble: sent again, refused, damaged, out of place, or dropped according
/// to `comment`, the comment of the capture file.
pub fn is_trouble(packet: &Packet, annotation: &Annotation, comment: &str) -> bool {
    annotation.retransmission.is_some()
        || matches!(annotation.role, Role::Nak(_) | Role::ReservedNak(_) | Role::RnrNak)
        || matches!(packet.icrc, IcrcStatus::Wrong { .. })
        || annotation.is_unsolicited
        || annotation.gap_before.is_some()
        || comment.contains("drop")
        || comment.starts_with("retransmission")
}

/// The comment of a capture file says that the packet went no further.
pub fn is_dropped(comment: &str) -> bool {
    comment.starts_with("dropped")
}

/// When a request that is sent again was sent first.
pub fn first_sent(annotation: &Annotation) -> Option<String> {
    let again = annotation.retransmission?;
    let frame = again.first_seen?;
    Some(match again.after {
        Some(time) => format!("{} after frame {frame}", duration(time)),
        None => format!("first in frame {frame}"),
    })
}

fn retransmission(annotation: &Annotation) -> Option<String> {
    let again = annotation.retransmission?;
    Some(format!("sent again ({})", again.cause.name()))
}

fn duplicate(annotation: &Annotation) -> String {
    match annotation.role {
        Role::Request => "a copy: the network made two of it".to_owned(),
        _ => "says the same again".to_owned(),
    }
}

fn gap(annotation: &Annotation) -> Option<String> {
    let gap = annotation.gap_before?;
    let first: Psn = gap.first.on_wire();
    Some(match gap.packets {
        1 => format!("PSN {first} before it was not seen"),
        packets => format!("{packets} PSNs before it, from {first}, were not seen"),
    })
}

fn rnr(annotation: &Annotation) -> Option<String> {
    let wait = annotation.rnr_wait?;
    let actual = wait.actual?;
    Some(format!("waited {} of {} (RNR)", duration(actual), duration(wait.promised)))
}

fn coalesced(annotation: &Annotation) -> Option<String> {
    let settled = annotation.acknowledges?;
    let is_answer = matches!(annotation.role, Role::Acknowledgement);
    (is_answer && settled.packets > 1).then(|| {
        let packets = count(settled.packets, "packet");
        match settled.messages {
            0 | 1 => format!("acknowledges {packets}"),
            messages => format!("acknowledges {packets}, {messages} messages"),
        }
    })
}

fn icrc(status: IcrcStatus) -> Option<String> {
    matches!(status, IcrcStatus::Wrong { .. }).then(|| format!("ICRC {status}"))
}
