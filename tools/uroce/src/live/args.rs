//! The options of every command that captures from interfaces.

use std::time::Duration;

use clap::Args;
use uroce_packet::capture::CaptureConfig;

/// Bytes of a frame that are kept unless told otherwise: all that a batch has.
const SNAP_LEN: u32 = 262_144;

/// MiB in which the kernel collects packets unless told otherwise.
const BUFFER: u16 = 64;

/// The word for all interfaces, as in tcpdump.
const ANY: &str = "any";

/// What to capture, where, and for how long.
#[derive(Debug, Clone, Default, Args)]
pub struct LiveArgs {
    /// Capture on this interface; may come again; `any` is all of them
    #[arg(short, long = "interface", value_name = "IF")]
    pub interfaces: Vec<String>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Keep so many bytes of each packet of the link; 128 are all headers [default: 262144]
    #[arg(short, long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=262_144))]
    pub snaplen: Option<u32>,
    /// Memory in which the kernel collects packets for us, in MiB [default: 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u16).range(2..=2048))]
    pub buffer: Option<u16>,
    /// Do not make interfaces promiscuous: leave out packets for other hosts that a switch mirrors to us
    #[arg(short = 'p', long)]
    pub no_promiscuous: bool,
}

impl LiveArgs {
    /// What the kernel is asked for. `port`: UDP port of RoCEv2.
    pub fn config(&self, port: u16) -> CaptureConfig {
        let all = self.interfaces.iter().any(|name| name == ANY);
        CaptureConfig {
            interfaces: if all { Vec::new() } else { self.interfaces.clone() },
            port,
            snap_len: self.snaplen.unwrap_or(SNAP_LEN),
            ring_bytes: usize::from(self.buffer.unwrap_or(BUFFER)) << 20,
            promiscuous: !self.no_promiscuous,
        }
    }

    /// Says on stderr that `command` captures.
    pub fn tell_start(&self, command: &str) {
        let on = match &self.config(0).interfaces[..] {
            [] => "all interfaces".to_owned(),
            names => names.join(", "),
        };
        eprintln!("uroce {command}: on {on}; Ctrl-C ends it");
    }

    /// An option that says how to capture.
    pub fn how(&self) -> Option<&'static str> {
        let given = [
            (self.seconds.is_some(), "--seconds"),
            (self.snaplen.is_some(), "--snaplen"),
            (self.buffer.is_some(), "--buffer"),
            (self.no_promiscuous, "--no-promiscuous"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}

/// A time that is more than nothing.
///
/// # Errors
/// It is none, in words.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds);
    time.ok().filter(|time| *time > Duration::ZERO).ok_or_else(|| "it is more than 0".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        args: LiveArgs,
    }

    fn parse(words: &str) -> LiveArgs {
        let words = std::iter::once("capture").chain(words.split_whitespace());
        Words::try_parse_from(words).expect("good words").args
    }

    #[test]
    fn the_kernel_is_asked_for_what_the_options_say() {
        let config = |words| parse(words).config(7);
        assert_eq!(
            (config("-i a -i b").interfaces.len(), config("-i any -i b").interfaces.len()),
            (2, 0)
        );
        assert_eq!((config("-s 128").snap_len, config("--buffer 2").ring_bytes), (128, 2 << 20));
        let plain = config("");
        assert_eq!((plain.port, plain.snap_len, plain.ring_bytes), (7, 262_144, 64 << 20));
        assert!(plain.promiscuous && !config("-p").promiscuous);
    }

    #[test]
    fn options_of_a_capture_are_told_from_its_place() {
        assert_eq!(parse("-i a").how(), None);
        assert_eq!(parse("--seconds 0.5").how(), Some("--seconds"));
        assert_eq!(
            (parse("-p").how(), parse("-s 64").how()),
            (Some("--no-promiscuous"), Some("--snaplen"))
        );
    }
}
