//! `uroce demo`: two NICs on this machine do everything once, and every byte is checked.

mod connected;
mod datagram;
mod node;
mod speed;
mod windows;

use crate::cli::Global;
use crate::failure::{Failure, paint};
use crate::nic::Nics;
use crate::report::{json, out};
use clap::Args;
use node::Pair;
use serde::Serialize;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

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
pub type Step = Result<Shown, String>;

/// A step that succeeded.
#[derive(Debug)]
pub struct Shown {
    /// Bytes moved.
    pub bytes: usize,
    /// What there is to know about it.
    pub note: String,
    /// It could not be tried here, which is no failure.
    pub skipped: bool,
}

impl Shown {
    /// `bytes` moved, and what there is to know.
    pub fn new(bytes: usize, note: impl Into<String>) -> Self {
        Shown { bytes, note: note.into(), skipped: false }
    }

    /// Not possible here.
    pub fn skipped(why: impl Into<String>) -> Self {
        Shown { bytes: 0, note: why.into(), skipped: true }
    }
}

/// A line of the result.
#[derive(Debug, Serialize)]
struct Line {
    operation: &'static str,
    bytes: usize,
    packets: u64,
    result: &'static str,
    note: String,
}

/// A step: its name, and what does it.
type NamedStep = (&'static str, fn(&Pair) -> Step);

const STEPS: &[NamedStep] = &[
    ("SEND", connected::send),
    ("SEND with immediate", connected::send_imm),
    ("SEND inline", connected::send_inline),
    ("RDMA WRITE", connected::write),
    ("RDMA WRITE with immediate", connected::write_imm),
    ("RDMA READ", connected::read),
    ("COMPARE AND SWAP", connected::compare_swap),
    ("FETCH AND ADD", connected::fetch_add),
    ("ATOMIC WRITE", connected::atomic_write),
    ("FLUSH", connected::flush),
    ("SHARED RECEIVE QUEUE", connected::shared_receive),
    ("BIND memory window", windows::bind),
    ("SEND with invalidate", windows::send_invalidate),
    ("LOCAL INVALIDATE", windows::local_invalidate),
    ("UC SEND", datagram::uc_send),
    ("UC WRITE", datagram::uc_write),
    ("UD SEND", datagram::ud_send),
    ("UD multicast", datagram::multicast),
    ("WRITE with a wrong key", windows::wrong_key),
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
    let nics = Nics::new(global, global.datapath())?;
    let pair = Pair::open(nics.open_on(args.a)?, nics.open_on(args.b)?)?;
    if !global.json {
        introduce(&pair);
    }
    let mut lines = Vec::new();
    for (name, step) in STEPS {
        let line = check(name, *step, &pair);
        if !global.json {
            out(&line.show());
        }
        lines.push(line);
    }
    let speeds = if args.quick { Vec::new() } else { speed::measure(&pair)? };
    let failed = lines.iter().filter(|line| line.result == "FAILED").count();
    if global.json {
        json::print(&serde_json::json!({
            "version": json::VERSION, "checks": lines, "speed": speeds, "failed": failed,
        }));
    } else {
        out(&speed::table(&speeds));
        summarise(&lines, failed, started, &pair, global);
    }
    match failed {
        0 => Ok(()),
        _ => Err(Failure::test(format!("{failed} of {} checks failed", lines.len()))
            .help("run it again with --log debug and --pcap demo.pcapng, and report both")),
    }
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
        a.query_port().active_mtu
    ));
    out(&format!(
        "{bold}{:<26} {:>8} {:>8}  {:<8}{}{plain}\n",
        "operation", "bytes", "packets", "result", "what was checked"
    ));
}

fn check(operation: &'static str, step: fn(&Pair) -> Step, pair: &Pair) -> Line {
    let before = pair.packets();
    let done = step(pair);
    let packets = pair.packets() - before;
    let (bytes, result, note) = match done {
        Ok(Shown { bytes, note, skipped: false }) => (bytes, "ok", note),
        Ok(Shown { note, .. }) => (0, "skipped", note),
        Err(why) => (0, "FAILED", why),
    };
    Line { operation, bytes, packets, result, note }
}

impl Line {
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
            wrapped(&self.note)
        )
    }
}

/// Column and width of the notes.
const NOTE_AT: usize = 54;
const NOTE_WIDTH: usize = 64;

/// Breaks a long note between words, and indents what follows.
fn wrapped(note: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in note.split(' ') {
        if width > 0 && width + word.len() > NOTE_WIDTH {
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

fn summarise(lines: &[Line], failed: usize, started: Instant, pair: &Pair, global: &Global) {
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
            "Look at the packets: uroce demo --pcap demo.pcapng, then open the file in Wireshark.\n",
        );
    }
}
