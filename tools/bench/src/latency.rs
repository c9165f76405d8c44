//! Small messages there and back over a veth pair, against a TCP ping-pong that spins and one that sleeps.
//! Each end, of us and of the baselines, keeps to a processor of its own.

use uroce_testbed::error::Result;

use crate::interleave::{self, Benchmark};
use crate::link::Link;
use crate::record::{Reading, Series, Unit};
use crate::summary::bytes;
use crate::{Setup, bare, baseline, uroce};

/// The name of this group.
pub const GROUP: &str = "latency";
const MTU: u32 = 9000;
/// Bytes of a message.
pub const SIZES: [u64; 5] = [2, 8, 64, 512, 4096];
/// The size of a WRITE that is held against a bare loop.
const BARE_SIZE: u64 = 8;
/// Round trips of one run.
const COUNT: u32 = 20_000;
const QUICK_COUNT: u32 = 2_000;
/// A sleeping pair takes ten times as long.
const SLEEPING_COUNT: u32 = 3_000;

/// The name of the series of a `verb` with messages of `size` bytes.
pub fn name(datapath: &str, verb: &str, size: u64) -> String {
    format!("{datapath} {verb} {}", bytes(size))
}

/// The name of the baseline that spins.
pub fn spinning(size: u64) -> String {
    format!("TCP spinning {}", bytes(size))
}

/// The name of the baseline that sleeps in the kernel.
fn sleeping(size: u64) -> String {
    format!("TCP sleeping {}", bytes(size))
}

/// Measures all datapaths.
///
/// # Errors
/// Not root.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    let link = Link::create(MTU)?.keep_apart();
    let sizes = if setup.quick { &[8][..] } else { &SIZES[..] };
    let mut all = Vec::new();
    for &size in sizes {
        eprintln!("{GROUP}: {}", bytes(size));
        let mut benchmarks = benchmarks(setup, &link, size);
        if size == BARE_SIZE {
            benchmarks.extend(bare::latency(&setup.datapaths, &link, count(setup))?);
        }
        all.extend(interleave::run(GROUP, benchmarks, 0, setup.rounds, &setup.best));
    }
    Ok(all)
}

fn count(setup: &Setup) -> u32 {
    if setup.quick { QUICK_COUNT } else { COUNT }
}

fn benchmarks<'a>(setup: &'a Setup, link: &'a Link, size: u64) -> Vec<Benchmark<'a>> {
    let count = count(setup);
    let tcp = |name: String, spin: bool, count: u32| {
        Benchmark::new(name, Unit::Us, &[], move || {
            baseline::tcp_half_round_trip(link, size, spin, count).map(Reading::new)
        })
    };
    let (spinning, sleeping) = (spinning(size), sleeping(size));
    let mut all =
        vec![tcp(spinning.clone(), true, count), tcp(sleeping.clone(), false, SLEEPING_COUNT)];
    for datapath in &setup.datapaths {
        for verb in verbs(size) {
            let bytes = if verb == "atomic" { String::new() } else { format!("-s {size}") };
            let words = format!("{verb} lat -n {count} {bytes} {}", moderation(verb));
            let bare = bare::latency_name(datapath);
            let mut baselines = vec![spinning.as_str(), sleeping.as_str()];
            if verb == "write" && size == BARE_SIZE {
                baselines.push(&bare);
            }
            all.push(Benchmark::new(name(datapath, verb, size), Unit::Us, &baselines, move || {
                Ok(uroce::over(link, &setup.program, datapath, &words)?.latency())
            }));
        }
    }
    all
}

/// Who sends a message and waits for the answer does not wait for its completion, too, as TCP's user is not told of its
/// acknowledgements: it asks for one from time to time.
pub fn moderation(verb: &str) -> &'static str {
    if matches!(verb, "write" | "send") { "-Q 64" } else { "" }
}

/// Atomics have 8 bytes.
fn verbs(size: u64) -> impl Iterator<Item = &'static str> {
    ["write", "send", "read", "atomic"]
        .into_iter()
        .filter(move |verb| size == 8 || *verb != "atomic")
}
