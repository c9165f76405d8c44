//! Models of the ring and of the inbox around it: every order of a few operations of two or three
//! threads. `cargo xtask loom` runs them.

use loom::sync::Arc;
use loom::thread;

use super::inbox::Inbox;
use super::ring::{Next, Ring, SLOTS};
use crate::burst::{Burst, Cursor, GsoLimit};
use crate::route::Route;
use crate::sync::explore;

/// Bytes of a packet whose batch fits into a slot, and of one whose batch does not.
const SMALL: usize = 8;
const LARGE: usize = 1024;

fn route() -> Route {
    let [src, dst] = ["10.0.0.1:5", "10.0.0.2:4791"].map(|text| text.parse().expect("an address"));
    Route { src, dst, hop_limit: 7, traffic_class: 0 }
}

/// A packet of `size` bytes, each of them `value`.
fn packet(value: u8, size: usize) -> Burst {
    let mut burst = Burst::new(4, GsoLimit::NONE);
    burst.space().expect("room")[..size].fill(value);
    burst.commit(&route(), size);
    burst
}

/// The value of each packet.
fn values(burst: &Burst) -> Vec<u8> {
    let mut cursor = Cursor::default();
    let next = || {
        let (to, bytes) = burst.next(&mut cursor)?;
        assert!(*to == route() && bytes.iter().all(|byte| *byte == bytes[0]), "{to:?} {bytes:?}");
        Some(bytes[0])
    };
    std::iter::from_fn(next).collect()
}

fn put(ring: &Ring, number: usize, value: u8) {
    let burst = packet(value, SMALL);
    let batch = burst.batches()[0];
    ring.put_batch(number, &batch, burst.batch_bytes(&batch));
}

/// What is in the ring, up to a slot that is not written.
fn drain(ring: &Ring) -> Vec<u8> {
    let mut burst = Burst::new(2 * SLOTS, GsoLimit::NONE);
    while ring.next(&mut burst) == Next::Batch {}
    values(&burst)
}

/// A batch is read whole and in order, also where its slot had another one before.
#[test]
fn a_batch_is_read_whole_from_a_slot_that_is_used_again() {
    explore(|| {
        let ring = Arc::new(Ring::new());
        (0..SLOTS).for_each(|number| put(&ring, number, number as u8));
        let mut burst = Burst::new(2 * SLOTS, GsoLimit::NONE);
        (0..SLOTS - 1).for_each(|_| assert_eq!(ring.next(&mut burst), Next::Batch));
        let writer = Arc::clone(&ring);
        let writer = thread::spawn(move || {
            let free = (SLOTS..2 * SLOTS).rev().find(|number| writer.is_free(*number));
            assert!(free.is_some_and(|number| number >= 2 * SLOTS - 2), "{free:?}");
            for number in SLOTS..SLOTS + 2 {
                put(&writer, number, number as u8);
            }
        });
        let mut read = drain(&ring);
        writer.join().expect("no panic");
        read.extend(drain(&ring));
        assert_eq!(read, [SLOTS - 1, SLOTS, SLOTS + 1].map(|number| number as u8));
    });
}

/// Reads what there is until the receiver may sleep.
fn receive(inbox: &Inbox) -> Vec<u8> {
    let (mut burst, mut read) = (Burst::new(8, GsoLimit::NONE), Vec::new());
    loop {
        while inbox.pop(&mut burst) {
            read.extend(values(&burst));
        }
        if !inbox.arm() {
            return read;
        }
    }
}

/// Senders of packets of these sizes, and a receiver who goes to sleep. It has read everything in
/// the order of each sender, or is woken and then reads it.
fn exchange(senders: &'static [&'static [usize]]) {
    explore(move || {
        let inbox = Arc::new(Inbox::new().expect("a descriptor"));
        let threads: Vec<_> = (0u8..)
            .zip(senders)
            .map(|(sender, sizes)| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    for (index, size) in (0u8..).zip(*sizes) {
                        inbox.push(&mut packet(sender << 4 | index, *size));
                        inbox.wake();
                    }
                })
            })
            .collect();
        let mut read = receive(&inbox);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let mut woken = [0; 8];
        let event = inbox.event().expect("a descriptor");
        if rustix::io::read(&event, &mut woken).is_ok() {
            read.extend(receive(&inbox));
        }
        read.sort_by_key(|value| value >> 4);
        let sent = (0u8..).zip(senders).flat_map(|(sender, sizes)| {
            (0u8..).zip(*sizes).map(move |(index, _)| sender << 4 | index)
        });
        assert_eq!(read, sent.collect::<Vec<_>>(), "the receiver sleeps, or order is lost");
    });
}

#[test]
fn small_batches_wake_the_receiver() {
    exchange(&[&[SMALL, SMALL]]);
}

#[test]
fn bursts_and_small_batches_stay_in_order() {
    exchange(&[&[LARGE, SMALL, LARGE]]);
}

#[test]
fn two_senders_wake_the_receiver() {
    exchange(&[&[SMALL], &[SMALL]]);
}
