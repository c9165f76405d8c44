//! What the C interface costs: stock programs on our libibverbs against `uroce perf` with the same
//! settings, and how long a process takes to open a device.

use std::path::Path;
use std::time::Instant;

use uroce_testbed::error::{Error, Result};
use uroce_testbed::process::stdout_of;
use uroce_testbed::{install, packages, workspace};

use crate::Setup;
use crate::interleave::{self, Benchmark};
use crate::link::{FAR, Link, NEAR};
use crate::perftest::{self, Test};
use crate::record::{Reading, Series, Unit};
use crate::uroce::{Server, WAITS_AT};

/// The name of this group.
pub const GROUP: &str = "programs";
/// The series of a process that opens a device and prints what it can do.
pub const START: &str = "ibv_devinfo on our library, from start to end";
const MTU: u32 = 1500;

/// Bandwidth of 64 KiB.
pub const WRITE: Test = Test {
    title: "WRITE 64 KiB",
    stock: "ib_write_bw",
    ours: "write bw",
    flags: "-s 65536 -m 1024 -D 2 -F --report_gbits",
    column: perftest::BANDWIDTH,
    unit: Unit::Gbps,
};

/// Messages of 64 bytes.
pub const SEND: Test = Test {
    title: "SEND 64 B",
    stock: "ib_send_bw",
    ours: "send bw",
    flags: "-s 64 -m 1024 -D 2 -F --report_gbits",
    column: perftest::RATE,
    unit: Unit::Mmps,
};

/// The name of the program's series.
pub fn program(test: &Test) -> String {
    format!("{} {}", test.stock, test.title)
}

/// The name of our command's series.
pub fn baseline(test: &Test) -> String {
    format!("uroce perf {}", test.title)
}

/// Measures the pairs and the start.
///
/// # Errors
/// Not root, packages are missing, or the libraries do not build.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    packages::ensure(packages::PROGRAMS)?;
    let folder = workspace::target_folder().join("dist");
    install::optimised(&folder, install::Linker::OfThisSystem)?;
    let uroce = folder.join("bin/uroce");
    let link = Link::create(MTU)?.keep_apart();
    let mut benchmarks = Vec::new();
    for test in [WRITE, SEND] {
        let Test { stock, ours, flags, unit, .. } = test;
        let (link, uroce) = (&link, &uroce);
        let command = format!("perf {ours} {flags} --datapath udp");
        benchmarks.push(Benchmark::new(baseline(&test), unit, &[], move || {
            ends(link, test.column, |_| line(uroce, &command))
        }));
        benchmarks.push(Benchmark::new(program(&test), unit, &[&baseline(&test)], move || {
            ends(link, test.column, |own| {
                let command = format!("run --device {own} --datapath udp -- {stock} {flags} -x 1");
                line(uroce, &command)
            })
        }));
    }
    let (wire, devinfo) =
        (&link, line(&uroce, &format!("run --device {NEAR} --datapath udp -- ibv_devinfo")));
    benchmarks.push(Benchmark::new(START, Unit::Us, &[], move || {
        let started = Instant::now();
        stdout_of(&mut wire.near(&devinfo))?;
        Ok(Reading::new(started.elapsed().as_secs_f64() * 1e6))
    }));
    eprintln!("{GROUP}: UDP, MTU {MTU}");
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds, &setup.best))
}

fn line(program: &Path, words: &str) -> Vec<String> {
    let mut line: Vec<String> = ["timeout", "-s", "KILL", "60"].map(String::from).into();
    line.push(program.display().to_string());
    line.extend(words.split_whitespace().map(str::to_owned));
    line
}

/// Runs both ends of a program; `line` makes the command for an address. The figure is the client's.
fn ends(link: &Link, column: usize, line: impl Fn(&str) -> Vec<String>) -> Result<Reading> {
    let server = Server::start(link.far(&line(FAR)), || link.serves(WAITS_AT))?;
    let mut client = line(NEAR);
    client.push(FAR.to_owned());
    let printed = stdout_of(&mut link.near(&client))?;
    server.finish()?;
    let figure = perftest::figure(&printed, column);
    figure.map(Reading::new).ok_or_else(|| Error::new(format!("no figure in:\n{printed}")))
}
