//! Changes to the bytes of a packet.

use uroce_wire::ICRC_LEN;

use super::event::What;
use super::report::Refusal;
use super::rule_state::RuleState;
use crate::PacketMeta;
use crate::packet_view::PacketView;
use crate::rule::{Action, Area};

/// The byte of the BTH that the ICRC does not cover.
const MARKS_AT: usize = 4;
/// TOS and traffic class: the ECN field.
const CONGESTION_EXPERIENCED: u8 = 3;

/// Why an action cannot change this packet.
pub(super) fn refusal(action: &Action, packet: &[u8]) -> Option<Refusal> {
    let view = PacketView::new(packet);
    match *action {
        Action::Set { field, .. } => {
            let has_bth = view.opcode().is_some();
            (!has_bth || !field.is_in(view.info())).then_some(Refusal::NoSuchField)
        }
        Action::Corrupt { area, byte, .. } => {
            let length = span(area, &view).len();
            let is_there = byte.map_or(length > 0, |byte| (byte as usize) < length);
            (!is_there).then_some(Refusal::NoSuchByte)
        }
        Action::Truncate(length) => (packet.len() <= length as usize).then_some(Refusal::NotLonger),
        _ => None,
    }
}

/// Bytes of a part of a packet.
fn span(area: Area, packet: &PacketView<'_>) -> std::ops::Range<usize> {
    let length = packet.bytes().len();
    match area {
        Area::Any => 0..length,
        Area::Header => 0..packet.header_len(),
        Area::Payload => packet.header_len()..packet.icrc_at(),
        Area::Icrc => packet.icrc_at()..length,
    }
}

/// Changes a packet as `action` says. `None` if the action changes no bytes.
pub(super) fn edit(
    action: &Action,
    packet: &mut Vec<u8>,
    meta: &mut PacketMeta,
    state: &mut RuleState,
) -> Option<What> {
    match *action {
        Action::Set { field, value } => {
            let info = PacketView::new(packet).info();
            field.set(packet, info, value).map(|()| What::Set { field, value })
        }
        Action::Corrupt { area, byte, bit } => flip(packet, area, byte, bit, state),
        Action::Truncate(length) => {
            let (from, to) = (packet.len(), packet.len().min(length as usize));
            packet.truncate(to);
            Some(What::Truncated { from, to })
        }
        Action::Mark => {
            meta.traffic_class |= CONGESTION_EXPERIENCED;
            Some(What::Marked)
        }
        _ => None,
    }
}

fn flip(
    packet: &mut [u8],
    area: Area,
    byte: Option<u32>,
    bit: Option<u8>,
    state: &mut RuleState,
) -> Option<What> {
    let span = span(area, &PacketView::new(packet));
    let byte = match byte {
        Some(byte) => byte as usize,
        None => draw_byte(&span, state)?,
    };
    let bit = bit.unwrap_or_else(|| state.below(8) as u8);
    *packet.get_mut(span.start + byte)? ^= 1 << bit;
    Some(What::Flipped { area, byte, bit })
}

/// A byte of the span, but not the one that the ICRC does not cover: a change there is no damage.
fn draw_byte(span: &std::ops::Range<usize>, state: &mut RuleState) -> Option<usize> {
    let has_marks = span.contains(&MARKS_AT) && span.len() > 1;
    let choices = span.len().checked_sub(usize::from(has_marks)).filter(|choices| *choices > 0)?;
    let byte = state.below(choices as u64) as usize;
    Some(byte + usize::from(has_marks && byte >= MARKS_AT))
}

/// Makes the ICRC right.
pub(super) fn repair(packet: &mut [u8], meta: &PacketMeta) {
    if let Some((covered, icrc)) = packet.split_last_chunk_mut::<ICRC_LEN>() {
        *icrc = uroce_wire::icrc(&meta.flow, meta.ip_id, covered).to_le_bytes();
    }
}
