//! `uroce sim replay N --pcap FILE`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use uroce_datapath::{Direction, PcapBlocks, PcapRecord};
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
    let path = global.pcap.as_deref().map(with_process_id).ok_or_else(|| {
        Failure::usage("there is no file to record to").help("name one with --pcap FILE")
    })?;
    let scenario = Scenario::new(args.seed);
    let mut recording = Recording::create(&path, scenario.nodes)?;
    let outcome = run_caught(&scenario, |event| recording.note(event));
    let packets = recording.finish()?;
    let file = path.display();
    match outcome {
        Ok(_) if global.json => json::print(&serde_json::json!({
            "version": json::VERSION,
            "seed": args.seed,
            "file": file.to_string(),
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

/// The name with the process id where it says `%p`, as for a recording of a device.
fn with_process_id(path: &Path) -> PathBuf {
    let id = std::process::id().to_string();
    let mut name = Vec::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
        name.extend_from_slice(&rest[..at]);
        name.extend_from_slice(id.as_bytes());
        rest = &rest[at + 2..];
    }
    name.extend_from_slice(rest);
    OsString::from_vec(name).into()
}

/// A capture file with one interface for each node and for the host that forges packets. A packet is in it when it is sent, and again when it is received.
struct Recording<'a> {
    path: &'a Path,
    file: BufWriter<File>,
    blocks: PcapBlocks,
    packets: u64,
    /// What went wrong first; nothing is written after it.
    error: Option<std::io::Error>,
}

impl<'a> Recording<'a> {
    fn create(path: &'a Path, nodes: usize) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| broken(path, &error))?;
        let mut blocks = PcapBlocks::with_capacity(2 * PIECE);
        blocks.section();
        for node in 0..nodes {
            blocks.interface(&format!("node{node}"), ETHERNET, 0);
        }
        // Behind the nodes is the host that forges packets.
        blocks.interface("forger", ETHERNET, 0);
        Ok(Recording { path, file: BufWriter::new(file), blocks, packets: 0, error: None })
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
            self.error = self.file.write_all(self.blocks.bytes()).err();
        }
        self.blocks.clear();
    }

    /// Packets that are in the file.
    fn finish(mut self) -> Result<u64, Failure> {
        self.write();
        let flushed = self.file.flush();
        match self.error.or(flushed.err()) {
            Some(error) => Err(broken(self.path, &error)),
            None => Ok(self.packets),
        }
    }
}

fn broken(path: &Path, error: &std::io::Error) -> Failure {
    Failure::environment(format!("{} cannot be written: {error}", path.display()))
        .help("choose a writable place with room")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_the_process_id_where_they_say_so() {
        let id = std::process::id();
        let named = |text: &str| with_process_id(Path::new(text));
        assert_eq!(named("d/seed7.pcapng"), Path::new("d/seed7.pcapng"));
        assert_eq!(named("%p/a%p%p.x"), PathBuf::from(format!("{id}/a{id}{id}.x")));
        assert_eq!(named("100%"), Path::new("100%"));
    }
}
