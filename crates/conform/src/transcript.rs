//! What passed during a case.

use std::fmt;
use std::time::Duration;

use uroce_wire::{Packet, pretty};

/// The sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The tester.
    Tester,
    /// The NIC under test.
    Peer,
}

/// One packet, or one thing that the agent did or said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A packet.
    Packet {
        /// Since the run began.
        at: Duration,
        /// Its sender.
        side: Side,
        /// BTH to ICRC.
        bytes: Vec<u8>,
        /// IPv4 type of service or IPv6 traffic class.
        traffic_class: u8,
        /// UDP source port.
        source_port: u16,
    },
    /// A queue pair of the tester and one of the NIC under test are connected.
    Connected {
        /// Since the run began.
        at: Duration,
        /// Number of the tester's queue pair.
        tester: u32,
        /// Number of the peer's.
        peer: u32,
    },
    /// A request to the agent and its answer, or a remark.
    Note {
        /// Since the run began.
        at: Duration,
        /// What it is.
        text: String,
    },
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Packet { at, side, bytes, .. } => {
                let arrow = match side {
                    Side::Tester => "tester -> peer",
                    Side::Peer => "tester <- peer",
                };
                write!(f, "{:>9.3} ms  {arrow}  ", millis(*at))?;
                match Packet::parse(bytes) {
                    Ok(packet) => pretty::line(&packet, None).fmt(f),
                    Err(error) => write!(f, "{} bytes: {error}", bytes.len()),
                }
            }
            Entry::Connected { at, tester, peer } => {
                let time = millis(*at);
                write!(f, "{time:>9.3} ms  tester QP {tester:#x} - peer QP {peer:#x}")
            }
            Entry::Note { at, text } => {
                write!(f, "{:>9.3} ms  agent           {text}", millis(*at))
            }
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
