//! `uroce dissect`: the packets of a capture, one line each or field by field.

mod columns;
mod hexdump;
mod json;
mod other_frames;
mod print;
mod tree;

use std::io::{self, BufWriter, Write};

use clap::Args;
use other_frames::OtherFrames;
use print::{Printer, Style};
use uroce_analyze::{DissectorConfig, printable};

use crate::failure::Failure;
use crate::filter_args::FilterArgs;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::source::{Capture, SourceArgs};

const AFTER: &str = "\
Examples:
  uroce dissect run.pcapng --qp 0x11 --opcode nak
  uroce dissect -i eth0 --opcode cm
  tcpdump -i eth0 -U -w - udp port 4791 | uroce dissect -
  uroce dissect run.pcap --fields frame.number,infiniband.bth.psn,uroce.icrc.status
-v shows the names of fields. All that only this program has, and what the words of a line mean: docs/dissect.md";

/// Options of `uroce dissect`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct DissectArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// All fields of each packet, with the names that Wireshark has
    #[arg(short = 'v', long, visible_alias = "verbose")]
    tree: bool,
    /// The bytes of each frame
    #[arg(short = 'x', long)]
    hex: bool,
    /// Only these fields, as `tshark -T fields` prints them: names with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = columns::name,
          conflicts_with_all = ["tree", "hex"])]
    fields: Vec<&'static str>,
    /// Also frames that are neither RoCE nor InfiniBand
    #[arg(short, long)]
    all: bool,
    /// End after so many packets
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    filter: FilterArgs,
}

/// Prints the packets of a capture while it is read.
///
/// # Errors
/// Exit 1 for a capture that is damaged, after what came before the damage was printed; exit 2 for what
/// is no capture, and for options that do not go together; exit 3 if it cannot be read, or the result not written.
pub fn run(args: &DissectArgs, global: &Global) -> Result<(), Failure> {
    refuse_json(args, global)?;
    let interrupt = Interrupt::install();
    let config = DissectorConfig { port: global.roce_port() };
    let style = Style { tree: args.tree, hex: args.hex, json: global.json, count: args.count };
    let filter = args.filter.filter();
    let others = OtherFrames::new(&filter, &args.filter.frames, args.all);
    let known = match filter.needs_whole_capture() {
        true => Some(args.source.known(global.roce_port(), &interrupt)?),
        false => None,
    };
    let chooses = !filter.is_empty() && args.count != Some(0);
    let mut printer = Printer::new(config, style, &args.fields, filter, others).with_known(known);
    let mut capture = args.source.open("dissect", global, &interrupt, None)?;
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let end = print_all(&mut capture, &mut printer, &mut out);
    capture.tell_lost();
    if chooses && printer.printed() == 0 && matches!(end, Ok(Ok(()))) {
        eprintln!("note: no packet of {} passes the filter", printable(&args.source.name()));
    }
    match end.and_then(|end| out.flush().map(|()| end)) {
        Ok(end) => end,
        // A reader that went away (`| head`) is no error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(Failure::environment(format!("the packets could not be written: {error}")))
        }
    }
}

/// Refuses what has no place in a line of JSON. It is no conflict of clap, which overlooks a `--json` before the command.
fn refuse_json(args: &DissectArgs, global: &Global) -> Result<(), Failure> {
    match (global.json, args.fields.is_empty(), args.hex) {
        (true, false, _) => Err(Failure::usage("--fields prints columns, and no JSON")
            .help("leave one of them out; -v --json has all fields")),
        (true, true, true) => Err(Failure::usage("--hex prints text, and no JSON")
            .help("leave one of them out; -v --json has all fields")),
        _ => Ok(()),
    }
}

/// Prints frame after frame. The inner result is what ended the capture early.
fn print_all(
    capture: &mut Capture,
    printer: &mut Printer<'_>,
    out: &mut impl Write,
) -> io::Result<Result<(), Failure>> {
    while !printer.is_done() {
        // Before it waits, everything so far is shown.
        if !capture.is_next_buffered() {
            out.flush()?;
        }
        match capture.next_frame() {
            Ok(Some(frame)) => printer.print(&frame, out)?,
            Ok(None) => break,
            Err(broken) => return Ok(Err(broken.failure)),
        }
    }
    Ok(Ok(()))
}
