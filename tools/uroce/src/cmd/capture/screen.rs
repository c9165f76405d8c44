//! Packets on the screen, one line each.

use uroce_analyze::{Dissector, DissectorConfig, Frame};

use crate::packet_line::PacketLines;
use crate::report::out;

/// Bytes that wait at most before they are shown.
const PIECE: usize = 64 * 1024;

/// Shows packets as they pass.
#[derive(Debug)]
pub struct Screen {
    dissector: Dissector,
    lines: PacketLines,
    waiting: Vec<u8>,
}

impl Screen {
    /// Nothing is shown yet. `port`: UDP port of RoCEv2.
    pub fn new(port: u16) -> Self {
        let dissector = Dissector::new(DissectorConfig { port });
        Screen { dissector, lines: PacketLines::default(), waiting: Vec::new() }
    }

    /// Adds the lines of a frame, and shows them once there are many.
    pub fn handle_frame(&mut self, frame: &Frame<'_>) {
        let Screen { dissector, lines, waiting } = self;
        lines.note_frame(frame);
        dissector.dissect(frame, &mut |packet, payload, _| {
            // Writing to memory cannot fail.
            let _ = lines.packet(frame, packet, payload, waiting);
        });
        if waiting.len() >= PIECE {
            self.flush();
        }
    }

    /// Shows what was added.
    pub fn flush(&mut self) {
        if !self.waiting.is_empty() {
            out(&String::from_utf8_lossy(&self.waiting));
            self.waiting.clear();
        }
    }
}
