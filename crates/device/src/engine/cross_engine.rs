//! Operations on other engines of the device, needed when connections are made and end
//! (docs/adr/016-engines.md).

use uroce_cm::CommId;
use uroce_wire::{Qpn, Slot};

use crate::cm_channel::CmEventKind;

/// An operation on another engine, carried out by the thread that requested it after it has
/// released its own engine.
#[derive(Debug)]
pub(crate) enum CrossEngineOp {
    /// A queue pair has got the packet that this connection waits for.
    FirstPacket(CommId),
    /// The peer of this queue pair, which the device has moved for the connection or the application has, seems to have
    /// forgotten this connection.
    ProbePeer { id: CommId, qpn: Qpn, moved: bool },
    /// The connection of this queue pair stands: its first packet confirms nothing any more.
    StopWaiting(Qpn),
    /// The connection of this queue pair has ended. Afterwards its owner hears of it.
    EndLink { qpn: Qpn, id: CommId, then: Option<CmEventKind> },
}

/// True if a number is of another slot than ours, where numbers have slots.
pub(super) fn is_elsewhere(own: Option<Slot>, theirs: Option<Slot>) -> bool {
    own.is_some() && own != theirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_slots_nothing_is_elsewhere() {
        let (one, two) = (Slot::new(1), Slot::new(2));
        assert!(is_elsewhere(one, two) && is_elsewhere(one, None));
        assert!(!is_elsewhere(one, one) && !is_elsewhere(None, two));
    }
}
