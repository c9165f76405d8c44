//! Each target on every input of its corpus, and for a while on inputs made from those: no fuzzer is needed.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};
use std::{env, fs, panic};

use uroce_fuzz::{TARGETS, Target};

/// Seconds that each target gets for new inputs.
const SECONDS: &str = "UROCE_FUZZ_SECONDS";
/// Bytes of an input.
const LONGEST: usize = 4096;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", target.name));
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("readable")).collect()
}

/// Runs the target; a panic names the input, in a form that a test can take over.
fn run(target: &Target, input: &[u8]) {
    if panic::catch_unwind(|| (target.run)(input)).is_err() {
        let file = env::temp_dir().join(format!("uroce-fuzz-{}", target.name));
        let kept = fs::write(&file, input)
            .map_or_else(|error| error.to_string(), |()| file.display().to_string());
        panic!("{}: failed on {} bytes, which are in {kept}", target.name, input.len());
    }
}

/// An input from others: bytes changed, inserted, removed, or the end of another.
fn mutated(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    const LIKELY: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x20, 0x0a, 0x04];
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(8) {
        let at = random.below(input.len() + 1);
        match random.below(6) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.next() as u8,
            2 if at < input.len() => input[at] = LIKELY[random.below(LIKELY.len())],
            3 => drop(input.drain(at..(at + random.below(16)).min(input.len()))),
            4 => {
                let bytes: Vec<u8> = (0..random.below(16)).map(|_| random.next() as u8).collect();
                drop(input.splice(at..at, bytes));
            }
            _ => {
                let other = &corpus[random.below(corpus.len())];
                input.truncate(at);
                input.extend(&other[random.below(other.len() + 1)..]);
            }
        }
        input.truncate(LONGEST);
    }
    input
}

/// Runs the target on inputs made from its corpus, and counts them.
fn run_mutated(target: &Target, seconds: Duration) -> u64 {
    let corpus = corpus(target);
    let (mut random, mut count) = (Random(u64::from(std::process::id())), 0);
    let end = Instant::now() + seconds;
    while Instant::now() < end {
        run(target, &mutated(&mut random, &corpus));
        count += 1;
    }
    count
}

#[test]
fn every_input_of_the_corpora_holds() {
    for target in &TARGETS {
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "{} has a corpus", target.name);
        corpus.iter().for_each(|input| run(target, input));
    }
}

#[test]
fn inputs_made_from_the_corpora_hold() {
    let seconds = env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(0.2);
    let seconds = Duration::from_secs_f64(seconds);
    let processors = available_parallelism().map_or(1, NonZero::get);
    let waiting = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while let Some(target) = TARGETS.get(waiting.fetch_add(1, Ordering::Relaxed)) {
                    println!("{}: {} inputs", target.name, run_mutated(target, seconds));
                }
            });
        }
    });
}

#[test]
fn each_target_has_its_program() {
    for target in &TARGETS {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("targets/{}.rs", target.name));
        let text = fs::read_to_string(&file).expect("the program of cargo-fuzz");
        assert!(text.contains(&format!("\"{}\"", target.name)), "{}", target.name);
    }
}
