//! Keys that are guessed (A5): none opens anything, and neither what is said nor the time it takes tells which ones exist.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use uroce_memory::{Access, AccessError};

use crate::common::{ALL, World};

const START: u64 = 0x10_0000;
/// Look-ups between two looks at the clock, and how often. Of all times the shortest counts: a machine with other work
/// makes some longer, and none shorter.
const BATCH: u32 = 256;
const BATCHES: u32 = 400;
/// What security of a look-up is held against: a difference below this cannot be seen over a network.
const DIFFERENCE: Duration = Duration::from_nanos(50);

/// A world with so many regions, and every key that is valid in it.
fn world_of(regions: u32) -> (World, Vec<u32>, HashSet<u32>) {
    let mut world = World::new();
    let made: Vec<_> = (0..regions).map(|_| world.mr(64, START, ALL)).collect();
    let valid = made.iter().flat_map(|mr| [mr.rkey.0, mr.lkey.0]).collect();
    (world, made.iter().map(|mr| mr.rkey.0).collect(), valid)
}

/// A key that differs from a valid one in its low 8 bits.
fn variant(of: u32, number: u32) -> u32 {
    of ^ (1 + number % 255)
}

/// A key somewhere.
fn anywhere(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1) ^ 0x5555
}

#[test]
#[cfg_attr(miri, ignore = "a million look-ups")]
fn a5_a_million_wrong_keys_open_nothing_and_are_all_answered_alike() {
    let (world, keys, valid) = world_of(1000);
    for guess in 0..1u32 << 20 {
        let of = keys[guess as usize % keys.len()];
        let key = if guess.is_multiple_of(2) { variant(of, guess) } else { anywhere(guess) };
        if valid.contains(&key) {
            continue;
        }
        let refused = world.table.check(key, world.by(), Access::REMOTE_WRITE, START, 8);
        assert_eq!(refused.map(|_| ()), Err(AccessError::UnknownKey { key }));
        let written = world.table.write(key, world.by(), START, b"guessed!");
        assert_eq!(written, Err(AccessError::UnknownKey { key }));
    }
    for key in keys {
        let mut bytes = [1; 64];
        let slice = world.table.check(key, world.by(), Access::REMOTE_READ, START, 64);
        slice.expect("it is valid").copy_out(0, &mut bytes).expect("inside");
        assert_eq!(bytes, [0; 64], "a guess has written");
    }
}

/// The shortest time of a batch of look-ups of these keys, none of which is valid.
fn shortest(world: &World, key: impl Fn(u32) -> u32) -> Duration {
    let batches = (0..BATCHES).map(|batch| {
        let keys: Vec<u32> = (0..BATCH).map(|at| key(batch * BATCH + at)).collect();
        let start = Instant::now();
        let refused = keys.iter().filter(|&&key| {
            let by = std::hint::black_box(world.by());
            world.table.check(key, by, Access::REMOTE_WRITE, START, 8).is_err()
        });
        let count = std::hint::black_box(refused.count());
        let took = start.elapsed();
        assert_eq!(count, keys.len());
        took
    });
    batches.min().expect("there are some")
}

#[test]
#[cfg_attr(miri, ignore = "it measures time")]
fn a5_a_look_up_takes_as_long_whether_its_index_exists_or_not() {
    let (world, keys, valid) = world_of(64);
    let not_valid = |key: u32| if valid.contains(&key) { key ^ 0xff } else { key };
    let near = |number: u32| not_valid(variant(keys[number as usize % keys.len()], number));
    let far = |number: u32| not_valid(anywhere(number));
    // In turns, so that both meet the same machine.
    let (mut exists, mut does_not) = (Duration::MAX, Duration::MAX);
    for _ in 0..8 {
        exists = exists.min(shortest(&world, near));
        does_not = does_not.min(shortest(&world, far));
    }
    let difference = exists.abs_diff(does_not) / BATCH;
    println!("{:?} and {:?} a look-up", exists / BATCH, does_not / BATCH);
    assert!(difference < DIFFERENCE, "{difference:?}: {exists:?} and {does_not:?} for {BATCH}");
}
