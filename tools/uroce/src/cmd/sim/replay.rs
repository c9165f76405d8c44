//! `uroce sim replay N --pcap FILE`.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use uroce_datapath::{Direction, PcapBlocks, PcapError, PcapRecord, PcapStream};
use uroce_sim::{PacketEvent, Passage, Scenario, run_caught};

use super::failed;
use crate::failure::Failure;
use crate::global::Global;
use crate::report::{json, out};

/// libpcap's number for Ethernet.
const ETHERNET: u16 = 1;
/// Bytes of blocks that are written at once.
const PIECE: usize = 1 << 16;

const EXAMPLES: &str = "\
Examples:
  uroce sim replay 7 --pcap seed7.pcapng";

/// Arguments of `uroce sim replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// The seed
    #[arg(value_name = "N")]
    seed: u64,
}

/// Records the packets of a simulation as its nodes send and receive them.
///
/// # Errors
/// Exit 1 if an invariant does not hold, after the packets up to then were written; exit 2 without `--pcap`; exit 3 if
/// the file cannot be written.
pub fn run(args: &ReplayArgs, global: &Global) -> Result<(), Failure> {
    let path = global.pcap.as_deref().ok_or_else(|| {
        Failure::usage("there is no file to record to").help("name one with --pcap FILE")
    })?;
    let scenario = Scenario::new(args.seed);
    let mut recording = Recording::create(path, scenario.nodes)?;
    let outcome = run_caught(&scenario, |event| recording.note(event));
    let file = recording.stream.path().display().to_string();
    let packets = recording.finish()?;
    match outcome {
        Ok(_) if global.json => json::print(&serde_json::json!({
            "version": json::VERSION,
            "seed": args.seed,
            "file": file,
            "packets": packets,
        })),
        Ok(_) => out(&format!("{packets} packets are in {file}; every invariant holds\n")),
        Err(violation) => {
            let failure = failed::failure(args.seed, &violation);
            return Err(failure.help(format!("the {packets} packets before it are in {file}")));
        }
    }
    Ok(())
}

/// A capture file with one interface for each node and for the host that forges packets. A packet is in it when it is sent, and again when it is received.
struct Recording {
    stream: PcapStream,
    blocks: PcapBlocks,
    packets: u64,
    /// What went wrong first; nothing is written after it.
    error: Option<PcapError>,
}

impl Recording {
    fn create(path: &Path, nodes: usize) -> Result<Self, Failure> {
        let stream = PcapStream::create(path).map_err(Failure::environment)?;
        let mut blocks = PcapBlocks::with_capacity(2 * PIECE);
        blocks.section();
        for node in 0..nodes {
            blocks.interface(&format!("node{node}"), ETHERNET, 0);
        }
        // Behind the nodes is the host that forges packets.
        blocks.interface("forger", ETHERNET, 0);
        Ok(Recording { stream, blocks, packets: 0, error: None })
    }

    fn note(&mut self, event: &PacketEvent<'_>) {
        let (interface, direction) = match event.passage {
            Passage::Sent { from } => (from, Direction::Outbound),
            Passage::Arrived { to } => (to, Direction::Inbound),
        };
        let record = PcapRecord {
            interface: interface as u32,
            time: Duration::from_nanos(event.at_ns),
            original_len: 0,
            direction,
            data: event.bytes,
            lost: 0,
            comments: &[],
        };
        if self.blocks.datagram(&record, &event.flow, event.traffic_class).is_some() {
            self.packets += 1;
        }
        if self.blocks.bytes().len() >= PIECE {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.error.is_none() {
            self.error = self.stream.append(&self.blocks).err();
        }
        self.blocks.clear();
    }

    /// Packets that are in the file.
    fn finish(mut self) -> Result<u64, Failure> {
        self.write();
        self.error.map_or(Ok(self.packets), |error| Err(Failure::environment(error)))
    }
}
