//! The time that a guessed key takes does not tell whether its index exists (A5). Here, because the memory crate has no clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use uroce_device::memory::{Access, MemLimits, MemTable, Region, Requirer};

const START: u64 = 0x10_0000;
const REGIONS: usize = 64;
/// Look-ups between two looks at the clock, and how often. Of all times the shortest counts: a machine with other work
/// makes some longer, and none shorter.
const BATCH: u32 = 256;
const BATCHES: u32 = 400;
/// A smaller difference cannot be seen over a network.
const DIFFERENCE: Duration = Duration::from_nanos(50);

/// The shortest time of a batch of look-ups of these keys, none of which is valid.
fn shortest(table: &MemTable, by: Requirer, key: impl Fn(u32) -> u32) -> Duration {
    let batches = (0..BATCHES).map(|batch| {
        let keys: Vec<u32> = (0..BATCH).map(|at| key(batch * BATCH + at)).collect();
        let start = Instant::now();
        let refused = keys.iter().filter(|&&key| {
            table.check(key, black_box(by), Access::REMOTE_WRITE, START, 8).is_err()
        });
        let count = black_box(refused.count());
        let took = start.elapsed();
        assert_eq!(count, keys.len());
        took
    });
    batches.min().expect("there are some")
}

#[test]
fn a5_a_look_up_takes_as_long_whether_its_index_exists_or_not() {
    let mut table = MemTable::new([7; 32], MemLimits::default());
    let pd = table.alloc_pd().expect("a domain");
    let mut make = || {
        let region = Region::alloc(64).expect("memory");
        let mr = table.reg_mr(pd, region, START, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
        mr.expect("a region").rkey.0
    };
    let keys: Vec<u32> = (0..REGIONS).map(|_| make()).collect();
    let by = Requirer { pd, qpn: 17 };
    let of = |number: u32| keys[number as usize % REGIONS];
    // The same index with another variant, and another index.
    let near = |number: u32| of(number) ^ (1 + number % 255);
    let far = |number: u32| {
        let key = number.wrapping_mul(0x9e37_79b1) ^ 0x5555;
        if keys.contains(&key) { key ^ 0xff } else { key }
    };
    // In turns, so that both meet the same machine.
    let (mut exists, mut does_not) = (Duration::MAX, Duration::MAX);
    for _ in 0..8 {
        exists = exists.min(shortest(&table, by, near));
        does_not = does_not.min(shortest(&table, by, far));
    }
    let difference = exists.abs_diff(does_not) / BATCH;
    println!("{:?} and {:?} a look-up", exists / BATCH, does_not / BATCH);
    assert!(difference < DIFFERENCE, "{difference:?}: {exists:?} and {does_not:?} for {BATCH}");
}
