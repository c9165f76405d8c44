//! Which packet a NAK misses.

use uroce_wire::{NakCode, SyndromeKind};

use super::step::Step;
use super::{Arrow, ArrowKind};
use crate::Packet;

/// Most packets before a NAK among which the missing one is looked for.
const WINDOW: usize = 4096;

/// If `packet` is a sequence NAK, marks the request that it misses as lost; if that request was not
/// captured, says so beside the NAK.
pub(super) fn explain_nak(steps: &mut [Step], packet: &Packet, nak: &mut Arrow) {
    let kind = packet.aeth.map(|aeth| aeth.syndrome.kind());
    if nak.kind != ArrowKind::Refusal || kind != Some(SyndromeKind::Nak(NakCode::PsnSequence)) {
        return;
    }
    let from = steps.len().saturating_sub(WINDOW);
    let sent = steps[from..].iter_mut().map(|step| &mut step.arrow).filter(|arrow| {
        arrow.kind == ArrowKind::Request
            && arrow.to_right != nak.to_right
            && arrow.psn == packet.bth.psn
    });
    let mut was_captured = false;
    for request in sent {
        was_captured = true;
        if !request.is_lost {
            request.is_lost = true;
            request.notes.push(format!("missing at the receiver: NAK in frame {}", nak.frame));
            return;
        }
    }
    if !was_captured {
        nak.notes.push("the missing packet is not in the capture".to_owned());
    }
}
