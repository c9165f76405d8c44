//! `uroce conform` against ourselves, sound and broken on purpose.

mod defects;
mod forms;
mod page;
mod stage;
mod without_agent;

use std::path::Path;

use clap::Args;
use defects::{Defect, FAULTS, FRAMES, MUTATIONS, PERFORMANCE, SLOW};
use page::{Found, Page};
use stage::Stage;
use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::netns::NetNs;
use uroce_testbed::process;

use crate::programs::install;

/// Runs side by side, of a few cases each: what they take is time to wait.
const AT_A_TIME: usize = 8;
/// Runs of all cases side by side.
const WHOLE_AT_A_TIME: usize = 13;

/// Options of `conform`.
#[derive(Debug, Args)]
pub struct ConformArgs {
    /// Run every case against each fault of the table, and compare with docs/conform/faults.md.
    #[arg(long)]
    broken: bool,
    /// Run every case against each mutation of our transport, and compare with docs/conform/mutations.md.
    #[arg(long)]
    mutations: bool,
    /// Write those pages instead.
    #[arg(long)]
    write: bool,
    /// Only faults and mutations whose name contains this; may be repeated.
    #[arg(long, value_name = "TEXT", conflicts_with = "write")]
    only: Vec<String>,
}

/// Runs what CI does, or with options every case against our device broken in each way.
///
/// # Errors
/// A case fails that should not, or does not that should.
pub fn run(arguments: &ConformArgs) -> Result<()> {
    if arguments.broken {
        let (folder, _guard) = install::install()?;
        whole(&folder.join("bin/uroce"), &page::FAULTS, FAULTS, arguments)?;
    }
    if arguments.mutations {
        let (folder, _guard) = install::install_with(&["uroce-transport/mutation"])?;
        whole(&folder.join("bin/uroce"), &page::MUTATIONS, MUTATIONS, arguments)?;
    }
    if arguments.broken || arguments.mutations { Ok(()) } else { run_for_ci() }
}

/// Every case against our device, which must pass all, and some against it broken.
///
/// # Errors
/// A case fails that should not, or does not that should.
fn run_for_ci() -> Result<()> {
    let (folder, _guard) = install::install()?;
    let program = folder.join("bin/uroce");
    let first = Stage::new(&program, 0);
    forms(&first, &program)?;
    performance(&first, &program)?;
    first.sound(&["--robustness", "--only", "robustness"])?;
    first.replays()?;
    without_agent::check(&first)?;
    let faults = [SLOW, FAULTS].concat();
    noticed(&program, None, &faults)?;
    println!("all cases pass against uroce, and {} faults are noticed", faults.len());
    if !process::is_root() {
        println!("not root: the cases that need frames of the tester's own are left out");
        return Ok(());
    }
    frames(&program)
}

/// All cases pass in a namespace whose loopback interface takes frames of the tester's own, and faults are noticed.
fn frames(program: &Path) -> Result<()> {
    let namespace = NetNs::create("conform")?;
    let setting = ["sysctl", "-qw", "net.ipv4.conf.lo.route_localnet=1"];
    process::run(&mut namespace.command(&setting))?;
    Stage::within(program, Some(&namespace), 0).sound(&["--robustness"])?;
    noticed(program, Some(&namespace), FRAMES)?;
    println!("with frames as well, and {} faults more", FRAMES.len());
    Ok(())
}

/// Each fault fails the case that it must fail, and not the other.
fn noticed(program: &Path, inside: Option<&NetNs>, faults: &[Defect]) -> Result<()> {
    side_by_side(faults, AT_A_TIME, |number, defect| {
        let stage = Stage::within(program, inside, number + 1);
        let found = stage.broken(defect.how, &[defect.noticed, defect.spared])?;
        let said = |case| found.get(case).map_or("not there", String::as_str);
        match (said(defect.noticed), said(defect.spared)) {
            ("fail", "pass" | "tolerated") => {
                println!("{}: {} fails, as it should", defect.name, defect.noticed);
                Ok(())
            }
            (noticed, spared) => Err(Error::new(format!(
                "{} ({:?}): {} must fail: {noticed}; {} must pass: {spared}",
                defect.name, defect.how, defect.noticed, defect.spared
            ))),
        }
    })
}

/// Runs all cases against our device as it is: all forms of the report say the same, and `uroce analyze` reads
/// the packets of each case.
fn forms(stage: &Stage<'_>, program: &Path) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("uroce-conform-{}", std::process::id()));
    let packets = folder.join("packets");
    std::fs::create_dir_all(&packets).context(|| "could not make a folder")?;
    let _guard = Guard::new(Leftover::Folder(folder.clone()));
    let pcap = packets.to_string_lossy();
    let (_, cases) = agreeing(stage, &folder, &["--pcap", &pcap])?;
    println!("JSON, text, Markdown and JUnit say the same about {cases} cases");
    let captures = forms::captures(program, &packets)?;
    println!("uroce analyze reads the packets of {captures} cases");
    Ok(())
}

/// Runs cases against our device as it is, which all forms of the report say the same about. Returns the report as JSON,
/// and how many cases there are.
fn agreeing(stage: &Stage<'_>, folder: &Path, more: &[&str]) -> Result<(String, usize)> {
    let [text, markdown, junit] =
        ["text", "md", "xml"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let words = ["--json", "--text", &text, "--markdown", &markdown, "--junit", &junit];
    let json = stage.sound(&[&words[..], more].concat())?;
    let json = String::from_utf8_lossy(&json).into_owned();
    let read = |file: &str| {
        std::fs::read_to_string(file).context(|| format!("could not read the report {file}"))
    };
    let cases = forms::agree(&json, &read(&text)?, &read(&markdown)?, &read(&junit)?)?;
    Ok((json, cases))
}

/// Our device passes the performance cases, its counters are in the report, and it does not pass them when it refuses.
fn performance(stage: &Stage<'_>, program: &Path) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("uroce-performance-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context(|| "could not make a folder")?;
    let _guard = Guard::new(Leftover::Folder(folder.clone()));
    let (json, cases) = agreeing(stage, &folder, &["--performance", "--only", "performance"])?;
    let measured = forms::measured(&json)?;
    match measured == cases {
        true => println!("{measured} operations are measured, and the counters of the device fit"),
        false => return Err(Error::new(format!("{measured} of {cases} operations are measured"))),
    }
    noticed(program, None, PERFORMANCE)
}

/// Runs every case against each defect, and compares with the page, or writes it.
fn whole(program: &Path, page: &Page, defects: &[Defect], arguments: &ConformArgs) -> Result<()> {
    let wanted = |defect: &&Defect| {
        let only = &arguments.only;
        only.is_empty() || only.iter().any(|text| defect.name.contains(text.as_str()))
    };
    let defects: Vec<Defect> = defects.iter().filter(wanted).copied().collect();
    let found = std::sync::Mutex::new(Vec::new());
    side_by_side(&defects, WHOLE_AT_A_TIME, |number, defect| {
        let verdicts = Stage::new(program, number + 1).broken(defect.how, &[])?;
        let result = Found { defect: *defect, verdicts };
        println!("{}", result.line());
        found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, result));
        Ok(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|(number, _)| *number);
    let found: Vec<Found> = found.into_iter().map(|(_, found)| found).collect();
    if arguments.write { page.write(&found) } else { page.compare(&found) }
}

/// Calls `run` for each defect, some at a time; the first error of a group ends it.
fn side_by_side(
    defects: &[Defect],
    at_a_time: usize,
    run: impl Fn(usize, &Defect) -> Result<()> + Sync,
) -> Result<()> {
    let numbered: Vec<(usize, &Defect)> = defects.iter().enumerate().collect();
    for group in numbered.chunks(at_a_time) {
        std::thread::scope(|scope| {
            let run = &run;
            let tries: Vec<_> = group
                .iter()
                .map(|(number, defect)| scope.spawn(move || run(*number, defect)))
                .collect();
            tries.into_iter().try_for_each(|tried| {
                tried.join().unwrap_or_else(|_| Err(Error::new("a trial panicked")))
            })
        })?;
    }
    Ok(())
}
