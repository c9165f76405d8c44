//! The commands of docs/learn and docs/troubleshooting.md do what the pages say: each is run as it is printed, and its
//! output is compared with the page.
//!
//! A page is run in a network namespace of its own, without any capability. `server$` and `client$` are terminals;
//! a command behind `client$` or `$` runs to its end, any other stays in the background as soon as it has printed what the
//! page shows. `sudo` keeps the capabilities. `^C` interrupts the command of its terminal. What varies from run to run is
//! told in `learn/pattern.rs`.

#[allow(dead_code, reason = "this program needs a part of what the others use")]
#[path = "it/common/mod.rs"]
mod common;
#[path = "learn/page.rs"]
mod page;
#[path = "learn/pattern.rs"]
mod pattern;
#[path = "learn/terminal.rs"]
mod terminal;

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pattern::Measure;

/// On a busy machine timers may run out that the pages do not show. The last attempt compares words only, and that the
/// commands end as on the page.
const ATTEMPTS: usize = 5;

/// One page at a time, for the same reason.
static ORDER: Mutex<()> = Mutex::new(());

/// One test for each page.
macro_rules! pages {
    ($($test:ident: $file:literal,)*) => {
        const PAGES: &[&str] = &[$($file),*];
        $(#[test]
        fn $test() {
            holds($file);
        })*
    };
}

pages! {
    lab_01_first_packets: "learn/01-first-packets.md",
    lab_02_long_messages: "learn/02-long-messages.md",
    lab_03_loss: "learn/03-loss.md",
    lab_04_receiver_not_ready: "learn/04-receiver-not-ready.md",
    lab_05_keys: "learn/05-keys.md",
    lab_06_read_and_atomics: "learn/06-read-and-atomics.md",
    lab_07_rdma_cm: "learn/07-rdma-cm.md",
    lab_08_datagrams: "learn/08-datagrams.md",
    lab_09_tcp: "learn/09-tcp.md",
    lab_10_infiniband_roce_iwarp: "learn/10-infiniband-roce-iwarp.md",
    troubleshooting: "troubleshooting.md",
}

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn holds(file: &str) {
    let text = std::fs::read_to_string(docs().join(file)).expect("the page");
    let steps = page::steps(&text);
    assert!(!steps.is_empty(), "{file} has no commands");
    if let Some(tool) = missing_tool(&steps) {
        assert!(std::env::var_os("CI").is_none(), "{file} needs {tool}");
        println!("skipped: {file} needs {tool}");
        return;
    }
    let mut last = String::new();
    let _turn = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
    for attempt in 1..=ATTEMPTS {
        let measure = if attempt < ATTEMPTS { Measure::Lines } else { Measure::Words };
        match terminal::play(file, &steps, measure) {
            Ok(()) => return,
            Err(difference) => last = difference,
        }
        tell(&format!("{file}: attempt {attempt} of {ATTEMPTS} was different"), &last);
    }
    panic!("{file}: {last}");
}

/// A page that needs many attempts may hide a defect: that is told also where the test passes, whose output is not shown.
fn tell(attempt: &str, difference: &str) {
    println!("{attempt}: {difference}");
    let place: Vec<_> = difference.lines().take(2).collect();
    let _ = writeln!(std::io::stderr(), "{attempt}: {}", place.join(": "));
}

/// Programs of the pages that not every machine has.
const TOOLS: [&str; 3] = ["nft", "tcpdump", "python3"];

fn missing_tool(steps: &[page::Step]) -> Option<&'static str> {
    let is_used =
        |tool: &&str| steps.iter().any(|step| step.command.split(' ').any(|word| word == *tool));
    TOOLS.into_iter().filter(is_used).find(|tool| !is_installed(tool))
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(tool).is_file())
}

#[test]
fn every_page_of_the_folder_is_tried() {
    for entry in std::fs::read_dir(docs().join("learn")).expect("the folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let is_tried = PAGES.contains(&format!("learn/{name}").as_str());
        assert!(is_tried || name == "README.md", "{name} is not among the pages of this test");
    }
}
