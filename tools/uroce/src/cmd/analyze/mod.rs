//! `uroce analyze`: what a capture tells, on a page.

mod annotate;

use crate::cli::Global;
use crate::failure::Failure;
use crate::filter_args::FilterArgs;
use crate::interrupt::Interrupt;
use crate::report::{json, out};
use crate::{source, terminal};
use annotate::Annotated;
use clap::Args;
use std::path::PathBuf;
use uroce_analyze::DissectorConfig;
use uroce_analyze::report::{Analysis, AnalysisConfig, Grade, Report};

const AFTER: &str = "\
Exit codes: 0 the capture was read to its end, whatever is in it; 1 it is damaged, or with --strict an error was found.
Examples:
  uroce analyze run.pcapng
  uroce analyze run.pcapng --qp 0x11
  uroce analyze run.pcapng --annotate verdicts.pcapng
  tcpdump -i eth0 -U -w - udp port 4791 | uroce analyze -";

/// Options of `uroce analyze`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct AnalyzeArgs {
    /// A pcap or pcapng file, compressed with gzip or not; - is stdin
    #[arg(value_name = "FILE")]
    source: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// Exit with 1 if a finding is an error
    #[arg(long)]
    strict: bool,
    /// Write the capture again, with what is remarkable as comments that Wireshark shows
    #[arg(long, value_name = "OUT.pcapng")]
    annotate: Option<PathBuf>,
    /// Tell so many of the slowest messages
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,
}

/// Analyses a capture.
///
/// # Errors
/// Exit 1 for a capture that is damaged, after what came before the damage was told, and for errors
/// that were found with `--strict`; exit 2 for what is no capture; exit 3 if a file cannot be read or
/// written.
pub fn run(args: &AnalyzeArgs, global: &Global) -> Result<(), Failure> {
    let mut capture = source::open(&args.source, &Interrupt::install())?;
    let mut annotated = args.annotate.as_deref().map(|out| Annotated::create(out, &args.source));
    let mut annotated = annotated.take().transpose()?;
    let mut analysis = Analysis::new(AnalysisConfig {
        dissector: DissectorConfig { port: global.roce_port },
        filter: args.filter.filter(),
        slowest_messages: args.slowest,
        ..AnalysisConfig::default()
    });
    let end = read(&args.source, &mut capture, &mut analysis, annotated.as_mut());
    let report = analysis.finish(&args.source);
    show(&report, args, global);
    annotated.map_or(Ok(()), Annotated::finish)?;
    end?;
    judge(&report, args)
}

fn read(
    name: &str,
    capture: &mut source::Capture,
    analysis: &mut Analysis,
    annotated: Option<&mut Annotated>,
) -> Result<(), Failure> {
    match annotated {
        None => source::analyse(name, capture, analysis, &mut |_, _| {}, &mut |_| Ok(())),
        Some(annotated) => annotated.copy(name, capture, analysis),
    }
}

fn show(report: &Report, args: &AnalyzeArgs, global: &Global) {
    if global.json {
        json::print(report);
        return;
    }
    out(&report.to_text(terminal::style()));
    if !args.filter.filter().is_empty() {
        out(&report.details(terminal::style()));
    }
}

fn judge(report: &Report, args: &AnalyzeArgs) -> Result<(), Failure> {
    match report.verdict.severity {
        Grade::Error if args.strict => Err(Failure::test(&report.verdict.sentence)),
        _ => Ok(()),
    }
}
