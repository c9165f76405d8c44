//! Rings beside a queue of the standard library.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const SIZE: u32 = 8;

fn at<T: Entry>(start: u32) -> Shared<T> {
    let ring = shared(SIZE);
    ring.producer().store(start, Ordering::Relaxed);
    ring.consumer().store(start, Ordering::Relaxed);
    ring
}

proptest! {
    #[test]
    fn a_ring_that_we_fill_gives_the_kernel_what_was_published_in_order(
        start in prop_oneof![any::<u32>(), u32::MAX - 20..=u32::MAX],
        steps in prop::collection::vec((0u8..3, 1u32..10), 1..100),
    ) {
        let mut ring = Producer::over(at::<u64>(start));
        let (mut hidden, mut shown) = (VecDeque::new(), VecDeque::new());
        let (mut next, mut taken) = (0u64, start);
        for (what, count) in steps {
            match what {
                0 => for _ in 0..count {
                    let fits = hidden.len() + shown.len() < SIZE as usize;
                    prop_assert_eq!(ring.push(next), fits);
                    if fits {
                        hidden.push_back(next);
                        next += 1;
                    }
                },
                1 => {
                    ring.publish();
                    shown.append(&mut hidden);
                }
                _ => for _ in 0..count {
                    let Some(expected) = shown.pop_front() else { break };
                    prop_assert_eq!(ring.kernel_reads(taken), expected);
                    taken = taken.wrapping_add(1);
                    ring.kernel_took(taken);
                },
            }
            let waiting = (hidden.len() + shown.len()) as u32;
            prop_assert_eq!((ring.waiting(), ring.room()), (waiting, SIZE - waiting));
            let visible = ring.ring.producer().load(Ordering::Relaxed).wrapping_sub(taken);
            prop_assert_eq!(visible as usize, shown.len());
        }
    }

    #[test]
    fn a_ring_that_we_empty_gives_back_only_what_was_released(
        start in prop_oneof![any::<u32>(), u32::MAX - 20..=u32::MAX],
        steps in prop::collection::vec((0u8..3, 1u32..10), 1..100),
    ) {
        let mut ring = Consumer::over(at::<Desc>(start));
        let (mut there, mut made, mut taken, mut released) = (VecDeque::new(), start, start, start);
        for (what, count) in steps {
            match what {
                0 => for _ in 0..count {
                    // The kernel writes to no entry that was not released.
                    if made.wrapping_sub(released) < SIZE {
                        let desc = Desc { addr: made.into(), len: !made, options: 1 };
                        ring.kernel_writes(made, desc);
                        there.push_back(desc);
                        made = made.wrapping_add(1);
                    }
                },
                1 => {
                    ring.release();
                    released = taken;
                }
                _ => for _ in 0..count {
                    prop_assert_eq!(ring.has_entry(), !there.is_empty());
                    let popped = ring.pop();
                    prop_assert_eq!(popped, there.pop_front());
                    taken = taken.wrapping_add(u32::from(popped.is_some()));
                },
            }
            prop_assert_eq!(ring.ring.consumer().load(Ordering::Relaxed), released);
        }
    }
}
