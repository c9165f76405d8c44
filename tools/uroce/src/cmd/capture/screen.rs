//! Packets on the screen, one line each.

use crate::report::out;
use std::fmt::Write as _;
use uroce_analyze::{Dissector, DissectorConfig, Frame, Packet, Timestamp};

/// Shows packets as they pass.
#[derive(Debug)]
pub struct Screen {
    dissector: Dissector,
    /// Time of the first frame.
    start: Option<Timestamp>,
    text: String,
}

impl Screen {
    /// Nothing is shown yet. `port`: UDP port of RoCEv2.
    pub fn new(port: u16) -> Self {
        let dissector = Dissector::new(DissectorConfig { port });
        Screen { dissector, start: None, text: String::new() }
    }

    /// Adds the lines of a frame.
    pub fn handle_frame(&mut self, frame: &Frame<'_>) {
        let Screen { dissector, start, text } = self;
        let start = *start.get_or_insert(frame.time);
        dissector.dissect(frame, &mut |packet, _, _| line(text, start, packet));
    }

    /// Shows what was added.
    pub fn flush(&mut self) {
        if !self.text.is_empty() {
            out(&self.text);
            self.text.clear();
        }
    }
}

fn line(text: &mut String, start: Timestamp, packet: &Packet) {
    let time = packet.time.since(start).as_secs_f64();
    let name = packet.opcode_info.map_or("unknown opcode", |info| info.name);
    let (from, to) = (packet.source_ip(), packet.destination_ip());
    let (qpn, psn) = (packet.bth.dest_qpn.get(), packet.bth.psn.get());
    let length = packet.payload_len;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{time:.6} {from} > {to} QP {qpn:#x} {name} PSN {psn:#x} {length} B");
}
