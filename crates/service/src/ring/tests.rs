//! Rings: sound senders, and others.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::head::{MIN_PAYLOAD, SentHead};

/// A small ring, which wraps around often.
const SMALL: RingPlace = RingPlace { sent: 0, taken: 128, start: WORDS, size: 16 * 1024 };

fn memory() -> SharedMemory {
    SharedMemory::create(MEMORY).expect("memory").0
}

fn head(len: usize) -> HeadBytes {
    let dst = [10, 0, 0, 1].into();
    let (src_port, hop_limit, traffic_class) = (7, 64, 0);
    let (starts_batch, sealed) = (false, false);
    SentHead { dst, src_port, hop_limit, traffic_class, starts_batch, sealed, len }.encode()
}

fn take(receiver: &mut RingReceiver, memory: &SharedMemory) -> Option<Vec<u8>> {
    let head = receiver.next(memory).expect("a sound sender")?;
    let mut payload = vec![0; head::payload_len(&head).expect("a packet")];
    receiver.take(memory, &mut payload);
    Some(payload)
}

proptest! {
    #[test]
    fn packets_come_out_as_they_went_in(steps in prop::collection::vec((any::<bool>(), MIN_PAYLOAD..=MAX_PAYLOAD), 1..400)) {
        let memory = memory();
        let (mut sender, mut receiver) = (RingSender::new(SMALL), RingReceiver::new(SMALL));
        // Near the point where indices wrap around.
        let start = u32::MAX - 16 * 1024 + 1;
        (sender.written, sender.published, sender.taken) = (start, start, start);
        (receiver.next, receiver.released, receiver.sent) = (start, start, start);
        memory.store(SMALL.sent, start);
        memory.store(SMALL.taken, start);
        let mut inside = VecDeque::new();
        for (n, (send, len)) in steps.into_iter().enumerate() {
            if send {
                let payload = vec![n as u8; len];
                let had_room = sender.has_room(&memory);
                let pushed = sender.push(&memory, &head(len), &payload);
                prop_assert!(pushed || !had_room);
                if pushed {
                    inside.push_back(payload);
                }
                sender.publish(&memory);
            } else {
                prop_assert_eq!(take(&mut receiver, &memory), inside.pop_front());
                receiver.release(&memory);
            }
        }
        while let Some(due) = inside.pop_front() {
            prop_assert_eq!(take(&mut receiver, &memory), Some(due));
        }
        prop_assert!(receiver.is_empty(&memory));
    }

    /// Whatever a client writes, the service reads inside the ring, ends, and never panics.
    #[test]
    fn nonsense_in_the_ring_is_survived(
        sent: u32, bytes in prop::collection::vec(any::<u8>(), 64..512), at in 0usize..256, small: bool,
    ) {
        let memory = memory();
        let mut receiver = RingReceiver::new(SMALL);
        for n in 0..8 {
            memory.write(SMALL.start + (at + n * 31) % 256 * HEAD, &bytes[..64]);
        }
        memory.write(SMALL.start, &bytes);
        let sent = if small { sent % 1024 * HEAD as u32 } else { sent };
        memory.store(SMALL.sent, sent);
        let mut budget = 2 * SMALL.size / HEAD as u32;
        while let Ok(Some(head)) = receiver.next(&memory) {
            let len = head::payload_len(&head).expect("checked");
            receiver.take(&memory, &mut vec![0; len]);
            budget = budget.checked_sub(1).expect("an end");
        }
    }

    #[test]
    fn nonsense_from_the_receiver_is_a_full_ring_at_most(taken: u32, len in MIN_PAYLOAD..=MAX_PAYLOAD) {
        let memory = memory();
        let mut sender = RingSender::new(SMALL);
        for _ in 0..64 {
            memory.store(SMALL.taken, taken);
            sender.push(&memory, &head(len), &vec![1; len]);
            prop_assert!(sender.written.wrapping_sub(0) <= 64 * (room_of(MAX_PAYLOAD) + SMALL.size));
        }
    }
}

#[test]
fn a_pad_that_leads_to_a_pad_is_nonsense() {
    let memory = memory();
    let mut receiver = RingReceiver::new(SMALL);
    memory.write(SMALL.start, &head::pad());
    memory.store(SMALL.sent, SMALL.size);
    assert_eq!(receiver.next(&memory), Ok(None), "a pad as long as the ring, and nothing more");
    memory.store(SMALL.sent, 2 * SMALL.size);
    assert_eq!(receiver.next(&memory), Ok(None));
    memory.store(SMALL.sent, (2 * SMALL.size).wrapping_add(64));
    assert_eq!(receiver.next(&memory), Err(BadRing), "a pad that is not all there");
}

#[test]
fn a_full_ring_takes_no_more() {
    let memory = memory();
    let (mut sender, mut receiver) = (RingSender::new(SMALL), RingReceiver::new(SMALL));
    let pushed = (0..100).take_while(|_| sender.push(&memory, &head(4050), &[7; 4050])).count();
    assert_eq!(pushed, 3, "4096 bytes each, and a head");
    assert!(!sender.has_room(&memory) && receiver.is_empty(&memory), "not published");
    assert!(sender.publish(&memory) && !sender.publish(&memory));
    assert!(take(&mut receiver, &memory).is_some() && !sender.has_room(&memory), "not released");
    receiver.release(&memory);
    assert!(!sender.has_room(&memory), "the next packet needs a pad before it");
    assert!(take(&mut receiver, &memory).is_some());
    receiver.release(&memory);
    assert!(sender.has_room(&memory));
}
