//! The flags of `uroce rping`: those of `rping`, with the same letters.

use std::net::IpAddr;

use clap::{ArgGroup, Args};

use crate::report::out;

/// The port of rping.
const PORT: u16 = 7174;
/// As small as the stock program takes.
const SMALLEST: u64 = 23;
/// One less than the buffer of rping.
const LARGEST: u64 = 65_535;

/// Arguments of `uroce rping`. The peer may be rping of rdmacm-utils.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("role").required(true).args(["server", "client"]))]
pub struct RpingArgs {
    /// Be the server: fetch what the client offers and write it back
    #[arg(short, long)]
    pub server: bool,
    /// Be the client: offer data and look at what comes back
    #[arg(short, long, requires = "host")]
    pub client: bool,
    /// The server's address; for a server, the address to listen on
    #[arg(short = 'a', long, value_name = "ADDRESS")]
    pub host: Option<String>,
    /// Port of the service
    #[arg(short, long, default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Bytes of a ping
    #[arg(short = 'S', long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(SMALLEST..=LARGEST))]
    pub size: u64,
    /// Pings; without it, for ever (client; a server serves as many as it is asked for)
    #[arg(short = 'C', long, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print the data of each ping
    #[arg(short, long)]
    pub verbose: bool,
    /// Compare what comes back with what was offered (client)
    #[arg(short = 'V', long)]
    pub validate: bool,
    /// Serve one client after the other instead of one only (server)
    #[arg(short = 'P', long)]
    pub persistent: bool,
    /// Call from this address of the machine (client)
    #[arg(short = 'I', long, value_name = "IP")]
    pub source: Option<IpAddr>,
    /// Stdout is for the one JSON object.
    #[arg(skip)]
    pub json: bool,
}

impl RpingArgs {
    /// Prints the data of a ping.
    pub fn say(&self, line: &str) {
        if self.json { eprint!("{line}") } else { out(line) }
    }
}
