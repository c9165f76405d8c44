//! Plain socket programs to compare with: they run as processes of their own at the two ends of a wire.

mod tcp;
mod udp;

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::stdout_of;

use crate::link::{FAR, Link};
use crate::uroce::Server;

/// Where servers listen.
const PORT: u16 = 5300;

/// A socket program.
#[derive(Debug, Clone, Copy, PartialEq, Subcommand)]
pub enum BaselineCommand {
    /// TCP_NODELAY ping-pong: write, read, write, ...
    TcpPingpong(PingpongArgs),
    /// UDP: one datagram a system call, as fast as it goes.
    UdpStream(StreamArgs),
}

/// Options of the ping-pong; without a server be the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct PingpongArgs {
    server: Option<SocketAddr>,
    /// Ask again and again instead of sleeping in the kernel
    #[arg(long)]
    spin: bool,
    /// Bytes of a message
    #[arg(long)]
    size: usize,
    /// Round trips
    #[arg(long)]
    count: u32,
}

/// Options of the stream; without a server be the server.
#[derive(Debug, Clone, Copy, PartialEq, Args)]
pub struct StreamArgs {
    server: Option<SocketAddr>,
    /// Bytes of a datagram
    #[arg(long)]
    size: usize,
    /// How long to send
    #[arg(long)]
    seconds: f64,
}

impl BaselineCommand {
    /// Runs one end; the client prints its result.
    ///
    /// # Errors
    /// The sockets do not work, or the peer is missing.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::TcpPingpong(arguments) => tcp::run(arguments),
            Self::UdpStream(arguments) => udp::run(arguments),
        }
    }
}

/// What a client prints.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Outcome {
    value: f64,
}

impl Outcome {
    fn print(value: f64) -> Result<()> {
        let text =
            serde_json::to_string(&Self { value }).context(|| "a number has no JSON form")?;
        println!("{text}");
        Ok(())
    }
}

/// Half the median round trip of a TCP ping-pong over `link`, in microseconds.
///
/// # Errors
/// One of the ends failed.
pub fn tcp_half_round_trip(link: &Link, size: u64, spin: bool, count: u32) -> Result<f64> {
    let spin = if spin { " --spin" } else { "" };
    both_ends(link, &format!("tcp-pingpong --size {size} --count {count}{spin}"))
}

/// Million datagrams of `size` bytes that arrived in a second.
///
/// # Errors
/// One of the ends failed.
pub fn udp_rate(link: &Link, size: u64, seconds: f64) -> Result<f64> {
    both_ends(link, &format!("udp-stream --size {size} --seconds {seconds}"))
}

fn both_ends(link: &Link, words: &str) -> Result<f64> {
    let program = std::env::current_exe().context(|| "this program does not know where it is")?;
    let mut line = vec![program.display().to_string(), "baseline".to_owned()];
    line.extend(words.split(' ').map(str::to_owned));
    let server = Server::start(link.far(&line), || link.serves(PORT))?;
    line.push(format!("{FAR}:{PORT}"));
    let said = stdout_of(&mut link.near(&line))?;
    server.finish()?;
    let outcome: Outcome =
        serde_json::from_str(&said).context(|| "the client printed no number")?;
    Ok(outcome.value)
}
