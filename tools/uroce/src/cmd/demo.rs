//! `uroce demo`: two NICs on this machine do everything once, and every byte is checked.

mod connected;
mod datagram;
mod node;
mod speed;
mod windows;

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use clap::Args;
use node::Pair;
use serde::Serialize;

use crate::failure::{Failure, paint};
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic::Nics;
use crate::report::{json, out};

/// Arguments of `uroce demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Address of the first NIC
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    a: IpAddr,
    /// Address of the second NIC; two NICs cannot share an address
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)))]
    b: IpAddr,
    /// Only the checks, no speed
    #[arg(long)]
    quick: bool,
}

/// What a step is to show: `Ok` the bytes it moved and what it teaches.
pub type Step = Result<StepResult, String>;

/// A step that succeeded.
#[derive(Debug)]
pub struct StepResult {
    /// Bytes moved.
    pub bytes: usize,
    /// What there is to know about it.
    pub note: String,
    /// It could not be tried here, which is no failure.
    pub skipped: bool,
}

impl StepResult {
    /// `bytes` moved, and what there is to know.
    pub fn new(bytes: usize, note: impl Into<String>) -> Self {
        StepResult { bytes, note: note.into(), skipped: false }
    }

    /// Not possible here.
    pub fn skipped(why: impl Into<String>) -> Self {
        StepResult { bytes: 0, note: why.into(), skipped: true }
    }
}

/// A line of the result.
#[derive(Debug, Serialize)]
struct ResultLine {
    operation: &'static str,
    bytes: usize,
    packets: u64,
    result: &'static str,
    note: String,
}

/// What a step needs beside two NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing.
    Nothing,
    /// Memory windows, which a device with several engines does not have.
    Windows,
    /// A network that loses nothing: these packets are not repeated.
    NoLoss,
}

impl Needs {
    /// Why that is not there.
    fn missing(self, global: &Global) -> Option<&'static str> {
        match self {
            Needs::Windows if global.engines().get() > 1 => {
                Some("a device with several engines has no memory windows")
            }
            Needs::NoLoss if global.faults.is_some() => {
                Some("--fault may lose its packets, and this transport repeats none")
            }
            _ => None,
        }
    }
}

/// A step: its name, what it needs, and what does it.
type NamedStep = (&'static str, Needs, fn(&Pair) -> Step);

const STEPS: &[NamedStep] = &[
    ("SEND", Needs::Nothing, connected::send),
    ("SEND with immediate", Needs::Nothing, connected::send_imm),
    ("SEND inline", Needs::Nothing, connected::send_inline),
    ("RDMA WRITE", Needs::Nothing, connected::write),
    ("RDMA WRITE with immediate", Needs::Nothing, connected::write_imm),
    ("RDMA READ", Needs::Nothing, connected::read),
    ("COMPARE AND SWAP", Needs::Nothing, connected::compare_swap),
    ("FETCH AND ADD", Needs::Nothing, connected::fetch_add),
    ("ATOMIC WRITE", Needs::Nothing, connected::atomic_write),
    ("FLUSH", Needs::Nothing, connected::flush),
    ("SHARED RECEIVE QUEUE", Needs::Nothing, connected::shared_receive),
    ("BIND memory window", Needs::Windows, windows::bind),
    ("SEND with invalidate", Needs::Windows, windows::send_invalidate),
    ("LOCAL INVALIDATE", Needs::Windows, windows::local_invalidate),
    ("UC SEND", Needs::NoLoss, datagram::uc_send),
    ("UC WRITE", Needs::NoLoss, datagram::uc_write),
    ("UD SEND", Needs::NoLoss, datagram::ud_send),
    ("UD multicast", Needs::NoLoss, datagram::multicast),
    ("WRITE with a wrong key", Needs::Nothing, windows::wrong_key),
];

/// Runs all steps, then measures.
///
/// # Errors
/// Exit 1 if a check failed, exit 3 if a NIC cannot be opened.
pub fn run(args: &DemoArgs, global: &Global) -> Result<(), Failure> {
    if args.a == args.b {
        return Err(Failure::usage("two NICs cannot share one address")
            .help("choose two, such as --a 127.0.0.1 --b 127.0.0.2"));
    }
    let started = Instant::now();
    let interrupt = Interrupt::install();
    let nics = Nics::new(global, global.datapath())?;
    let pair = Pair::open(nics.open_on(args.a)?, nics.open_on(args.b)?)?;
    if !global.json {
        introduce(&pair);
    }
    let lines = check_all(&pair, global, &interrupt);
    let measures = !args.quick && !has_failed(&lines) && !interrupt.is_set();
    let speeds = if measures { speed::measure(&pair, &interrupt)? } else { Vec::new() };
    let failed = lines.iter().filter(|line| line.result == FAILED).count();
    if global.json {
        json::print(&serde_json::json!({
            "version": json::VERSION, "checks": lines, "speed": speeds, "failed": failed,
            "partial": interrupt.is_set(),
        }));
    } else {
        out(&speed::table(&speeds));
        summarise(&lines, failed, started, &pair, global);
    }
    match failed {
        0 if lines.is_empty() => Err(Failure::interrupted()),
        0 => Ok(()),
        _ => Err(Failure::test(format!("{failed} of {} checks failed", lines.len())).help(format!(
            "`uroce doctor --address {} --peer {}` looks at what may be in the way; if nothing is, run it again with \
             --log debug and --pcap demo.pcapng, and report both",
            args.a, args.b
        ))),
    }
}

const FAILED: &str = "FAILED";

fn has_failed(lines: &[ResultLine]) -> bool {
    lines.iter().any(|line| line.result == FAILED)
}

/// Runs the steps and prints each. Where not even the first one works, nothing passes between the two NICs, and the
/// others would only wait for that again.
fn check_all(pair: &Pair, global: &Global, interrupt: &Interrupt) -> Vec<ResultLine> {
    let mut lines: Vec<ResultLine> = Vec::new();
    for (name, needs, step) in STEPS {
        if interrupt.is_set() {
            break;
        }
        let nothing_passes = lines.first().is_some_and(|first| first.result == FAILED);
        let missing = needs.missing(global);
        let line = match missing.or(nothing_passes.then_some("the first check failed")) {
            Some(why) => line_of(name, Ok(StepResult::skipped(why)), 0),
            None => check(name, *step, pair),
        };
        if interrupt.is_set() && line.result == FAILED {
            break;
        }
        if !global.json {
            out(&line.show());
        }
        lines.push(line);
    }
    lines
}

fn introduce(pair: &Pair) {
    let (bold, plain) = paint(std::io::stdout().is_terminal());
    let (a, b) = (&pair.a.context, &pair.b.context);
    out(&format!(
        "Two software NICs in this process talk RoCEv2 over {}; no root, no kernel module.\n  \
         A = {} ({})   B = {} ({})   path MTU {}\n\n",
        a.datapath_caps().name,
        a.address(),
        a.netdev(),
        b.address(),
        b.netdev(),
        a.query_port().active_mtu.min(b.query_port().active_mtu)
    ));
    out(&format!(
        "{bold}{:<26} {:>8} {:>8}  {:<8}{}{plain}\n",
        "operation", "bytes", "packets", "result", "what was checked"
    ));
}

fn check(operation: &'static str, step: fn(&Pair) -> Step, pair: &Pair) -> ResultLine {
    let before = pair.packets();
    let done = step(pair);
    line_of(operation, done, pair.packets() - before)
}

fn line_of(operation: &'static str, done: Step, packets: u64) -> ResultLine {
    let (bytes, result, note) = match done {
        Ok(StepResult { bytes, note, skipped: false }) => (bytes, "ok", note),
        Ok(StepResult { note, .. }) => (0, "skipped", note),
        Err(why) => (0, FAILED, why),
    };
    ResultLine { operation, bytes, packets, result, note }
}

impl ResultLine {
    fn show(&self) -> String {
        let (bold, plain) = match self.result {
            "FAILED" => paint(std::io::stdout().is_terminal()),
            _ => ("", ""),
        };
        format!(
            "{:<26} {:>8} {:>8}  {bold}{:<8}{plain}{}\n",
            self.operation,
            self.bytes,
            self.packets,
            self.result,
            wrapped(&self.note, note_width())
        )
    }
}

/// Column and width of the notes.
const NOTE_AT: usize = 54;
const NOTE_WIDTH: usize = 64;
/// The narrowest that is still readable.
const NOTE_LEAST: usize = 24;

/// How wide notes may be on this terminal.
fn note_width() -> usize {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = terminal.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(NOTE_WIDTH, fitting)
}

fn fitting(columns: usize) -> usize {
    columns.saturating_sub(NOTE_AT).clamp(NOTE_LEAST, NOTE_WIDTH)
}

/// Breaks a long note between words, and indents what follows.
fn wrapped(note: &str, most: usize) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in note.split(' ') {
        if width > 0 && width + word.len() > most {
            text += &format!("\n{:NOTE_AT$}", "");
            width = 0;
        } else if width > 0 {
            text.push(' ');
        }
        text += word;
        width += word.len() + 1;
    }
    text
}

fn summarise(lines: &[ResultLine], failed: usize, started: Instant, pair: &Pair, global: &Global) {
    let skipped = lines.iter().filter(|line| line.result == "skipped").count();
    let seconds = started.elapsed().as_secs_f64();
    let passed = lines.len() - failed - skipped;
    out(&format!(
        "\n{passed} of {} checks passed, {skipped} skipped, in {seconds:.1} s; {} packets, each with its ICRC verified.\n",
        lines.len(),
        pair.packets()
    ));
    if global.pcap.is_none() {
        out(
            "Look at the packets: uroce demo --quick --pcap demo.pcapng, then open the file in Wireshark.\n",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v127_notes_fit_the_terminal() {
        assert_eq!((fitting(200), fitting(118), fitting(80), fitting(20)), (64, 64, 26, 24));
        let text = wrapped("one two three four five six", 10);
        assert!(text.lines().all(|line| line.trim().len() <= 10), "{text}");
    }
}
