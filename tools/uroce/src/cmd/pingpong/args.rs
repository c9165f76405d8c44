//! The flags of `uroce pingpong`: those of `ibv_*_pingpong`, with the same letters.

use clap::{Args, ValueEnum};
use uroce_device::wire::Mtu;

use crate::failure::Failure;

/// Which of the stock programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PingpongKind {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagram
    Ud,
    /// Reliable connections that share a receive queue
    Srq,
}

/// Arguments of `uroce pingpong`. Without a host it is the server and waits for one client, which
/// may be an ibv_* program; with a host it is the client.
#[derive(Debug, Clone, Args)]
pub struct PingpongArgs {
    /// The transport
    #[arg(value_enum)]
    pub kind: PingpongKind,
    /// The server; without it, be the server
    pub host: Option<String>,
    /// TCP port for the exchange of addresses
    #[arg(short, long, default_value_t = crate::channel::PORT)]
    pub port: u16,
    /// Port of the device; there is only port 1
    #[arg(short = 'i', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=1))]
    pub ib_port: u8,
    /// Message size in bytes [default: 4096, ud 1024]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(0..=1 << 30))]
    pub size: Option<u32>,
    /// Path MTU in bytes: 256, 512, 1024, 2048, 4096; the same at both ends
    #[arg(short, long, default_value_t = 1024)]
    pub mtu: usize,
    /// Receives kept posted
    #[arg(short, long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub rx_depth: u32,
    /// Exchanges
    #[arg(short = 'n', long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub iters: u64,
    /// Queue pairs (srq)
    #[arg(short = 'q', long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub num_qp: u32,
    /// Service level; RoCE has no use for it
    #[arg(short = 'l', long, default_value_t = 0)]
    pub sl: u8,
    /// Sleep until a completion comes instead of polling
    #[arg(short, long)]
    pub events: bool,
    /// GID table index; 0 and 1 are the device's address
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub gid_idx: u8,
    /// Register memory for on-demand paging
    #[arg(short, long)]
    pub odp: bool,
    /// Print the times of the exchanges
    #[arg(short, long)]
    pub ts: bool,
    /// Check the contents of what comes back; give it at both ends
    #[arg(short, long)]
    pub chk: bool,
}

impl PingpongArgs {
    /// Bytes of a message.
    pub fn message(&self) -> usize {
        let default = if self.kind == PingpongKind::Ud { 1024 } else { 4096 };
        self.size.unwrap_or(default) as usize
    }

    /// Queue pairs.
    pub fn lanes(&self) -> u32 {
        if self.kind == PingpongKind::Srq { self.num_qp } else { 1 }
    }

    /// Bytes in front of a received message: the GRH area of UD.
    pub fn prefix(&self) -> usize {
        if self.kind == PingpongKind::Ud { uroce_verbs::GRH_AREA_LEN } else { 0 }
    }

    /// What cannot be, whatever the link.
    ///
    /// # Errors
    /// Exit 2 for an MTU that does not exist, or a datagram that fits none.
    pub fn check(&self) -> Result<(), Failure> {
        self.path_mtu()?;
        let (message, most) = (self.message(), Mtu::M4096.bytes());
        if self.kind == PingpongKind::Ud && message > most {
            return Err(Failure::usage(format!("no datagram has {message} bytes: {most} at most"))
                .help("use -s 1024, or another kind than ud"));
        }
        Ok(())
    }

    /// The path MTU, checked.
    ///
    /// # Errors
    /// Exit 2 for one that does not exist.
    pub fn path_mtu(&self) -> Result<Mtu, Failure> {
        Mtu::from_bytes(self.mtu).ok_or_else(|| {
            Failure::usage(format!("there is no path MTU of {} bytes", self.mtu))
                .help("use 256, 512, 1024, 2048 or 4096")
        })
    }
}
