//! The packets before a violation.

use std::collections::VecDeque;
use std::fmt::Write as _;

use uroce_sim::{PacketEvent, Passage};
use uroce_wire::Packet;

/// Packets that are shown.
const MOST: usize = 20;

/// The last packets of a simulation, oldest first.
#[derive(Debug, Default)]
pub struct LastPackets {
    seen: VecDeque<(u64, Passage, Vec<u8>)>,
}

impl LastPackets {
    /// Takes note of a packet.
    pub fn note(&mut self, event: &PacketEvent<'_>) {
        let mut bytes = Vec::new();
        if self.seen.len() == MOST {
            bytes = self.seen.pop_front().map_or_else(Vec::new, |(_, _, bytes)| bytes);
        }
        bytes.clear();
        bytes.extend_from_slice(event.bytes);
        self.seen.push_back((event.at_ns, event.passage, bytes));
    }

    /// The packets, a line each.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for (at_ns, passage, bytes) in &self.seen {
            let who = match passage {
                Passage::Sent { from } => format!("node {from} sends"),
                Passage::Arrived { to } => format!("node {to} receives"),
            };
            writeln!(text, "{at_ns:>14} ns  {who:<17} {}", describe(bytes))
                .expect("a string grows");
        }
        text
    }
}

/// A packet in a few words.
fn describe(bytes: &[u8]) -> String {
    match Packet::parse(bytes) {
        Ok(packet) => {
            let (bth, payload) = (&packet.bth, packet.payload().len());
            let mut text = format!("{} to QP {}, PSN {}", packet.info.name, bth.dest_qpn, bth.psn);
            if let Some(aeth) = packet.aeth() {
                write!(text, ", {:?}", aeth.syndrome.kind()).expect("a string grows");
            }
            if payload > 0 {
                write!(text, ", {payload} bytes of payload").expect("a string grows");
            }
            text
        }
        Err(error) => format!("{} bytes that are no packet: {error:?}", bytes.len()),
    }
}
