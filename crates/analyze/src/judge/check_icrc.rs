//! Checks of the ICRC.

use super::finding::Ledger;
use super::rule::Rule;
use super::rules::icrc::{ICRC_ID_REWRITTEN, ICRC_NEVER_RIGHT, ICRC_PORT_REWRITTEN, ICRC_WRONG};
use super::sight::Sight;
use crate::icrc_status::IcrcProof;
use crate::{IcrcStatus, Packet};

/// What the ICRC of a flow has been so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct IcrcSeen {
    is_right: bool,
    proof: IcrcProof,
    wrong: u64,
    first_wrong: u64,
}

impl IcrcSeen {
    /// A packet showed that the sender writes right ICRCs.
    pub(super) const fn is_right(self) -> bool {
        self.is_right
    }

    /// No packet showed right ICRCs: the sender writes none, or the capture was made before it is written.
    pub(super) const fn is_never_right(self) -> bool {
        !self.is_right && self.wrong > 2
    }
}

/// A damaged packet that names a queue pair to which nothing went before it.
pub(super) fn note_of_no_flow(packet: &Packet, ledger: &mut Ledger) {
    let (frame, status, qpn) = (packet.frame, packet.icrc, packet.bth.dest_qpn);
    ledger.record(&ICRC_WRONG, None, frame, || {
        format!(
            "frame {frame}: ICRC {status}; no undamaged packet to queue pair {qpn} came before it"
        )
    });
}

impl IcrcSeen {
    /// Looks at the ICRC. False if the packet is damaged, so that its fields mean nothing.
    pub(super) fn check(&mut self, sight: &Sight<'_>, ledger: &mut Ledger) -> bool {
        let status = sight.packet.icrc;
        let text = || format!("ICRC {status}");
        self.is_right |= self.proof.is_given_by(status);
        match status {
            IcrcStatus::Wrong { .. } => {
                self.note_wrong(sight.packet.frame);
                sight.breaks(&ICRC_WRONG, ledger, text);
                return self.is_never_right();
            }
            IcrcStatus::RightWithSourcePort(_) => sight.breaks(&ICRC_PORT_REWRITTEN, ledger, text),
            IcrcStatus::RightWithIpId(_) => sight.breaks(&ICRC_ID_REWRITTEN, ledger, text),
            IcrcStatus::Right | IcrcStatus::NotChecked(_) => {}
        }
        true
    }

    fn note_wrong(&mut self, frame: u64) {
        if self.wrong == 0 {
            self.first_wrong = frame;
        }
        self.wrong += 1;
    }

    /// At the end: a flow without any right ICRC that was answered all the same is no damage.
    pub(super) fn conclude(self, flow: usize, is_answered: bool, ledger: &mut Ledger) {
        if self.is_no_damage(is_answered) {
            let count = self.wrong;
            ledger.record(&ICRC_NEVER_RIGHT, Some(flow), self.first_wrong, || {
                format!("all {count} packets of the flow, but the peer answers them")
            });
        }
    }

    /// What looks like damage is the way the capture was made: [`conclude`](Self::conclude) tells it as a note.
    const fn is_no_damage(self, is_answered: bool) -> bool {
        self.is_never_right() && is_answered
    }

    /// A finding by `rule` is told by that note.
    pub(super) fn explains(self, rule: &Rule, is_answered: bool) -> bool {
        [&ICRC_WRONG, &ICRC_ID_REWRITTEN, &ICRC_PORT_REWRITTEN].contains(&rule)
            && self.is_no_damage(is_answered)
    }
}
