//! The ICRC check of a received packet, with a guess at the IPv4 identification that an ordinary UDP
//! socket hides (docs/wire.md).
//!
//! A right guess makes the ICRC a full 32-bit check; without one the ID is solved for and only 16
//! bits of check remain.

use uroce_datapath::{IcrcRx, IpId, RxPacket};
use uroce_memory::multiplied_crc;
use uroce_wire::{DropReason, Flow, FlowIcrc, IcrcVerdict};

/// Counts of how ICRCs were verified; failures are counted as drop reasons.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IcrcFindings {
    /// All fields known, all 32 bits right.
    pub(crate) valid: u64,
    /// The hidden IPv4 ID was guessed, all 32 bits right.
    pub(crate) predicted: u64,
    /// The hidden IPv4 ID was solved for, 16 bits right.
    pub(crate) solved: u64,
    /// Predictor of the hidden IPv4 IDs of packets that arrived as one GSO batch.
    batch: BatchIds,
}

/// What is known of the ICRCs and the IPv4 identifications of one peer's packets.
#[derive(Debug)]
pub(crate) struct RxIcrc {
    ids: IdPredictor,
    icrc: FlowIcrc,
}

impl Default for RxIcrc {
    fn default() -> Self {
        let icrc = FlowIcrc::with_payload_crc(multiplied_crc);
        RxIcrc { ids: IdPredictor::default(), icrc }
    }
}

impl RxIcrc {
    /// Checks the ICRC and returns the IPv4 identification it was right with.
    pub(super) fn check(
        &mut self,
        caps: IcrcRx,
        rx: &RxPacket<'_>,
        findings: &mut IcrcFindings,
    ) -> Result<u16, DropReason> {
        if caps == IcrcRx::Skip {
            return Ok(0);
        }
        let flow = Flow {
            src: rx.src.ip(),
            dst: rx.dst.ip(),
            src_port: rx.src.port(),
            dst_port: rx.dst.port(),
        };
        let known = match rx.ip_id {
            IpId::Known(id) => id,
            IpId::NotPresent => 0,
            IpId::Hidden(place) => return self.recover_id(&flow, rx.payload, place, findings),
        };
        if !rx.icrc_checked && !self.icrc.verify(&flow, known, rx.payload) {
            return Err(DropReason::BadIcrc);
        }
        findings.valid += 1;
        Ok(known)
    }

    /// A right guess is a full check; a solved ID leaves 16 bits of it (docs/wire.md). What stands
    /// behind another packet is numbered after that one, whichever queue pair either is for.
    fn recover_id(
        &mut self,
        flow: &Flow,
        payload: &[u8],
        place: u16,
        findings: &mut IcrcFindings,
    ) -> Result<u16, DropReason> {
        let guesses = match place {
            0 => self.ids.guesses(),
            _ => findings.batch.guesses(place),
        };
        let (id, guessed) = match self.icrc.recover(flow, &guesses, payload) {
            IcrcVerdict::Valid => {
                findings.valid += 1;
                return Ok(0);
            }
            IcrcVerdict::Predicted(id) => {
                findings.predicted += 1;
                (id, true)
            }
            IcrcVerdict::Solved(id) => {
                findings.solved += 1;
                (id, false)
            }
            IcrcVerdict::Bad => return Err(DropReason::BadIcrc),
        };
        findings.batch.learn(place, id, guessed);
        if place == 0 {
            self.ids.learn(id);
        }
        Ok(id)
    }
}

/// What was seen of one peer's IDs. Peers count up by one (Linux, per destination), stay at zero
/// (DF set, RFC 6864), or move in some other constant step.
#[derive(Debug, Clone, Copy, Default)]
struct IdPredictor {
    last: u16,
    step: u16,
    /// The last step undid the one before: the packets of successive GSO batches of two are
    /// numbered 0, 1, 0, 1.
    alternates: bool,
}

/// IDs of the packets that arrived as one GSO batch, of any queue pair.
#[derive(Debug, Clone, Copy, Default)]
struct BatchIds {
    /// The ID of the first of them.
    first: u16,
}

impl BatchIds {
    /// The candidates for the packet at `place` behind the first one: numbered on, or all the same.
    fn guesses(self, place: u16) -> [u16; 3] {
        [self.first.wrapping_add(place), self.first, place]
    }

    /// Learns the ID of a packet whose ICRC was right with it, and was `guessed` or not.
    fn learn(&mut self, place: u16, id: u16, guessed: bool) {
        if place == 0 || !guessed {
            self.first = id.wrapping_sub(place);
        }
    }
}

impl IdPredictor {
    /// The candidates, most likely first.
    fn guesses(self) -> [u16; 3] {
        let next = match self.alternates {
            true => self.last.wrapping_sub(self.step),
            false => self.last.wrapping_add(self.step),
        };
        [next, self.last.wrapping_add(1), 0]
    }

    /// Learns the ID of a packet whose ICRC was right with it.
    fn learn(&mut self, id: u16) {
        let step = id.wrapping_sub(self.last);
        self.alternates = step != 0 && step == self.step.wrapping_neg();
        self.step = step;
        self.last = id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_guessed_first_for_a_new_peer() {
        assert_eq!(IdPredictor::default().guesses()[0], 0);
    }

    #[test]
    fn counters_and_constants_are_predicted() {
        for (ids, next) in [
            ([7, 8, 9], 10),
            ([5, 5, 5], 5),
            ([0xfffe, 0xffff, 0], 1),
            ([0, 0, 0], 0),
            ([0, 1, 0], 1),
        ] {
            let mut predictor = IdPredictor::default();
            ids.into_iter().for_each(|id| predictor.learn(id));
            assert_eq!(predictor.guesses()[0], next, "{ids:?}");
        }
    }

    #[test]
    fn a_train_is_numbered_on_from_its_first_packet_or_not_at_all() {
        let mut ids = BatchIds::default();
        assert!(ids.guesses(9).contains(&9), "our own trains begin at 0");
        ids.learn(0, 700, true);
        assert_eq!(ids.guesses(5)[0], 705);
        assert!(ids.guesses(5).contains(&700));
        ids.learn(5, 700, true);
        assert_eq!(ids.guesses(6)[0], 706, "a guess that was right teaches nothing");
        ids.learn(6, 806, false);
        assert_eq!(ids.guesses(7)[0], 807, "the first one was for another queue pair");
    }

    #[test]
    fn a_jump_still_leaves_plus_one() {
        let mut predictor = IdPredictor::default();
        predictor.learn(100);
        predictor.learn(5_000);
        assert!(predictor.guesses().contains(&5_001));
        assert!(predictor.guesses().contains(&0));
    }
}
