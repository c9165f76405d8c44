//! `uroce view`: a capture as one HTML page.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use uroce_analyze::DissectorConfig;
use uroce_analyze::report::Known;
use uroce_analyze::view::{Page, ViewConfig, Viewer};

use crate::failure::Failure;
use crate::filter_args::FilterArgs;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::report::{json, out};
use crate::source::{self, EarlyEnd};

const AFTER: &str = "\
Examples:
  uroce view run.pcapng                       # writes run.html
  uroce view run.pcapng --qp 0x11 -o qp.html
  tcpdump -r big.pcap -w - udp port 4791 | uroce view - -o big.html
The page needs a browser and nothing else: it asks no server for anything (docs/view.md).";

/// Bytes of payload that `--payload` keeps of each packet, if it does not say how many.
const PAYLOAD: &str = "256";

/// Options of `uroce view`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ViewArgs {
    /// A pcap or pcapng file, compressed with gzip or not; - is stdin
    #[arg(value_name = "FILE")]
    source: String,
    /// Where the page goes; - is stdout [default: FILE with .html, in this folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Keep so many bytes of each packet's payload; without it, the page has headers only
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true,
          default_missing_value = PAYLOAD)]
    payload: Option<usize>,
    /// Packets at most; those behind are left out, and the page says so
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = clap::value_parser!(u64).range(1..=2_000_000))]
    max_packets: u64,
    /// Do not pack the data: for browsers that are older than 2023
    #[arg(long)]
    uncompressed: bool,
}

impl ViewArgs {
    fn config(&self) -> ViewConfig {
        ViewConfig {
            max_packets: usize::try_from(self.max_packets).unwrap_or(usize::MAX),
            payload_bytes: self.payload.unwrap_or(0),
            compress: !self.uncompressed,
        }
    }

    /// What the page is called: the name of the file, without its folders.
    fn title(&self) -> String {
        let name = Path::new(&self.source).file_name();
        match name {
            Some(name) if self.source != "-" => name.to_string_lossy().into_owned(),
            _ => "capture".to_owned(),
        }
    }

    fn output(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| page_name(&self.title()))
    }
}

/// `run.pcapng`, `run.pcap.gz` and `run` become `run.html`.
fn page_name(title: &str) -> PathBuf {
    let stem = title.strip_suffix(".gz").unwrap_or(title);
    let capture = [".pcapng", ".pcap", ".cap", ".html"].iter();
    let stem = capture.fold(stem, |stem, suffix| stem.strip_suffix(suffix).unwrap_or(stem));
    PathBuf::from(format!("{stem}.html"))
}

/// Writes the page.
///
/// # Errors
/// Exit 1 for a capture that is damaged, after the page of what came before the damage was written;
/// exit 2 for what is no capture, and if it has no RoCE packet; exit 3 if a file cannot be read or
/// written.
pub fn run(args: &ViewArgs, global: &Global) -> Result<(), Failure> {
    let output = args.output();
    if source::is_same(&args.source, &output) {
        return Err(Failure::usage(format!("the page would replace {}", args.source))
            .help("name another file with -o"));
    }
    let interrupt = Interrupt::install();
    let (port, filter) = (global.roce_port(), args.filter.filter());
    let known = match filter.needs_whole_capture() {
        true => source::known(&args.source, port, &interrupt)?,
        false => Known::default(),
    };
    let mut viewer = Viewer::new(args.config(), DissectorConfig { port }, filter).with_known(known);
    let end = read(args, &interrupt, &mut viewer)?;
    let (packets, left_out) = (viewer.packets(), viewer.left_out());
    if packets == 0 {
        end.map_err(|broken| broken.failure)?;
        return Err(nothing(args));
    }
    let title = args.title();
    // Whoever gets the page learns the name of the capture, and not its folder.
    let note = |broken: &EarlyEnd| format!("{title}: {}.", broken.what);
    let notes: Vec<_> = end.as_ref().err().map(note).into_iter().collect();
    let end = end.map_err(|broken| broken.failure);
    let page = viewer.finish(&title, &notes);
    let bytes = write(&page, &output).map_err(|error| unwritable(&output, &error))?;
    tell(global, &Written { output: &output, packets, left_out, bytes }, end.as_ref().err());
    end
}

/// A page that was written.
struct Written<'a> {
    output: &'a Path,
    packets: usize,
    left_out: u64,
    bytes: u64,
}

/// Gives all frames to the viewer; the inner result says what ended the capture early.
fn read(
    args: &ViewArgs,
    interrupt: &Interrupt,
    viewer: &mut Viewer,
) -> Result<Result<(), EarlyEnd>, Failure> {
    let mut capture = source::open(&args.source, interrupt)?;
    let end = loop {
        match capture.next_frame() {
            Ok(Some(frame)) => viewer.handle_frame(&frame),
            Ok(None) => break Ok(()),
            Err(broken) => break Err(broken),
        }
    };
    viewer.handle_not_captured(capture.tell_lost());
    Ok(end)
}

fn write(page: &Page, output: &Path) -> io::Result<u64> {
    if output == Path::new("-") {
        return match page.write_to(&mut io::stdout().lock()) {
            // A reader that went away (`| head`) is no error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
            written => written.map(|()| 0),
        };
    }
    let mut file = BufWriter::new(File::create(output)?);
    page.write_to(&mut file)?;
    file.flush()?;
    Ok(file.get_ref().metadata()?.len())
}

/// Tells what the page has, and with `--json` also what ended the capture early.
fn tell(global: &Global, page: &Written<'_>, failure: Option<&Failure>) {
    let Written { output, packets, left_out, bytes } = *page;
    if output == Path::new("-") {
        return;
    }
    if global.json {
        let report = json!({
            "version": json::VERSION,
            "file": output.display().to_string(),
            "packets": packets,
            "left_out": left_out,
            "bytes": bytes,
        });
        json::print_with(&report, failure);
        return;
    }
    let size = bytes.div_ceil(1024);
    out(&format!("{}: {packets} packets, {size} KiB; open it in a browser\n", output.display()));
    if left_out > 0 {
        eprintln!(
            "note: {left_out} packets behind them are left out: choose with --qp, --host or --frames, or raise --max-packets"
        );
    }
}

fn nothing(args: &ViewArgs) -> Failure {
    let source = &args.source;
    if args.filter.filter().is_empty() {
        return Failure::usage(format!("{source} has no RoCE packet"))
            .help("if RoCE has another UDP port there, name it with --roce-port");
    }
    Failure::usage(format!("no packet of {source} passes the filter"))
        .help("leave an option out, and look at `uroce view` without any first")
}

fn unwritable(output: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {error}", output.display()))
        .help("name another file with -o")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        view: ViewArgs,
    }

    fn parse(words: &[&str]) -> ViewArgs {
        Words::try_parse_from([&["view"], words].concat()).expect("good words").view
    }

    #[test]
    fn the_page_is_named_after_the_capture() {
        for (source, page) in [
            ("/tmp/run.pcapng", "run.html"),
            ("run.pcap.gz", "run.html"),
            ("run", "run.html"),
            ("run.html", "run.html"),
            ("-", "capture.html"),
        ] {
            assert_eq!(parse(&[source]).output(), Path::new(page), "{source}");
        }
        assert_eq!(parse(&["a.pcap", "-o", "b.html"]).output(), Path::new("b.html"));
    }

    #[test]
    fn payload_is_left_out_unless_asked_for() {
        assert_eq!(parse(&["a"]).config().payload_bytes, 0);
        assert_eq!(parse(&["--payload", "a"]).config().payload_bytes, 256);
        assert_eq!(parse(&["--payload=64", "a"]).config().payload_bytes, 64);
        assert!(
            parse(&["a"]).config().compress && !parse(&["--uncompressed", "a"]).config().compress
        );
    }
}
