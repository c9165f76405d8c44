//! The flags of `uroce perf`: those of perftest, with the same letters.

use clap::{Args, ValueEnum};

/// What the requester does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Verb {
    /// RDMA WRITE
    Write,
    /// RDMA READ
    Read,
    /// SEND and RECEIVE
    Send,
    /// 8-byte atomics
    Atomic,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Metric {
    /// Bandwidth: many messages in flight
    Bw,
    /// Latency: one message at a time; half the round trip for write and send, all of it for read and atomic
    Lat,
}

/// Transport services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Connection {
    /// Reliable connection
    #[value(name = "RC", alias = "rc")]
    Rc,
    /// Unreliable connection
    #[value(name = "UC", alias = "uc")]
    Uc,
    /// Unreliable datagram
    #[value(name = "UD", alias = "ud")]
    Ud,
}

/// The two atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Atomic {
    /// Compare and swap
    #[value(name = "CMP_AND_SWAP", alias = "cas")]
    CmpAndSwap,
    /// Fetch and add
    #[value(name = "FETCH_AND_ADD", alias = "fadd")]
    FetchAndAdd,
}

/// How the two ends of a local run reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Local {
    /// A switch inside the process
    #[value(alias = "loopback")]
    Fabric,
    /// UDP sockets on 127.0.0.1 and 127.0.0.2
    Udp,
}

/// Arguments of `uroce perf`. Without a host it is the server and waits for one client, which may
/// be an ib_* program; with a host it is the client.
#[derive(Debug, Clone, Args)]
pub struct PerfArgs {
    /// The operation
    #[arg(value_enum)]
    pub verb: Verb,
    /// Bandwidth or latency
    #[arg(value_enum)]
    pub metric: Metric,
    /// The server; without it, be the server
    pub host: Option<String>,
    /// Both ends in this process, on a switch inside it, on UDP sockets or on what --datapath names
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, value_name = "HOW",
          conflicts_with = "host")]
    pub local: Option<Option<Local>>,
    /// TCP port for the exchange of addresses
    #[arg(short, long, default_value_t = crate::channel::PORT)]
    pub port: u16,
    /// Port of the device; there is only port 1
    #[arg(short = 'i', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=1))]
    pub ib_port: u8,
    /// GID table index; 0 and 1 are the device's address
    #[arg(short = 'x', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub gid_index: u8,
    /// Message size in bytes [default: 65536 for bw, with -c UD the path MTU, 2 for lat, 8 for atomic]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub size: Option<u32>,
    /// All sizes from 2 to 2^23 bytes (no address: that is --address). A server learns it from a client of ours;
    /// beside ib_* programs give it at both ends
    #[arg(short, long, conflicts_with = "size")]
    pub all: bool,
    /// Messages of each size; a server takes over -n, -s, -a and -D of a client of ours [default: 1000; 5000 for
    /// write bw]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(5..=100_000_000))]
    pub iters: Option<u64>,
    /// Run for so many seconds instead
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with_all = ["iters", "all"],
          value_parser = clap::value_parser!(u32).range(1..))]
    pub duration: Option<u32>,
    /// With -D: seconds at its beginning and at its end that are not counted
    #[arg(short = 'f', long, default_value_t = 0, value_name = "SECONDS")]
    pub margin: u32,
    /// Queue pairs (bandwidth only)
    #[arg(short = 'q', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub qp: u32,
    /// Send queue depth [default: 128, or the number of messages]
    #[arg(short = 't', long, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub tx_depth: Option<u32>,
    /// Receive queue depth [default: 512, or the number of messages]
    #[arg(short = 'r', long, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub rx_depth: Option<u32>,
    /// Work requests posted in one call
    #[arg(short = 'l', long = "post_list", alias = "post-list", default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub post_list: u32,
    /// Work requests for each completion [default: 100; 1 above 8192 bytes and for latency]
    #[arg(short = 'Q', long, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub cq_mod: Option<u32>,
    /// Path MTU in bytes: 256, 512, 1024, 2048, 4096 [default: what the link carries]
    #[arg(short, long)]
    pub mtu: Option<usize>,
    /// Transport service
    #[arg(short, long, value_enum, default_value = "RC")]
    pub connection: Connection,
    /// Both ends send (bandwidth only)
    #[arg(short, long)]
    pub bidirectional: bool,
    /// Sleep until a completion comes instead of polling (send only, without -b)
    #[arg(short, long)]
    pub events: bool,
    /// Copy messages of up to so many bytes into the work request
    #[arg(short = 'I', long = "inline_size", alias = "inline-size", default_value_t = 0, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(0..=512))]
    pub inline_size: u32,
    /// Local ACK timeout: 4.096 us * 2^N
    #[arg(short = 'u', long, default_value_t = 14, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub qp_timeout: u8,
    /// Retries before a message fails
    #[arg(long = "retry_count", alias = "retry-count", default_value_t = 7, value_name = "N",
          value_parser = clap::value_parser!(u8).range(0..=7))]
    pub retry_count: u8,
    /// Service level; RoCE has no use for it
    #[arg(short = 'S', long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=15))]
    pub sl: u8,
    /// Type of service in the IP header
    #[arg(short = 'T', long, default_value_t = 0)]
    pub tos: u8,
    /// Accepted for the sake of perftest's command lines; there is no CPU frequency to check
    #[arg(short = 'F', long = "CPU-freq")]
    pub cpu_freq: bool,
    /// Print every sample, sorted (latency, without -D)
    #[arg(short = 'H', long)]
    pub report_histogram: bool,
    /// Print every sample, in order (latency, without -D)
    #[arg(short = 'U', long, conflicts_with = "report_histogram")]
    pub report_unsorted: bool,
    /// Do not look for the peak bandwidth; the server of send never does, and prints 0.00
    #[arg(short = 'N', long = "noPeak")]
    pub no_peak: bool,
    /// READ or atomic requests in flight [default: 128]
    #[arg(short, long, value_parser = clap::value_parser!(u8).range(1..=128))]
    pub outs: Option<u8>,
    /// Which atomic
    #[arg(
        short = 'A',
        long = "atomic_type",
        alias = "op",
        value_enum,
        default_value = "FETCH_AND_ADD",
        value_name = "TYPE"
    )]
    pub atomic_type: Atomic,
    /// Receive from a shared receive queue (send only)
    #[arg(long = "use-srq")]
    pub use_srq: bool,
    /// Gb/s instead of MiB/s
    #[arg(long = "report_gbits", alias = "report-gbits")]
    pub report_gbits: bool,
    /// Print more percentiles after the table (latency)
    #[arg(long)]
    pub percentiles: bool,
    /// Fill the buffers with a pattern and check what arrives: each message of send, which takes time; of write and
    /// read what the last messages of each size left, at each place in memory. Give it at both ends
    #[arg(long, alias = "data_validation")]
    pub verify: bool,
    /// JSON on stdout, as --json
    #[arg(long = "out_json", hide = true)]
    pub out_json: bool,
    #[arg(short = 'R', long = "rdma_cm", hide = true)]
    pub(super) rdma_cm: bool,
    #[arg(short = 'z', long = "comm_rdma_cm", hide = true)]
    pub(super) comm_rdma_cm: bool,
    #[arg(short = 'g', long = "mcg", hide = true, num_args = 0..=1)]
    pub(super) mcg: Option<Option<String>>,
    #[arg(short = 'C', long = "report-cycles", hide = true)]
    pub(super) report_cycles: bool,
    #[arg(long = "run_infinitely", hide = true)]
    pub(super) run_infinitely: bool,
    #[arg(long = "cpu_util", hide = true)]
    pub(super) cpu_util: bool,
    #[arg(short = 'W', long = "report-counters", hide = true)]
    pub(super) report_counters: Option<String>,
}
