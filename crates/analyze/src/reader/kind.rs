//! What a file is, by its first bytes.

use super::CaptureError;
use super::order::Order;

/// What a capture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A classic capture: one link type, records.
    Pcap {
        order: Order,
        /// Nanoseconds of one unit of the fraction of a second.
        unit: u32,
        /// Bytes of the header of a record.
        record: usize,
    },
    /// Blocks.
    Pcapng,
}

/// Bytes that are looked at.
pub(super) const LOOK: usize = 8;

/// Kinds that are named because they are easily taken for a capture.
const OTHERS: [(&[u8], &str); 12] = [
    (b"snoop\0\0\0", "it is a snoop file; `editcap -F pcapng IN OUT` converts it"),
    (b"PK\x03\x04", "it is a zip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd: `zstd -dc FILE |` this command with `-`"),
    (b"\xfd7zXZ\0", "it is compressed with xz: `xz -dc FILE |` this command with `-`"),
    (b"BZh", "it is compressed with bzip2: `bzip2 -dc FILE |` this command with `-`"),
    (b"\x04\x22\x4d\x18", "it is compressed with lz4: `lz4 -dc FILE |` this command with `-`"),
    (b"\x1f\x8b", "it is compressed with gzip twice: unpack it first"),
    (b"GMBU", "it is a Network Monitor file; `editcap -F pcapng IN OUT` converts it"),
    (b"RTSS", "it is a Network Monitor file; `editcap -F pcapng IN OUT` converts it"),
    (b"TRSNIFF ", "it is a Sniffer file; `editcap -F pcapng IN OUT` converts it"),
    (b"\x7fELF", "it is a program"),
    (b"%PDF", "it is a PDF document"),
];

impl FileKind {
    /// The kind that begins with `head`, which has [`LOOK`] bytes or is the whole file.
    pub(super) fn of(head: &[u8]) -> Result<Self, CaptureError> {
        let pcap = |order, unit, record| Ok(Self::Pcap { order, unit, record });
        match head.first_chunk() {
            Some([0xa1, 0xb2, 0xc3, 0xd4]) => pcap(Order::Big, 1000, 16),
            Some([0xd4, 0xc3, 0xb2, 0xa1]) => pcap(Order::Little, 1000, 16),
            Some([0xa1, 0xb2, 0x3c, 0x4d]) => pcap(Order::Big, 1, 16),
            Some([0x4d, 0x3c, 0xb2, 0xa1]) => pcap(Order::Little, 1, 16),
            // With an interface and a protocol behind each header, as some old kernels wrote it.
            Some([0xa1, 0xb2, 0xcd, 0x34]) => pcap(Order::Big, 1000, 24),
            Some([0x34, 0xcd, 0xb2, 0xa1]) => pcap(Order::Little, 1000, 24),
            Some([0x0a, 0x0d, 0x0d, 0x0a]) => Ok(Self::Pcapng),
            _ => Err(CaptureError::NotACapture { found: describe(head) }),
        }
    }
}

fn describe(head: &[u8]) -> &'static str {
    if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return what;
    }
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    match head {
        [] => "it is empty",
        head if head.iter().all(is_text) => "it is text",
        head if head.len() < LOOK => "it has fewer bytes than the header of a capture",
        head if head.iter().all(|byte| *byte == 0) => "it begins with zeros",
        _ => "its first bytes are not known",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_capture_is_named() {
        let cases: [(&[u8], &str); 6] = [
            (b"snoop\0\0\0", "snoop"),
            (b"PK\x03\x04\0\0\0\0", "zip"),
            (b"hello\nwo", "text"),
            (b"\xa1\xb2", "fewer bytes"),
            (b"\0\0\0\0\0\0\0\0", "zeros"),
            (b"", "empty"),
        ];
        for (head, what) in cases {
            let error = FileKind::of(head).expect_err("no capture").to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
