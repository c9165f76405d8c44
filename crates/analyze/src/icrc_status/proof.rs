//! When the ICRCs of a flow are known to be right.

use proptest::prelude::*;

use super::*;

const WRONG: IcrcStatus = IcrcStatus::Wrong { found: 1, expected: 2 };
const UNKNOWN: IcrcStatus = IcrcStatus::NotChecked(NotChecked::Cut);
const BY_PORT: IcrcStatus = IcrcStatus::RightWithSourcePort(7);
const BY_ID: IcrcStatus = IcrcStatus::RightWithIpId(9);

/// At which packet the proof is given.
fn proven_at(packets: &[IcrcStatus]) -> Option<usize> {
    let mut proof = IcrcProof::default();
    packets.iter().position(|status| proof.is_given_by(*status))
}

#[test]
fn one_right_icrc_is_a_proof_and_of_rewritten_ones_two_in_a_row_are() {
    assert_eq!(proven_at(&[IcrcStatus::Right]), Some(0));
    assert_eq!(proven_at(&[WRONG, UNKNOWN, IcrcStatus::Right]), Some(2));
    assert_eq!(proven_at(&[BY_PORT, BY_ID]), Some(1));
    assert_eq!(proven_at(&[BY_PORT, WRONG, BY_PORT, WRONG, BY_ID]), None, "each by chance");
    assert_eq!(proven_at(&[BY_ID, UNKNOWN, BY_ID]), Some(2), "what was not checked says nothing");
    assert_eq!(proven_at(&[WRONG, UNKNOWN, WRONG]), None);
}

#[test]
fn every_verdict_has_words_of_its_own_and_only_three_are_good() {
    let offloaded = IcrcStatus::NotChecked(NotChecked::Offloaded);
    let bare = IcrcStatus::NotChecked(NotChecked::NoHeaders);
    let all = [IcrcStatus::Right, WRONG, BY_PORT, BY_ID, UNKNOWN, offloaded, bare];
    let texts: std::collections::BTreeSet<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), all.len());
    let good: Vec<_> = all.into_iter().filter(|status| status.is_good()).collect();
    assert_eq!(good, [IcrcStatus::Right, BY_PORT, BY_ID]);
    assert!(BY_PORT.to_string().contains("port were 7") && BY_ID.to_string().contains("0x0009"));
}

proptest! {
    #[test]
    fn without_a_right_one_nothing_but_a_pair_proves(
        packets in prop::collection::vec(prop::sample::select(vec![WRONG, UNKNOWN, BY_PORT, BY_ID]), 0..20),
    ) {
        let checked: Vec<_> = packets.iter().filter(|status| **status != UNKNOWN).collect();
        let is_pair = |pair: &[&IcrcStatus]| pair.iter().all(|status| status.is_good());
        prop_assert_eq!(proven_at(&packets).is_some(), checked.windows(2).any(is_pair));
    }
}
