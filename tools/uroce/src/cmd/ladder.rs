//! `uroce ladder`: the packets of a conversation between two lines.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use uroce_analyze::report::{
    Analysis, AnalysisConfig, Known, Seen, first_sent, is_dropped, remarks,
};
use uroce_analyze::{
    DissectorConfig, Filter, Frame, Ladder, LadderBuilder, LadderConfig, Mark, PsnStyle,
    cm_message, printable,
};

use crate::failure::Failure;
use crate::filter_args::FilterArgs;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::report::{json, out};
use crate::source::{self, SourceArgs};
use crate::terminal;

const AFTER: &str = "\
Examples:
  uroce ladder run.pcapng --qp 0x11 --psn 0x100..0x180
  uroce ladder run.pcapng --qp 0x11 --relative --svg run.svg
  uroce ladder -i eth0 --count 100";

/// Options of `uroce ladder`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct LadderArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// End after so many packets of the link
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Count PSNs from the first one of each requester
    #[arg(long)]
    relative: bool,
    /// Draw every packet, also long runs of equal ones
    #[arg(long)]
    no_fold: bool,
    /// Draw at most so many packets
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
    /// A silence of so many microseconds gets a line of its own
    #[arg(long, value_name = "US", default_value_t = 1000)]
    pause: u64,
    /// Draw it into this file, as SVG
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
}

impl LadderArgs {
    fn config(&self) -> LadderConfig {
        let psns = if self.relative { PsnStyle::Relative } else { PsnStyle::Absolute };
        LadderConfig {
            psns,
            pause: Duration::from_micros(self.pause),
            most_packets: self.limit,
            folds: !self.no_fold,
        }
    }
}

/// Draws a conversation.
///
/// # Errors
/// Exit 1 for a capture that is damaged, after what came before the damage was drawn; exit 2 for what
/// is no capture and if no packet was chosen; exit 3 if a file cannot be read or written.
pub fn run(args: &LadderArgs, global: &Global) -> Result<(), Failure> {
    if let Some(svg) = &args.svg
        && args.source.is(svg)
    {
        return Err(Failure::usage(format!("the drawing would replace {}", svg.display()))
            .help("name another file with --svg"));
    }
    let interrupt = Interrupt::install();
    let mut drawing = Drawing {
        filter: args.filter.filter(),
        known: args.source.known(global.roce_port(), &interrupt)?,
        builder: LadderBuilder::new(args.config()),
    };
    let end = read(args, global, &interrupt, &mut |frame, seen| drawing.add(frame, seen))?;
    match drawing.builder.finish() {
        Some(ladder) => show(&ladder, end.as_ref().err(), args, global)?,
        None if end.is_ok() => return Err(nothing(args)),
        None => {}
    }
    end
}

/// Calls `packet` for each packet; the inner result is what ended the capture early.
fn read(
    args: &LadderArgs,
    global: &Global,
    interrupt: &Interrupt,
    packet: &mut dyn FnMut(&Frame<'_>, Seen<'_>),
) -> Result<Result<(), Failure>, Failure> {
    let dissector = DissectorConfig { port: global.roce_port() };
    let mut capture = args.source.open("ladder", global, interrupt, args.count)?;
    let mut analysis = Analysis::new(AnalysisConfig { dissector, ..AnalysisConfig::default() });
    Ok(source::analyse(&mut capture, &mut analysis, packet, &mut |_| Ok(())))
}

struct Drawing {
    filter: Filter,
    known: Known,
    builder: LadderBuilder,
}

impl Drawing {
    fn add(&mut self, frame: &Frame<'_>, seen: Seen<'_>) {
        let Seen { packet, payload, annotation, .. } = seen;
        let learned = self.known.learn(&seen, frame.comment);
        if annotation.is_second_sighting || !self.filter.matches(packet, payload, learned) {
            return;
        }
        let comment = (!frame.comment.is_empty()).then(|| frame.comment.to_owned());
        let titles = self.known.titles(packet.frame).unwrap_or_default();
        let titles = titles.iter().map(|title| (*title).to_owned());
        let mark = Mark {
            source_qpn: learned.source_qpn,
            message: cm_message(packet, payload),
            is_retransmission: annotation.retransmission.is_some(),
            is_lost: is_dropped(frame.comment),
            misses: annotation.misses(),
            aside: first_sent(annotation),
            notes: comment.into_iter().chain(remarks(packet, annotation)).chain(titles).collect(),
        };
        self.builder.handle_packet(packet, mark);
    }
}

/// Shows what was drawn, and with `--json` also what ended the capture early.
fn show(
    ladder: &Ladder,
    early_end: Option<&Failure>,
    args: &LadderArgs,
    global: &Global,
) -> Result<(), Failure> {
    if let Some(path) = &args.svg {
        std::fs::write(path, ladder.to_svg()).map_err(|error| {
            Failure::environment(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    if global.json {
        let report = serde_json::json!({ "version": json::VERSION, "ladder": ladder });
        json::print_with(&report, early_end);
    } else if args.svg.is_none() {
        out(&ladder.to_text(terminal::style()));
    }
    if !global.json {
        eprint!("{}", left_out(ladder));
    }
    Ok(())
}

/// What is not drawn, and how to see it.
fn left_out(ladder: &Ladder) -> String {
    let mut text = String::new();
    if ladder.left_out > 0 {
        text += &format!("{} more packets: see --limit, --psn, --frames\n", ladder.left_out);
    }
    if ladder.elsewhere > 0 {
        let packets = ladder.elsewhere;
        text += &format!("{packets} packets of other queue pairs: choose with --qp, --host\n");
    }
    text
}

fn nothing(args: &LadderArgs) -> Failure {
    let what = format!("{}: no packet is chosen", printable(&args.source.name()));
    Failure::usage(what).help("`uroce analyze` lists the queue pairs of a capture")
}
