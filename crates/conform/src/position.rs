//! Packets of a message: where each stands, and its opcode.

use uroce_wire::{Opcode, Position, Service, opcode_for};

/// Where packet `index` of `0..=last` stands in its message.
pub(crate) fn position(index: usize, last: usize) -> Position {
    match (index, last) {
        (0, 0) => Position::Only,
        (0, _) => Position::First,
        (index, last) if index == last => Position::Last,
        _ => Position::Middle,
    }
}

/// The opcode of the same RC operation at a position; immediate data and invalidation stand at its end.
pub(crate) fn positioned(only: Opcode, position: Position) -> Opcode {
    let Some(info) = only.info() else { return only };
    let ends = matches!(position, Position::Only | Position::Last);
    let (imm, inv) = (ends && info.has_imm(), ends && info.has_invalidate());
    opcode_for(Service::Rc, info.operation, position, imm, inv).unwrap_or(only)
}
