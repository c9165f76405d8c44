//! Options of `uroce replay`.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use uroce_analyze::parse_qpn;
use uroce_replay::{Limits, Options};
use uroce_wire::Qpn;

const AFTER: &str = "\
Exit codes: 0 the same answers; 1 an answer differs; 2 a conversation cannot be played, or the file is damaged or no
capture; 3 the file cannot be read.
Examples:
  uroce replay run.pcapng
  uroce replay run.pcapng --qp 0x11 --only-differences
  uroce replay run.pcapng --fault 'rx drop count=1'
  uroce replay run.pcapng --to 192.0.2.1 --token 8d0f63e1a2b45c77";

/// Options of `uroce replay`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ReplayArgs {
    /// A pcap or pcapng file, compressed with gzip or not; - is stdin
    #[arg(value_name = "FILE")]
    pub source: String,
    /// Only conversations of this queue pair: 17 or 0x11
    #[arg(long, value_name = "N", value_parser = parse_qpn)]
    pub qp: Vec<Qpn>,
    /// Only conversations of this address
    #[arg(long, value_name = "IP")]
    pub host: Vec<IpAddr>,
    /// Print only what differs
    #[arg(long)]
    pub only_differences: bool,
    /// Compare also the data of READ responses and the results of atomics, which depend on the application
    #[arg(long, conflicts_with = "to")]
    pub data: bool,
    /// Do not compare this: credits of ACKs, or MSNs; may be repeated
    #[arg(long, value_name = "WHAT")]
    pub ignore: Vec<Ignored>,
    /// Drop what comes behind a gap, as most network cards do, instead of keeping it
    #[arg(long, conflicts_with = "to")]
    pub drop_behind_gap: bool,
    /// Do not play what was lost between the capture and the responder: requests that were sent again before
    /// anything acknowledged them
    #[arg(long)]
    pub skip_lost: bool,
    /// Play to the NIC of another machine, on which `uroce conform agent` runs: name or address of that agent, with
    /// :PORT if it is not 18520
    #[arg(long, value_name = "PEER")]
    pub to: Option<String>,
    /// The token that the agent printed [default: UROCE_CONFORM_TOKEN]
    #[arg(long, value_name = "TOKEN", requires = "to")]
    pub token: Option<String>,
    /// Memory that the requests of a conversation may name, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    memory: u32,
    /// Packets of the capture that are kept, and answers; what is beyond is left out
    #[arg(long, value_name = "N", default_value_t = 1 << 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    packets: u32,
}

/// What is not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ignored {
    /// Credit counts of ACKs.
    Credits,
    /// Message sequence numbers.
    Msn,
}

impl ReplayArgs {
    /// How much of the capture is taken in.
    pub fn limits(&self) -> Limits {
        let packets = self.packets as usize;
        let memory = u64::from(self.memory) << 20;
        Limits { packets, answers: packets, memory, ..Limits::default() }
    }

    /// What counts as a difference.
    pub fn options(&self) -> Options {
        Options {
            data: self.data,
            ignore_credits: self.ignore.contains(&Ignored::Credits),
            ignore_msn: self.ignore.contains(&Ignored::Msn),
        }
    }
}
