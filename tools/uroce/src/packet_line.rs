//! A packet on one line: the form of `uroce dissect` and of `uroce capture`.

use std::io::{self, Write};

use uroce_analyze::{Frame, Packet, PacketSummary, Timestamp, printable};

/// Writes packets, with the time since the first frame.
#[derive(Debug, Default)]
pub struct PacketLines {
    /// Time of the first frame.
    start: Option<Timestamp>,
}

impl PacketLines {
    /// Takes note of a frame, whether its packets are written or not.
    pub fn note_frame(&mut self, frame: &Frame<'_>) {
        self.start.get_or_insert(frame.time);
    }

    /// Writes the line of a packet of `frame`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn packet(
        &self,
        frame: &Frame<'_>,
        packet: &Packet,
        payload: &[u8],
        out: &mut impl Write,
    ) -> io::Result<()> {
        write!(out, "{:>7}", frame.number)?;
        if packet.segment > 0 {
            write!(out, ".{}", packet.segment)?;
        }
        let (time, summary) = (self.time(frame), PacketSummary::new(packet, payload));
        let (source, destination) = (packet.source_ip(), packet.destination_ip());
        write!(out, " {time} {source} > {destination} {summary}")?;
        comment(frame, out)
    }

    /// Writes the line of a frame that has no packet; `what` it is instead.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn frame(&self, frame: &Frame<'_>, what: &str, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{:>7} {} {what}", frame.number, self.time(frame))?;
        comment(frame, out)
    }

    fn time(&self, frame: &Frame<'_>) -> String {
        seconds(frame.time.difference(self.start.unwrap_or(frame.time)))
    }
}

/// Nanoseconds as seconds.
fn seconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    format!("{sign}{}.{:09}", all / 1_000_000_000, all % 1_000_000_000)
}

fn comment(frame: &Frame<'_>, out: &mut impl Write) -> io::Result<()> {
    match frame.comment {
        "" => writeln!(out),
        text => writeln!(out, "  # {}", printable(text)),
    }
}

#[cfg(test)]
mod tests {
    use uroce_analyze::{CaptureReader, Dissector, DissectorConfig};

    use super::*;

    #[test]
    fn a_clock_that_went_back_is_shown() {
        assert_eq!(seconds(1_500_000_007), "1.500000007");
        assert_eq!(seconds(-1), "-0.000000001");
        assert_eq!(seconds(i64::MIN), "-9223372036.854775808");
    }

    #[test]
    fn a_line_has_frame_time_addresses_summary_and_comment() {
        let capture = &include_bytes!("../../../pcaps/fetch-add.pcap")[..];
        let mut reader = CaptureReader::new(capture).expect("a capture");
        let mut dissector = Dissector::new(DissectorConfig::default());
        let (mut lines, mut text) = (PacketLines::default(), Vec::new());
        for comment in ["", "said\n"] {
            let frame = reader.next_frame().expect("whole").expect("there");
            let frame = Frame { comment, ..frame };
            lines.note_frame(&frame);
            dissector.dissect(&frame, &mut |packet, payload, _| {
                lines.packet(&frame, packet, payload, &mut text).expect("memory");
            });
            lines.frame(&frame, "not RoCE", &mut text).expect("memory");
        }
        let text = String::from_utf8(text).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let first =
            "      1 0.000000000 10.77.0.1 > 10.77.0.2 RC_FETCH_ADD qp 0x000015 psn 0xc20d23 ";
        assert!(lines[0].starts_with(first) && lines[0].ends_with(" icrc ok"), "{text}");
        assert_eq!(lines[1], "      1 0.000000000 not RoCE");
        assert!(lines[2].starts_with("      2 0.001560000 10.77.0.2 > 10.77.0.1 "), "{text}");
        assert!(lines[2].contains(" icrc ok  # said") && lines.len() == 4, "{text}");
    }
}
