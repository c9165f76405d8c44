//! Inputs that are nearly right: a seed, changed at some places, the same for each number.
//!
//! As a test each target has a short run. `UROCE_MUTATE_SECONDS=300 cargo test --release -p
//! uroce-analyze -p uroce-fault --test it mutated` gives each so many seconds, from where the clock says;
//! a failure names the number of its input, and `UROCE_MUTATE_FROM` begins with that one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Random numbers of one input (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Bytes at which parsers go wrong: ends of ranges, and what texts are made of.
const ODD: &[u8] = b"\x00\xff\x7f\x80\x01\x04\x05\x40-+.:;,=>@~%*#\"'[]{}()0 9\n\xc3";

/// Changes `bytes` at up to 8 places: other bytes, bits, numbers, parts left out, twice or elsewhere.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(8) {
        let (at, other) = (random.below(bytes.len()), random.below(bytes.len()));
        let most = 1 + random.below(64);
        let length = random.below(most).min(bytes.len() - at);
        match random.below(9) {
            0 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => bytes[at] = ODD[random.below(ODD.len())],
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..at + length)),
            5 => {
                let part = bytes[at..at + length].to_vec();
                bytes.splice(other..other, part);
            }
            6 => bytes.insert(at, ODD[random.below(ODD.len())]),
            7 => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            _ => {
                let number = (random.next() >> random.below(64)).to_le_bytes();
                bytes[at..].iter_mut().zip(number).take(4).for_each(|(byte, new)| *byte = new);
            }
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Says which input it was if a test panics.
struct Input(u64);

impl Drop for Input {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("input {0}: UROCE_MUTATE_FROM={0}", self.0);
        }
    }
}

/// Calls `check` with `count` inputs that are made of `seeds`; with as many as fit, if a time is given.
#[expect(clippy::disallowed_methods, reason = "a longer run lasts as long as its user says")]
pub fn each(count: u64, seeds: &[Vec<u8>], mut check: impl FnMut(&[u8], &mut Random)) {
    let time = number("UROCE_MUTATE_SECONDS").map(Duration::from_secs);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let start = number("UROCE_MUTATE_FROM").unwrap_or(if time.is_some() { now } else { 0 });
    let (began, mut tried) = (Instant::now(), 0);
    while time.map_or(tried < count, |time| began.elapsed() < time) {
        let input = Input(start.wrapping_add(tried));
        let mut random = Random(input.0);
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &mut random);
        check(&bytes, &mut random);
        tried += 1;
    }
    println!("{tried} inputs in {:.1} s", began.elapsed().as_secs_f64());
}
