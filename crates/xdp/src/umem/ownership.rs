//! Whatever the kernel says: a part of the memory never has two owners.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const CHUNKS: usize = 4;
const SLOTS: usize = 3;

/// What happens next; numbers that stand for no owner do nothing.
#[derive(Debug, Clone)]
enum Step {
    /// The kernel claims to have filled a chunk.
    Filled(u64, u32),
    /// A chunk goes back to the kernel.
    Lend(usize),
    TakeSlot,
    Discard(usize),
    Send(usize, usize, usize),
    /// The kernel claims to have sent.
    Completed(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let end = (CHUNKS * CHUNK + SLOTS * SLOT) as u64;
    let addr = prop_oneof![0..end + 5000, (0..end / 4096).prop_map(|n| n * 4096), any::<u64>()];
    let len = prop_oneof![0u32..5000, any::<u32>()];
    prop_oneof![
        (addr.clone(), len).prop_map(|(addr, len)| Step::Filled(addr, len)),
        (0..CHUNKS).prop_map(Step::Lend),
        Just(Step::TakeSlot),
        (0..SLOTS).prop_map(Step::Discard),
        (0..SLOTS, 0..SLOT - 1, 1..SLOT).prop_map(|(n, from, len)| Step::Send(n, from, len)),
        addr.prop_map(Step::Completed),
    ]
}

proptest! {
    #[test]
    fn every_part_has_one_owner_whatever_the_kernel_says(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut umem = Umem::new(CHUNKS, SLOTS).expect("memory");
        prop_assert_eq!(umem.lend_all().count(), CHUNKS);
        let (mut chunks, mut slots, mut sent) = (vec![], vec![], 0);
        for step in steps {
            match step {
                Step::Filled(addr, len) => {
                    if let Some(chunk) = umem.claim(Desc { addr, len, options: 0 }) {
                        prop_assert_eq!(umem.received(&chunk).len(), len as usize);
                        chunks.push(chunk);
                    }
                }
                Step::Lend(n) if n < chunks.len() => {
                    let chunk: Chunk = chunks.remove(n);
                    let start = chunk.index * CHUNK;
                    prop_assert_eq!(umem.lend(chunk), start as u64);
                }
                Step::TakeSlot => slots.extend(umem.slot()),
                Step::Discard(n) if n < slots.len() => umem.discard(slots.remove(n)),
                Step::Send(n, from, len) if n < slots.len() => {
                    let end = (from + len).min(SLOT);
                    let (first, second) = umem.send(slots.remove(n), from..end);
                    let bytes = first.len + second.map_or(0, |desc| desc.len);
                    prop_assert_eq!(bytes as usize, end - from);
                    prop_assert_eq!(first.options == CONTINUED, second.is_some());
                    sent += 1;
                }
                Step::Completed(addr) => {
                    let before = umem.free.len();
                    let believed = umem.completed(addr);
                    prop_assert!(believed || umem.free.len() == before);
                    sent -= umem.free.len() - before;
                }
                Step::Lend(_) | Step::Discard(_) | Step::Send(..) => {}
            }
            let owned: BTreeSet<usize> = chunks.iter().map(|chunk| chunk.index).collect();
            prop_assert_eq!(owned.len(), chunks.len());
            for (index, lent) in umem.lent.iter().enumerate() {
                prop_assert_eq!(*lent, !owned.contains(&index));
            }
            let ours: BTreeSet<usize> =
                umem.free.iter().copied().chain(slots.iter().map(|slot| slot.index)).collect();
            prop_assert_eq!(ours.len(), umem.free.len() + slots.len());
            prop_assert_eq!(ours.len() + sent, SLOTS);
            prop_assert!(ours.iter().all(|&index| umem.in_flight[index] == 0));
        }
    }
}

#[test]
fn a_slot_lies_behind_all_chunks_and_beside_the_others() {
    let mut umem = Umem::new(2, 2).expect("memory");
    let (first, second) = (umem.slot().expect("free"), umem.slot().expect("free"));
    umem.space(&first).fill(1);
    umem.space(&second).fill(2);
    assert!(umem.space(&first).iter().all(|&byte| byte == 1));
    let descs = [umem.send(first, 0..10).0, umem.send(second, 0..10).0];
    assert_eq!(descs.map(|desc| desc.addr as usize), [2 * CHUNK, 2 * CHUNK + SLOT]);
}

#[test]
#[should_panic(expected = "a frame outside of its slot")]
fn a_frame_longer_than_its_slot_is_a_bug() {
    let mut umem = Umem::new(1, 1).expect("memory");
    let slot = umem.slot().expect("free");
    umem.send(slot, 0..SLOT + 1);
}
