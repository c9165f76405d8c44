//! The life of keys, and how well they can be guessed.

use super::{FIRST_PLACES, Keys, QUARANTINE};

fn keys(seed: u8) -> Keys {
    Keys::new([seed; 32])
}

#[test]
fn key_0_is_never_valid() {
    let mut keys = keys(1);
    assert_eq!(keys.find(0), None);
    for _ in 0..1000 {
        assert_ne!(keys.issue(0), 0);
    }
    assert_eq!(keys.find(0), None);
}

#[test]
fn keys_follow_from_the_seed_alone() {
    let draw = |seed| {
        let mut keys = keys(seed);
        (0..100).map(|target| keys.issue(target)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert!(draw(1).iter().zip(draw(2)).all(|(a, b)| *a != b));
}

#[test]
fn every_key_is_found_while_the_table_grows_and_empties() {
    let mut keys = keys(3);
    let count = if cfg!(miri) { 300 } else { 100_000 };
    let issued: Vec<u32> = (0..count).map(|target| keys.issue(target)).collect();
    for (target, &key) in issued.iter().enumerate() {
        assert_eq!(keys.find(key), Some(target as u32));
        assert_eq!(keys.find(key ^ 1), None, "a wrong variant names nothing");
    }
    for (target, &key) in issued.iter().enumerate() {
        keys.retire(key);
        assert_eq!(keys.find(key), None);
        let next = issued.get(target + 1).map(|&key| keys.find(key));
        assert!(next.is_none_or(|found| found == Some(target as u32 + 1)));
    }
    assert_eq!(keys.live, 0);
}

#[test]
fn the_table_stays_at_most_half_full_and_starts_small() {
    let mut keys = keys(4);
    assert_eq!(keys.places.len(), FIRST_PLACES);
    for count in 1..=1000 {
        keys.issue(0);
        assert!(keys.places.len() >= 2 * count && keys.places.len() <= FIRST_PLACES.max(4 * count));
    }
}

#[test]
fn a_window_keeps_its_index_when_its_variant_changes() {
    let mut keys = keys(5);
    let old = keys.issue(9);
    let new = old ^ 0x55;
    keys.revary(old, new);
    assert_eq!((keys.find(old), keys.find(new)), (None, Some(9)));
    keys.revary(new, new);
    assert_eq!(keys.find(new), Some(9));
}

#[test]
#[should_panic(expected = "only a live key")]
fn a_key_is_retired_once() {
    let mut keys = keys(6);
    let key = keys.issue(0);
    keys.retire(key);
    keys.retire(key);
}

/// A7: an index rests for `QUARANTINE` further retirements, whatever its variant was.
#[test]
fn a7_a_retired_index_rests() {
    let mut keys = keys(7);
    let rounds = if cfg!(miri) { 200 } else { 20 * QUARANTINE };
    let mut last_retired = std::collections::HashMap::new();
    for round in 0..rounds {
        let key = keys.issue(0);
        if let Some(before) = last_retired.insert(key >> 8, round) {
            assert!(round - before > QUARANTINE, "index {:#x} came back too soon", key >> 8);
        }
        keys.retire(key);
        assert!(keys.retired.len() <= QUARANTINE && keys.resting.len() == keys.retired.len());
    }
}

/// A draw that falls on a resting index is thrown away: the index that the generator is known to
/// draw first is put to rest by hand.
#[test]
fn a_resting_index_is_not_drawn() {
    let next = keys(8).issue(0);
    let mut keys = keys(8);
    keys.resting.insert(next >> 8);
    assert_ne!(keys.issue(0) >> 8, next >> 8);
}

/// A5: the time of a look-up does not tell whether an index exists. Every key with an index, whatever its variant, is
/// looked for at one place, occupied or not, and a key that is wrong by its variant fails as one that is wrong by
/// its index does: there is no second place and no second comparison.
#[test]
fn a5_a_wrong_variant_and_a_wrong_index_are_the_same_look_up() {
    let mut keys = keys(12);
    let count = if cfg!(miri) { 20 } else { 5_000 };
    let live: Vec<u32> = (0..count).map(|target| keys.issue(target)).collect();
    for &key in &live {
        for variant in 0..=255 {
            let other = key & !0xff | variant;
            assert_eq!(keys.place(other), keys.place(key));
            assert_eq!(keys.find(other).is_some(), other == key);
        }
        let wrong_index = key ^ 1 << 31;
        let place = keys.places[keys.place(wrong_index)];
        assert_eq!(keys.find(wrong_index).is_some(), place.key == wrong_index);
    }
    let places: std::collections::HashSet<usize> = live.iter().map(|&k| keys.place(k)).collect();
    assert_eq!(places.len(), live.len(), "no key has to be looked for behind another one");
}

/// Chi-square of the four bytes of `sample`, each against uniform (255 degrees of freedom).
fn chi_squares(sample: &[u32]) -> [f64; 4] {
    let expected = sample.len() as f64 / 256.0;
    [0, 8, 16, 24].map(|shift| {
        let mut seen = [0u32; 256];
        sample.iter().for_each(|word| seen[(word >> shift & 0xff) as usize] += 1);
        seen.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum()
    })
}

/// 255 degrees of freedom: mean 255, standard deviation 22.6; this is 6.4 deviations either way.
fn looks_uniform(sample: &[u32]) -> bool {
    chi_squares(sample).iter().all(|chi| (110.0..400.0).contains(chi))
}

/// Bits of min-entropy of the top (or, shifted, any) 12 bits: -log2 of the commonest value.
fn min_entropy_of_12_bits(sample: &[u32], shift: u32) -> f64 {
    let mut seen = vec![0u32; 1 << 12];
    sample.iter().for_each(|word| seen[(word >> shift & 0xfff) as usize] += 1);
    -(f64::from(*seen.iter().max().unwrap()) / sample.len() as f64).log2()
}

/// Serial correlation of consecutive values, as numbers.
fn correlation(sample: &[u32]) -> f64 {
    let (n, mean) = (sample.len() as f64, f64::from(u32::MAX) / 2.0);
    let deviation = |x: u32| f64::from(x) - mean;
    let covariance: f64 = sample.windows(2).map(|w| deviation(w[0]) * deviation(w[1])).sum();
    let variance: f64 = sample.iter().map(|&x| deviation(x).powi(2)).sum();
    covariance / variance * n / (n - 1.0)
}

fn assert_unpredictable(sample: &[u32]) {
    let pairs = || sample.windows(2);
    assert!(looks_uniform(sample));
    assert!(looks_uniform(&pairs().map(|w| w[0] ^ w[1]).collect::<Vec<_>>()), "XOR");
    let differences: Vec<u32> = pairs().map(|w| w[1].wrapping_sub(w[0])).collect();
    assert!(looks_uniform(&differences), "difference");
    assert!(correlation(sample).abs() < 0.02, "serial correlation {}", correlation(sample));
    for shift in [0, 10, 20] {
        // 10^6 draws of 4096 values: 244 each; a uniform source stays below 350.
        assert!(min_entropy_of_12_bits(sample, shift) > 11.4);
        assert!(min_entropy_of_12_bits(&differences, shift) > 11.4);
    }
    // 10^6 draws of 2^32 collide 116 times, of 2^31 twice as often: fewer than 31 bits would show.
    assert!(repeated(sample) < 175 && repeated(&differences) < 175);
}

/// How many values occurred before in the sample.
fn repeated(sample: &[u32]) -> usize {
    let mut distinct = sample.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    sample.len() - distinct.len()
}

/// Bits of min-entropy of the next key, given all keys so far: the draws are uniform (the statistics
/// below), so it is the logarithm of the number of keys that would not be thrown away.
fn bits_of_the_next_key(keys: &Keys) -> f64 {
    let free = keys.places.iter().filter(|place| place.key == 0).count() as f64;
    let not_taken = free / keys.places.len() as f64 * 2f64.powi(32);
    let resting_or_zero = (keys.resting.len() as f64 + 1.0) * 256.0;
    (not_taken - resting_or_zero).log2()
}

/// How many keys the statistics look at.
const SAMPLE: u32 = 1_000_000;

/// A6 with all registrations kept.
#[test]
#[cfg_attr(miri, ignore = "statistics need a large sample")]
fn a6_keys_of_lasting_registrations_are_unpredictable() {
    let mut keys = keys(9);
    let mut draw = |target: u32| {
        let key = keys.issue(target);
        if target.is_multiple_of(50_000) || (target + 2).is_power_of_two() {
            let bits = bits_of_the_next_key(&keys);
            assert!(bits >= 30.9, "{bits} with {target} keys");
        }
        key
    };
    let sample: Vec<u32> = (0..SAMPLE).map(&mut draw).collect();
    assert_eq!(repeated(&sample), 0, "all of them are valid at once");
    assert_unpredictable(&sample);
}

/// A6 for the program that registers and deregisters around every transfer.
#[test]
#[cfg_attr(miri, ignore = "statistics need a large sample")]
fn a6_keys_of_passing_registrations_are_unpredictable() {
    let mut keys = keys(10);
    let mut draw = || {
        let key = keys.issue(0);
        keys.retire(key);
        key
    };
    assert_unpredictable(&(0..SAMPLE).map(|_| draw()).collect::<Vec<_>>());
    assert!(keys.resting.len() == QUARANTINE && bits_of_the_next_key(&keys) >= 30.9);
}

/// The statistics do find the keys that other stacks make: index << 8 | random byte.
#[test]
#[cfg_attr(miri, ignore = "statistics need a large sample")]
fn a6_the_statistics_reject_linear_indices() {
    let mut keys = keys(11);
    let linear: Vec<u32> = (0..100_000).map(|i| i << 8 | keys.issue(0) & 0xff).collect();
    let differences: Vec<u32> = linear.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
    assert!(!looks_uniform(&linear) && !looks_uniform(&differences));
    assert!(correlation(&linear) > 0.9);
}
