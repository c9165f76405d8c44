//! Bytes of a frame, as `tcpdump -X` shows them.

use std::io::{self, Write};

/// Bytes of one line.
const LINE: usize = 16;

/// Prints `data`, 16 bytes a line: offset, hexadecimal digits, characters.
pub(super) fn print(data: &[u8], out: &mut impl Write) -> io::Result<()> {
    for (number, line) in data.chunks(LINE).enumerate() {
        write!(out, "        {:#06x}: ", number * LINE)?;
        for pair in line.chunks(2) {
            pair.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            out.write_all(b" ")?;
        }
        // As wide as a full line: 40 columns.
        let missing = LINE / 2 * 5 - line.len() * 2 - line.len().div_ceil(2);
        let shown: String = line.iter().map(|byte| character(*byte)).collect();
        writeln!(out, "{:missing$} {shown}", "")?;
    }
    Ok(())
}

fn character(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_are_filled_up() {
        let mut out = Vec::new();
        print(b"0123456789abcdefXY\x1b", &mut out).expect("memory");
        let text = String::from_utf8(out).expect("ASCII");
        let lines: Vec<_> = text.lines().collect();
        let first = "        0x0000: 3031 3233 3435 3637 3839 6162 6364 6566  0123456789abcdef";
        assert_eq!(lines[0], first);
        assert_eq!(lines[1].find("XY."), lines[0].find("0123456789"));
    }
}
