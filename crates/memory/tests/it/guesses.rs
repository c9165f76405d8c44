//! Keys that are guessed (A5): none opens anything, and what is said does not tell which ones exist.

use std::collections::HashSet;

use uroce_memory::{Access, AccessError};

use crate::common::{ALL, World};

const START: u64 = 0x10_0000;
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
