//! Which packet a NAK misses.

use uroce_wire::{NakCode, Psn, SyndromeKind};

use super::step::Step;
use super::{Arrow, ArrowKind};
use crate::Packet;

/// Most packets before a NAK among which the missing one is looked for.
const WINDOW: usize = 4096;

/// If `packet` is a sequence NAK, marks the request that it misses as lost: the newest copy of it. If that was not
/// captured, says so beside the NAK.
pub(super) fn explain_nak(steps: &mut [Step], packet: &Packet, nak: &mut Arrow) {
    let kind = packet.aeth.map(|aeth| aeth.syndrome.kind());
    if nak.kind != ArrowKind::Refusal || kind != Some(SyndromeKind::Nak(NakCode::PsnSequence)) {
        return;
    }
    let from = steps.len().saturating_sub(WINDOW);
    let mut sent = RequestCopies::new(packet.bth.psn);
    for (at, step) in steps[from..].iter().enumerate() {
        let arrow = &step.arrow;
        match (arrow.kind, arrow.to_right == nak.to_right) {
            (ArrowKind::Request, false) => sent.note(arrow.psn, from + at),
            (ArrowKind::Refusal, true) if arrow.psn == nak.psn => sent.is_refused = true,
            _ => {}
        }
    }
    let Some(copy) = sent.copy else {
        nak.notes.push("the missing packet is not in the capture".to_owned());
        return;
    };
    if sent.is_skipped() {
        nak.notes.push("the missing copy is not in the capture".to_owned());
        return;
    }
    // A NAK before has asked for it, and nothing was sent behind the copy by which the responder could miss that one.
    let is_stale = sent.is_refused && !sent.goes_on;
    if let Some(step) = steps.get_mut(copy).filter(|step| !is_stale && !step.arrow.is_lost) {
        step.arrow.is_lost = true;
        step.arrow.notes.push(format!("missing at the receiver: NAK in frame {}", nak.frame));
    }
}

/// Requests that were sent again, one behind the other, by their distance from the missing one.
#[derive(Debug, Clone, Copy)]
struct RepeatedRun {
    first: i32,
    last: i32,
    packets: i32,
}

/// What was sent before a NAK.
#[derive(Debug)]
struct RequestCopies {
    missing: Psn,
    /// Index of the newest copy of the missing one.
    copy: Option<usize>,
    /// Something was sent behind that copy which the responder can tell a gap from.
    goes_on: bool,
    /// A NAK before asked for the missing one.
    is_refused: bool,
    /// Distance of the furthest one from the missing one.
    furthest: Option<i32>,
    /// The newest round of repetition, if the missing one is not in it.
    round: Option<RepeatedRun>,
}

impl RequestCopies {
    fn new(missing: Psn) -> Self {
        let (copy, furthest, round) = (None, None, None);
        Self { missing, copy, goes_on: false, is_refused: false, furthest, round }
    }

    fn note(&mut self, psn: Psn, at: usize) {
        let distance = psn.since(self.missing);
        if distance == 0 {
            (self.copy, self.goes_on, self.round) = (Some(at), false, None);
        }
        self.goes_on |= distance > 0;
        if self.furthest.is_none_or(|furthest| distance > furthest) {
            self.furthest = Some(distance);
        } else if distance != 0 {
            let new = RepeatedRun { first: distance, last: distance, packets: 0 };
            let before = self.round.filter(|round| round.last < distance).unwrap_or(new);
            self.round =
                Some(RepeatedRun { last: distance, packets: before.packets + 1, ..before });
        }
    }

    /// The newest round goes over the missing one without it. A requester that repeats only what is missing leaves
    /// out most.
    fn is_skipped(&self) -> bool {
        self.round.is_some_and(|round| {
            let is_over = round.first < 0 && round.last > 0;
            is_over && round.packets > (round.last - round.first + 1) / 2
        })
    }
}
