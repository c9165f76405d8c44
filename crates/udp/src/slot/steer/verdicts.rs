//! What the kernel would do with the program, played step by step.

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_LD, BPF_RET};
use proptest::prelude::*;

use super::super::steering_probe::Probe;
use super::*;

/// Returns the accumulator; the C library has no name for it.
const BPF_A: u32 = 0x10;

/// The index that the program gives for a payload; `None` behind the end of it, where the kernel chooses.
fn index_of(program: &[sock_filter], payload: &[u8]) -> Option<u32> {
    let (mut a, mut at) = (0u32, 0);
    loop {
        let step = &program[at];
        at += 1;
        match u32::from(step.code) {
            c if c == BPF_LD | BPF_B | BPF_ABS => a = (*payload.get(step.k as usize)?).into(),
            c if c == BPF_ALU | BPF_SUB | BPF_K => a = a.wrapping_sub(step.k),
            c if c == BPF_JMP | BPF_JEQ | BPF_K => {
                at += usize::from(if a == step.k { step.jt } else { step.jf });
            }
            c if c == BPF_RET | BPF_K => return Some(step.k),
            c if c == BPF_RET | BPF_A => return Some(a),
            c => panic!("code {c:#x}"),
        }
    }
}

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

/// A packet to a queue pair of that slot.
fn packet(slot: u8) -> Vec<u8> {
    let mut bytes = vec![0x0a; 16];
    bytes[Slot::OFFSET] = slot;
    bytes
}

#[test]
fn without_knowledge_slots_are_in_order() {
    let program = program(&SocketIndices::new());
    for slot in Slot::all() {
        let expected = u32::from(slot.get()) - 1;
        assert_eq!(index_of(&program, &packet(slot.get())), Some(expected));
    }
    // No socket has such an index: the kernel chooses one by the addresses.
    assert_eq!(index_of(&program, &packet(0)), Some(u32::MAX));
    assert_eq!(index_of(&program, &packet(255)), Some(254));
}

#[test]
fn a_probe_goes_to_the_index_that_it_names() {
    let displaced = SocketIndices::from([(slot(1), 9), (slot(2), 0)]);
    for indices in [SocketIndices::new(), displaced] {
        let program = program(&indices);
        for index in [0, 1, 77, 255] {
            let probe = Probe { index, asker: slot(3), nonce: 5 }.write();
            assert_eq!(index_of(&program, &probe), Some(index.into()));
        }
    }
}

#[test]
fn what_is_too_short_for_a_slot_is_left_to_the_kernel() {
    let program = program(&SocketIndices::from([(slot(1), 9)]));
    for length in 0..=Slot::OFFSET {
        assert_eq!(index_of(&program, &packet(1)[..length]), None, "{length} bytes");
    }
    assert_eq!(index_of(&program, &packet(1)[..Slot::OFFSET + 1]), Some(9));
}

proptest! {
    #[test]
    fn every_slot_that_was_found_is_steered_and_the_others_are_in_order(
        found in prop::collection::btree_map(1u8..255, any::<u8>(), 0..255),
    ) {
        let indices = found.iter().map(|(number, index)| (slot(*number), *index)).collect();
        let program = program(&indices);
        for number in 1..255u8 {
            let expected = found.get(&number).copied().unwrap_or(number - 1);
            prop_assert_eq!(index_of(&program, &packet(number)), Some(expected.into()));
        }
    }
}
