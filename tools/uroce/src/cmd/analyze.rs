//! `uroce analyze`: what a capture tells, on a page.

mod annotate;

use std::path::{Path, PathBuf};

use annotate::Annotated;
use clap::Args;
use serde::Serialize;
use uroce_analyze::DissectorConfig;
use uroce_analyze::report::{Analysis, AnalysisConfig, EndCounters, Grade, Report};

use crate::failure::Failure;
use crate::filter_args::FilterArgs;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::report::{json, out};
use crate::source::{self, SourceArgs};
use crate::terminal;

const AFTER: &str = "\
Exit codes: 0 the capture was read to its end, whatever is in it; 1 it is damaged, or with --strict an error was found;
2 no packet is chosen.
Examples:
  uroce analyze run.pcapng
  uroce analyze run.pcapng --qp 0x11
  uroce analyze run.pcapng --annotate verdicts.pcapng
  uroce analyze run.pcapng --counters
  uroce analyze -i eth0 --seconds 10
  tcpdump -i eth0 -U -w - udp port 4791 | uroce analyze -";

/// Options of `uroce analyze`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct AnalyzeArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// End after so many packets of the link
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Exit with 1 if a finding is an error
    #[arg(long)]
    strict: bool,
    /// Write the capture again, with what is remarkable as comments that Wireshark shows
    #[arg(long, value_name = "OUT.pcapng")]
    annotate: Option<PathBuf>,
    /// Tell what the counters of the NICs at both ends would say, by the names that NICs have
    #[arg(long)]
    counters: bool,
    /// Tell so many of the slowest messages
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,
    #[command(flatten)]
    filter: FilterArgs,
}

impl AnalyzeArgs {
    /// The file that has the frames: what was captured is in the one with comments.
    fn file(&self) -> &str {
        let annotated = self.annotate.as_deref().and_then(Path::to_str);
        match (self.source.file(), annotated) {
            ("-", Some(annotated)) => annotated,
            (file, _) => file,
        }
    }
}

/// Analyses a capture.
///
/// # Errors
/// Exit 1 for a capture that is damaged, after what came before the damage was told, and for errors
/// that were found with `--strict`; exit 2 for what is no capture, and if it has packets and none is chosen; exit 3 if
/// a file cannot be read or written.
pub fn run(args: &AnalyzeArgs, global: &Global) -> Result<(), Failure> {
    let mut capture = args.source.open("analyze", global, &Interrupt::install(), args.count)?;
    let mut annotated = args.annotate.as_deref().map(|out| Annotated::create(out, &args.source));
    let mut annotated = annotated.take().transpose()?;
    let mut analysis = Analysis::new(AnalysisConfig {
        dissector: DissectorConfig { port: global.roce_port() },
        filter: args.filter.filter(),
        slowest_messages: args.slowest,
        ..AnalysisConfig::default()
    });
    let end = read(&mut capture, &mut analysis, annotated.as_mut());
    if end.is_ok() && analysis.misses_all() {
        annotated.map_or(Ok(()), Annotated::finish)?;
        return Err(nothing(args, &analysis));
    }
    let report = Report { source: args.source.name(), ..analysis.finish(args.file()) };
    show(&report, args, global);
    annotated.map_or(Ok(()), Annotated::finish)?;
    end?;
    judge(&report, args)
}

fn read(
    capture: &mut source::Capture,
    analysis: &mut Analysis,
    annotated: Option<&mut Annotated>,
) -> Result<(), Failure> {
    match annotated {
        None => source::analyse(capture, analysis, &mut |_, _| {}, &mut |_| Ok(())),
        Some(annotated) => annotated.copy(capture, analysis),
    }
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Vec<EndCounters>>,
}

fn show(report: &Report, args: &AnalyzeArgs, global: &Global) {
    if global.json {
        json::print(&Object { report, counters: args.counters.then(|| report.counters()) });
        return;
    }
    out(&report.to_text(terminal::style()));
    if args.counters {
        out(&report.counters_text(terminal::style()));
    }
    if !args.filter.filter().is_empty() {
        out(&report.details(terminal::style()));
    }
}

/// Most queue pairs that a wrong choice is told of.
const QUEUE_PAIRS: usize = 8;

fn nothing(args: &AnalyzeArgs, analysis: &Analysis) -> Failure {
    let all = analysis.queue_pairs();
    let mut names = all[..all.len().min(QUEUE_PAIRS)].join(", ");
    if let Some(more) = all.len().checked_sub(QUEUE_PAIRS).filter(|more| *more > 0) {
        names += &format!(" and {more} more");
    }
    Failure::usage(format!("{}: no packet is chosen", args.source.name()))
        .help(format!("the capture has the queue pairs {names}"))
}

fn judge(report: &Report, args: &AnalyzeArgs) -> Result<(), Failure> {
    match report.verdict.severity {
        Grade::Error if args.strict => Err(Failure::test(&report.verdict.sentence)),
        _ => Ok(()),
    }
}
