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
    constant: Constant,
    /// Others between the same addresses are right.
    has_damaged: bool,
}

/// The ICRC of packets that should differ in it.
#[derive(Debug, Default, Clone, Copy)]
enum Constant {
    /// No wrong one was seen.
    #[default]
    Unseen,
    /// All have this one; `expected` is what the first should have.
    Same { found: u32, expected: u32, is_shown: bool },
    /// There were others.
    Broken,
}

impl Constant {
    fn note(&mut self, found: u32, expected: u32) {
        // Damage leaves zeros once in 2^32 packets. Two copies of one packet may be damaged in the same way.
        *self = match *self {
            Self::Unseen => Self::Same { found, expected, is_shown: found == 0 },
            Self::Same { found: before, expected: first, is_shown } if before == found => {
                Self::Same { found, expected: first, is_shown: is_shown || expected != first }
            }
            _ => Self::Broken,
        };
    }

    /// What stands in the place of an ICRC that nobody has written.
    const fn placeholder(self) -> Option<u32> {
        match self {
            Self::Same { found, is_shown: true, .. } => Some(found),
            _ => None,
        }
    }
}

impl IcrcSeen {
    /// A packet showed that the sender writes right ICRCs.
    pub(super) const fn is_right(self) -> bool {
        self.is_right
    }

    /// No packet showed right ICRCs: the sender writes none, or the capture was made before it is written.
    pub(super) const fn is_never_right(self) -> bool {
        !self.is_right && (self.wrong > 2 || self.is_unwritten())
    }

    /// All packets have the same ICRC.
    const fn is_unwritten(self) -> bool {
        self.constant.placeholder().is_some() && !self.has_damaged
    }

    /// A packet of the flow is damaged: others between its addresses have a right ICRC.
    pub(super) fn note_damaged(&mut self) {
        self.has_damaged = true;
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
            IcrcStatus::Wrong { found, expected } => {
                self.constant.note(found, expected);
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

    /// At the end: a flow without any right ICRC that was heeded all the same is no damage.
    pub(super) fn conclude(self, flow: usize, is_heeded: bool, ledger: &mut Ledger) {
        if self.is_no_damage(is_heeded) {
            let count = self.wrong;
            ledger.record(&ICRC_NEVER_RIGHT, Some(flow), self.first_wrong, || {
                match self.constant.placeholder().filter(|_| !is_heeded) {
                    Some(found) => format!("all {count} packets of the flow have {found:#010x}"),
                    None => format!("all {count} packets of the flow, but the peer heeds them"),
                }
            });
        }
    }

    /// What looks like damage is the way the capture was made: [`conclude`](Self::conclude) tells it as a note.
    const fn is_no_damage(self, is_heeded: bool) -> bool {
        self.is_never_right() && (is_heeded || self.is_unwritten())
    }

    /// A finding by `rule` is told by that note.
    pub(super) fn explains(self, rule: &Rule, is_heeded: bool) -> bool {
        [&ICRC_WRONG, &ICRC_ID_REWRITTEN, &ICRC_PORT_REWRITTEN].contains(&rule)
            && self.is_no_damage(is_heeded)
    }
}
