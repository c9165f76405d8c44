//! `uroce capture`: RoCE as it passes on interfaces, of any sender and receiver.

mod args;
mod output;
mod ring;
mod screen;
mod session;
#[cfg(test)]
mod testing;
mod trigger;

use std::io::IsTerminal;

pub use args::CaptureArgs;
use output::CaptureStop;
use serde_json::json;
use session::{CaptureSession, Totals};
use uroce_analyze::quantity::count;
use uroce_datapath::PcapError;

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::progress::grouped;
use crate::report::json;

/// Captures until the user interrupts, or until what was asked for is there.
///
/// # Errors
/// Exit 3 without CAP_NET_RAW, without the interface, and when a file cannot be written; what was captured until then is
/// in the file.
pub fn run(args: &CaptureArgs, global: &Global) -> Result<(), Failure> {
    args.check()?;
    if args.writes_to_stdout() && std::io::stdout().is_terminal() {
        return Err(Failure::usage("stdout is a terminal, and a capture is no text")
            .help("pipe it: `uroce capture -w - | wireshark -k -i -`, or give -w a file"));
    }
    let interrupt = Interrupt::install();
    let live = Live::open(args.live.config(args.port(global)))?;
    let mut session = CaptureSession::new(args, global, live, interrupt)?;
    args.live.tell_start("capture");
    let ended = session.run();
    let totals = session.finish();
    tell_end(args, global, &totals);
    match ended {
        Ok(()) | Err(CaptureStop::Write(PcapError::ReaderGone)) => Ok(()),
        Err(CaptureStop::Failed(failure)) => Err(failure),
        Err(CaptureStop::Write(error)) => Err(Failure::environment(error)
            .help("the file is whole up to there; give -w a place with more room")),
    }
}

/// Says what came of it.
fn tell_end(args: &CaptureArgs, global: &Global, totals: &Totals) {
    if global.json && args.write.is_some() && !args.writes_to_stdout() {
        json::print(&json!({
            "version": json::VERSION,
            "packets": totals.captured,
            "dropped": totals.dropped,
            "written": totals.written,
            "files": totals.files,
        }));
    }
    let captured = grouped(totals.captured);
    let noun = if totals.captured == 1 { "packet" } else { "packets" };
    let mut line = format!(
        "uroce capture: {captured} {noun}, {} dropped by the kernel",
        grouped(totals.dropped)
    );
    if let [file] = &totals.files[..] {
        line += &format!(", {} written to {file}", grouped(totals.written));
    } else if args.write.is_some() {
        let files = count(totals.files.len() as u64, "file");
        line += &format!(", {} written to {files}", grouped(totals.written));
    }
    eprintln!("{line}");
    if totals.dropped > 0 {
        eprintln!("help: a larger --buffer, a smaller --snaplen, or -w without --print drops less");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        let texts = [0, 999, 1000, 12_345, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }
}
