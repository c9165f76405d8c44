//! What is remarkable about one packet.

use uroce_wire::Psn;

use crate::judge::is_undefined;
use crate::quantity::{count, duration};
use crate::track::{Annotation, Missing, Role};
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
    remarks.extend(missing(annotation));
    remarks.extend(rnr(annotation));
    remarks.extend(annotation.is_unsolicited.then(|| "answers nothing under way".to_owned()));
    remarks.extend(coalesced(annotation));
    remarks.extend(
        annotation.is_congestion_experienced.then(|| "congestion experienced (CE)".to_owned()),
    );
    remarks.extend(icrc(packet.icrc));
    remarks
}

/// The packet is a sign of trouble: sent again, a NAK or an RNR NAK, damaged, behind a gap, an answer
/// to nothing, of an opcode that is not defined, or dropped, altered or sent again according to
/// `comment`, the comment of the capture file. This is what `--errors` chooses, with what findings name.
pub fn is_trouble(packet: &Packet, annotation: &Annotation, comment: &str) -> bool {
    let is_told = !comment.is_empty() && comment.split("; ").any(tells_of_trouble);
    let refuses = matches!(annotation.role, Role::Nak(_) | Role::ReservedNak(_) | Role::RnrNak);
    is_told
        || refuses
        || annotation.retransmission.is_some()
        || annotation.is_damaged
        || annotation.is_unsolicited
        || annotation.gap_before.is_some()
        || is_undefined(packet.bth.opcode)
}

/// It is what our devices and captures write about a drop, a fault, a retransmission or a trigger.
fn tells_of_trouble(part: &str) -> bool {
    let ours = ["drop reason ", "dropped", "fault: ", "retransmission: ", "trigger: "];
    ours.iter().any(|start| part.starts_with(start))
}

/// The comment of a capture file says that the packet went no further.
pub fn is_dropped(comment: &str) -> bool {
    // Most packets have none.
    !comment.is_empty()
        && comment.split("; ").any(|part| {
            let fault = part.strip_prefix("fault: ");
            fault.unwrap_or(part).starts_with("dropped")
        })
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

/// Which request a sequence NAK misses.
fn missing(annotation: &Annotation) -> Option<String> {
    Some(match annotation.missing? {
        Missing::Copy { frame } => format!("misses frame {frame}"),
        Missing::Damaged { frame } => format!("misses frame {frame}, which is damaged"),
        Missing::CopyNotCaptured => "the missing copy is not in the capture".to_owned(),
        Missing::NotCaptured => "the missing packet is not in the capture".to_owned(),
    })
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

#[cfg(test)]
mod tests {
    use uroce_wire::{NakCode, Opcode, Syndrome};

    use super::*;
    use crate::track::{Tracker, TrackerConfig};
    use crate::{Timestamp, sample};

    #[test]
    fn comments_of_our_devices_are_understood() {
        for dropped in [
            "fault: dropped by rule 1",
            "fault: delayed by 1 ms by rule slow; dropped while muted by rule 2",
            "retransmission: tail probe; fault: dropped by rule 1",
            "dropped",
        ] {
            assert!(is_dropped(dropped), "{dropped}");
        }
        for other in ["fault: delayed by 1 ms by rule 1", "drop reason psn_duplicate", ""] {
            assert!(!is_dropped(other), "{other}");
        }
    }

    #[test]
    fn a_nak_tells_what_it_misses() {
        let remark = |psns: &[u32], refused: u32| {
            let mut tracker = Tracker::new(TrackerConfig::default());
            for (psn, frame) in psns.iter().zip(1..) {
                let sent = Packet { frame, ..sample::packet(Opcode::RC_SEND_ONLY, 0x12, *psn) };
                tracker.handle_packet(&sent, &[]);
            }
            let nak = sample::answer(0x11, refused, Syndrome::nak(NakCode::PsnSequence));
            remarks(&nak, &tracker.handle_packet(&nak, &[]))
        };
        assert_eq!(remark(&[0, 1, 2], 1), ["misses frame 2"]);
        assert_eq!(remark(&[0, 2], 1), ["the missing packet is not in the capture"]);
    }

    #[test]
    fn what_went_wrong_is_trouble_and_nothing_else_is() {
        let mut tracker = Tracker::new(TrackerConfig::default());
        let mut now = 0;
        let mut is_trouble = |packet: &Packet, comment: &str| {
            now += 1_000_000_000;
            let packet = Packet { time: Timestamp::from_nanos(now), ..*packet };
            let annotation = tracker.handle_packet(&packet, &[]);
            super::is_trouble(&packet, &annotation, comment)
        };
        let send = |psn| sample::packet(Opcode::RC_SEND_ONLY, 7, psn);
        assert!(!is_trouble(&send(0), "") && is_trouble(&send(1), "fault: delayed by rule 1"));
        assert!(is_trouble(&send(1), "") && is_trouble(&send(3), ""), "again, behind a gap");
        assert!(is_trouble(&send(4), "drop reason no_receive"));
        assert!(is_trouble(&sample::answer(8, 5, Syndrome::rnr(1)), ""));
        let damaged = Packet { icrc: IcrcStatus::Wrong { found: 1, expected: 2 }, ..send(5) };
        assert!(is_trouble(&damaged, ""));
        assert!(is_trouble(&sample::packet(Opcode(0x1f), 7, 6), ""), "no such opcode");
        for other in [0x40, 0x46, 0x5f, 0xc0, 0xff] {
            let other = sample::packet(Opcode(other), 0x99, 6);
            assert!(
                !is_trouble(&other, ""),
                "{}: of a service that is not judged",
                other.bth.opcode
            );
        }
        for undefined in [0x3f, 0x60, 0xbf] {
            assert!(is_trouble(&sample::packet(Opcode(undefined), 0x99, 6), ""), "{undefined:#x}");
        }
        assert!(!is_trouble(&send(5), "something else"));
        for (psn, others) in (6..).zip(["the default gateway", "a raindrop", "no retransmission"]) {
            assert!(!is_trouble(&send(psn), others), "{others}: no comment of ours");
        }
        let ours = ["x; retransmission: tail probe", "trigger: NAK (PSN sequence error): PSN 0x1"];
        for (psn, ours) in (9..).zip(ours) {
            assert!(is_trouble(&send(psn), ours), "{ours}");
        }
    }
}
