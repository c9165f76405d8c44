//! Options of `uroce capture`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::trigger::Trigger;
use crate::failure::Failure;
use crate::global::Global;
use crate::live::{LiveArgs, seconds};

const EXAMPLES: &str = "\
Examples:
  uroce capture -i eth0                              each packet as it passes
  uroce capture -i eth0 -w all.pcapng --seconds 10   a file for `uroce analyze` and Wireshark
  uroce capture -w - | wireshark -k -i -             live in Wireshark
  uroce capture -w nak.pcapng --trigger nak,rnr --ring 30s
      runs for days; writes nak-1.pcapng, nak-2.pcapng, ... with the 30 s before each fault and 2 s after it
It needs CAP_NET_RAW: `sudo uroce capture`. RDMA of a network card passes the kernel by and is not seen: mirror it \
at the switch. More: docs/capture-live.md";

/// Options of `uroce capture`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CaptureArgs {
    #[command(flatten)]
    pub live: LiveArgs,
    /// Write to this pcapng file instead of the screen; - is stdout
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// With -w: show the packets as well
    #[arg(long, requires = "write")]
    pub print: bool,
    /// End after so many packets of the link
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// UDP destination port of RoCEv2 [default: --roce-port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Write only when one of these passes: nak, rnr, timeout, retransmission, qp-error (a NAK that ends a
    /// queue pair), rule:NAME (a rule of docs/findings.md)
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', requires = "write")]
    pub trigger: Vec<Trigger>,
    /// With --trigger: what is kept in memory and written before the packet that it was: seconds (10s), bytes
    /// (256M), or both with a comma
    #[arg(long, value_name = "HOW MUCH", default_value = "10s,256M", requires = "trigger")]
    pub ring: RingSize,
    /// With --trigger: go on writing for so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds, requires = "trigger")]
    pub after: Duration,
    /// With --trigger: end after so many files
    #[arg(long, value_name = "N", default_value_t = 10, requires = "trigger",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub files: u32,
}

impl CaptureArgs {
    /// UDP port of RoCEv2.
    pub fn port(&self, global: &Global) -> u16 {
        self.port.unwrap_or(global.roce_port())
    }

    /// The file is stdout.
    pub fn writes_to_stdout(&self) -> bool {
        self.write.as_ref().is_some_and(|file| file.as_os_str() == "-")
    }

    /// # Errors
    /// Exit 2 for options that do not go together.
    pub fn check(&self) -> Result<(), Failure> {
        if self.writes_to_stdout() && self.print {
            return Err(Failure::usage("stdout cannot be both the file and the screen")
                .help("give -w a file, or leave --print out"));
        }
        if self.writes_to_stdout() && !self.trigger.is_empty() {
            return Err(Failure::usage("--trigger writes a file for each fault, not stdout")
                .help("give -w a file"));
        }
        Ok(())
    }
}

/// How much is kept in memory: both limits hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSize {
    /// Age of the oldest packet at most.
    pub time: Duration,
    /// Bytes at most.
    pub bytes: usize,
}

/// Bytes if only a time is given.
const DEFAULT_BYTES: usize = 256 << 20;

/// Bytes that may be asked for.
const MOST_BYTES: usize = 64 << 30;

impl FromStr for RingSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut size = RingSize { time: Duration::MAX, bytes: 0 };
        for word in text.split(',') {
            match bytes_of(word) {
                Some(bytes) => size.bytes = bytes,
                None => size.time = time_of(word).ok_or_else(|| wrong(word))?,
            }
        }
        if size.bytes == 0 {
            size.bytes = DEFAULT_BYTES;
        }
        Ok(size)
    }
}

fn wrong(word: &str) -> String {
    format!("{word:?} is neither a time (10s, 500ms) nor bytes (64K to 64G)")
}

/// `64K`, `256M`, `1G`.
fn bytes_of(word: &str) -> Option<usize> {
    let shift = match word.chars().last()? {
        'k' | 'K' => 10,
        'm' | 'M' => 20,
        'g' | 'G' => 30,
        _ => return None,
    };
    let number: usize = word[..word.len() - 1].parse().ok()?;
    let bytes = number.checked_mul(1 << shift)?;
    (65_536..=MOST_BYTES).contains(&bytes).then_some(bytes)
}

/// `10s`, `500ms`, `10`.
fn time_of(word: &str) -> Option<Duration> {
    let (number, unit) = match word.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (word.strip_suffix('s').unwrap_or(word), 1.0),
    };
    let number: f64 = number.parse().ok()?;
    let time = Duration::try_from_secs_f64(number * unit).ok()?;
    (time > Duration::ZERO).then_some(time)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        args: CaptureArgs,
    }

    fn parse(words: &str) -> Result<CaptureArgs, String> {
        let words = std::iter::once("capture").chain(words.split_whitespace());
        Words::try_parse_from(words).map(|words| words.args).map_err(|error| error.to_string())
    }

    fn ring(text: &str) -> Option<(Duration, usize)> {
        text.parse::<RingSize>().ok().map(|ring| (ring.time, ring.bytes))
    }

    #[test]
    fn a_ring_has_a_time_or_bytes_or_both() {
        assert_eq!(ring("10s"), Some((Duration::from_secs(10), DEFAULT_BYTES)));
        assert_eq!(ring("1.5"), Some((Duration::from_millis(1500), DEFAULT_BYTES)));
        assert_eq!(ring("64K"), Some((Duration::MAX, 65_536)));
        assert_eq!(ring("500ms,1G"), Some((Duration::from_millis(500), 1 << 30)));
        for bad in ["", "10h", "0", "-1s", "1K", "999G", "99999999999999999999G", "M", "é"] {
            assert_eq!(ring(bad), None, "{bad}");
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        assert!(parse("--print").is_err() && parse("--ring 5s -w x").is_err());
        assert!(parse("--trigger nak").is_err() && parse("--seconds 0").is_err());
        assert!(parse("-w x --trigger nak,rnr --ring 5s").expect("good").check().is_ok());
        for words in ["-w - --print", "-w - --trigger nak"] {
            assert!(parse(words).expect("clap takes it").check().is_err(), "{words}");
        }
    }

    #[test]
    fn the_port_is_that_of_every_command_unless_named() {
        let global = crate::cli::Cli::parse_from(["uroce", "devices", "--roce-port", "7"]).global;
        let port = |words| parse(words).expect("good words").port(&global);
        assert_eq!((port(""), port("--port 9")), (7, 9));
    }
}
