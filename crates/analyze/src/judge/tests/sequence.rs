use uroce_wire::{Opcode, Reth};

use super::scene::{MTU, Scene, request};
use crate::Packet;

fn after(packets: &[(Opcode, u32, u32)]) -> Scene {
    let mut scene = Scene::connected();
    for (opcode, psn, bytes) in packets {
        scene.request(*opcode, *psn, *bytes);
    }
    scene
}

const FIRST: Opcode = Opcode::RC_SEND_FIRST;
const MIDDLE: Opcode = Opcode::RC_SEND_MIDDLE;
const LAST: Opcode = Opcode::RC_SEND_LAST;
const ONLY: Opcode = Opcode::RC_SEND_ONLY;

#[test]
fn first_middle_last_of_one_kind() {
    after(&[(FIRST, 10, MTU), (MIDDLE, 11, MTU), (LAST, 12, 4), (ONLY, 13, 4)]).keeps_all();
    after(&[(FIRST, 10, MTU), (ONLY, 11, 4)]).breaks("opcode-sequence");
    after(&[(ONLY, 10, MTU), (LAST, 11, 4)]).breaks("opcode-sequence");
    after(&[(LAST, 10, 4)]).breaks("opcode-sequence");
    after(&[(FIRST, 10, MTU), (Opcode::RC_WRITE_LAST, 11, 4)]).breaks("opcode-sequence");
}

#[test]
fn a_message_that_goes_on_behind_a_gap_breaks_no_order() {
    after(&[(FIRST, 10, MTU), (ONLY, 12, 4)]).keeps("opcode-sequence");
    after(&[(FIRST, 10, MTU), (LAST, 11, 4), (LAST, 11, 4)]).keeps("opcode-sequence");
}

#[test]
fn full_packets_have_the_path_mtu() {
    after(&[(FIRST, 10, MTU), (MIDDLE, 11, MTU - 4)]).breaks("payload-not-mtu");
    after(&[(FIRST, 10, 1000)]).breaks("payload-not-mtu");
    after(&[(FIRST, 10, 4096), (LAST, 11, 1)]).keeps("payload-not-mtu");
    after(&[(FIRST, 10, MTU), (LAST, 11, MTU + 4)]).breaks("payload-above-mtu");
    after(&[(FIRST, 10, MTU), (LAST, 11, MTU)]).keeps("payload-above-mtu");
}

fn write(announced: u32, packets: &[(Opcode, u32, u32)]) -> Scene {
    let mut scene = Scene::connected();
    for (opcode, psn, bytes) in packets {
        let has_reth = opcode.info().is_some_and(|info| info.starts());
        let reth = has_reth.then_some(Reth { va: 0, rkey: 0, length: announced });
        scene.give(Packet { reth, ..request(*opcode, *psn, *bytes) }, &[]);
    }
    scene
}

#[test]
fn the_pieces_of_a_write_are_what_it_announces() {
    const FIRST: Opcode = Opcode::RC_WRITE_FIRST;
    const LAST: Opcode = Opcode::RC_WRITE_LAST;
    let finding = write(MTU + 8, &[(FIRST, 10, MTU), (LAST, 11, 4)]).breaks("write-length");
    assert!(finding.text.contains("has 1028 bytes, announced are 1032"), "{}", finding.text);
    write(MTU + 4, &[(FIRST, 10, MTU), (LAST, 11, 4)]).keeps_all();
    write(9, &[(Opcode::RC_WRITE_ONLY, 10, 8)]).breaks("write-length");
    write(8, &[(Opcode::RC_WRITE_ONLY, 10, 8)]).keeps_all();
}

#[test]
fn a_write_whose_middle_was_sent_again_is_counted_once() {
    const FIRST: Opcode = Opcode::RC_WRITE_FIRST;
    const MIDDLE: Opcode = Opcode::RC_WRITE_MIDDLE;
    const LAST: Opcode = Opcode::RC_WRITE_LAST;
    let again = [(FIRST, 10, MTU), (MIDDLE, 11, MTU), (MIDDLE, 11, MTU), (LAST, 12, 4)];
    write(2 * MTU + 4, &again).keeps("write-length");
}

/// A capture with a snap length has the first bytes of a batch that segmentation offload left as one
/// frame: its length says nothing.
#[test]
fn lengths_of_cut_frames_are_not_judged() {
    let mut scene = Scene::connected();
    for (psn, bytes) in [(10, 4144), (14, 2064), (16, 64_464)] {
        let cut = Packet { is_cut: true, ..request(Opcode::RC_WRITE_FIRST, psn, bytes) };
        scene.give(cut, &[]);
    }
    let findings = scene.findings();
    let lengths = findings.iter().filter(|finding| finding.rule.name.starts_with("payload"));
    assert_eq!(lengths.count(), 0, "{findings:#?}");
}
