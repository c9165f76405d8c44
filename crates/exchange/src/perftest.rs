//! The records of perftest 6.06 (`ib_{write,read,send,atomic}_{bw,lat}`).

use uroce_wire::Gid;

use crate::{BadRecord, RecordFields};

/// Protocol version that the observed programs send.
pub const VERSION: &str = "6.06";
/// Bytes of the version record.
pub const VERSION_LEN: usize = 16;
/// What both ends tell as their cycle buffer, in bytes.
pub const CYCLE_BUFFER: u32 = 4096;
/// What both ends tell as their cache line, in bytes.
pub const CACHE_LINE: u32 = 64;
/// Last words of both ends.
pub const DONE: &[u8; 5] = b"done\0";

/// The version, padded with NULs, as stock programs send it.
pub fn plain_version_record() -> [u8; VERSION_LEN] {
    let mut record = [0; VERSION_LEN];
    record[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
    record
}

/// The version, padded with NULs. Behind the first NUL, where stock programs do not look, we say what we run.
pub fn version_record(announced: &Announced) -> [u8; VERSION_LEN] {
    let mut record = plain_version_record();
    record[VERSION.len() + 1..].copy_from_slice(&announced.encode());
    record
}

/// What a client of ours is going to run, so that the server does not need to be told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Which test it is, in bits that only are to be equal at both ends.
    pub test: u8,
    /// All sizes.
    pub all: bool,
    /// `count` is in seconds.
    pub timed: bool,
    /// Bytes of a message; unless all sizes are sent.
    pub size: u32,
    /// How many messages, or how long.
    pub count: u32,
}

/// How what we announce begins.
const ANNOUNCES: u8 = b'u';
const ALL: u8 = 1;
const TIMED: u8 = 2;
/// The test is in the bits above those two.
const TEST: u32 = 2;

impl Announced {
    fn encode(&self) -> [u8; 11] {
        let flags = self.test << TEST | u8::from(self.timed) << 1 | u8::from(self.all);
        let mut bytes = [0; 11];
        (bytes[0], bytes[1]) = (ANNOUNCES, flags);
        bytes[2..6].copy_from_slice(&self.size.to_be_bytes());
        bytes[6..10].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }

    /// What a version record announces; `None` from a stock program.
    pub fn decode(record: &[u8; VERSION_LEN]) -> Option<Announced> {
        let end = record.iter().position(|byte| *byte == 0)?;
        let &[ANNOUNCES, flags, s1, s2, s3, s4, c1, c2, c3, c4, 0] = &record[end + 1..] else {
            return None;
        };
        Some(Announced {
            test: flags >> TEST,
            all: flags & ALL != 0,
            timed: flags & TIMED != 0,
            size: u32::from_be_bytes([s1, s2, s3, s4]),
            count: u32::from_be_bytes([c1, c2, c3, c4]),
        })
    }
}

/// The version inside a record.
///
/// # Errors
/// [`BadRecord`] if the peer is no perftest.
pub fn decode_version(record: &[u8]) -> Result<String, BadRecord> {
    let bad = || BadRecord::new("a perftest version", record);
    let end = record.iter().position(|&byte| byte == 0).ok_or_else(bad)?;
    let text = std::str::from_utf8(&record[..end]).map_err(|_| bad())?;
    let plausible = text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plausible { Ok(text.to_owned()) } else { Err(bad()) }
}

/// The MTU record: the `ibv_mtu` code as a digit, and a NUL.
pub fn mtu_record(code: u8) -> [u8; 2] {
    [b'0' + code.min(9), 0]
}

/// The MTU code inside a record.
///
/// # Errors
/// [`BadRecord`] for anything but a digit from 1 to 5.
pub fn decode_mtu(record: [u8; 2]) -> Result<u8, BadRecord> {
    match record {
        [digit @ b'1'..=b'5', 0] => Ok(digit - b'0'),
        _ => Err(BadRecord::new("an MTU code", &record)),
    }
}

/// What one end tells the other about one queue pair and its memory. Barriers are this record sent
/// again, with contents that the stock programs do not look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// READ and atomic requests in flight; 1 for tests without.
    pub out_reads: u16,
    /// Queue pair number.
    pub qpn: u32,
    /// First packet sequence number it will send.
    pub psn: u32,
    /// Remote key; 0 for SEND.
    pub rkey: u32,
    /// Where the peer's operations go.
    pub vaddr: u64,
    /// Its address.
    pub gid: Gid,
    /// XRC shared receive queue; 0 without. In barriers of ours: the verdict of a verification.
    pub srqn: u32,
}

impl Keys {
    /// Bytes of a record, with the NUL at its end.
    pub const LEN: usize = 108;

    /// The 108 bytes of the record.
    pub fn encode(&self) -> [u8; Keys::LEN] {
        let mut text = format!(
            "{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:",
            self.lid, self.out_reads, self.qpn, self.psn, self.rkey, self.vaddr
        );
        for byte in self.gid.bytes() {
            text.push_str(&format!("{byte:02x}:"));
        }
        text.push_str(&format!("{:08x}:", self.srqn));
        let mut record = [0; Keys::LEN];
        record[..Keys::LEN - 1].copy_from_slice(text.as_bytes());
        record
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BadRecord`] if it is no such record.
    pub fn decode(record: &[u8]) -> Result<Keys, BadRecord> {
        let mut fields = RecordFields::new("a perftest record (lid:out_reads:qpn:...)", record)?;
        let lid = fields.hex(4)? as u16;
        let out_reads = fields.hex(4)? as u16;
        let qpn = fields.hex(6)? as u32;
        let psn = fields.hex(6)? as u32;
        let rkey = fields.hex(8)? as u32;
        let vaddr = fields.hex(16)?;
        let mut gid = [0; 16];
        for byte in &mut gid {
            *byte = fields.hex(2)? as u8;
        }
        let srqn = fields.hex(8)? as u32;
        let gid = Gid::new(gid);
        Ok(Keys { lid, out_reads, qpn, psn, rkey, vaddr, gid, srqn })
    }
}

/// The bandwidth that one end measured, sent as five words of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measured {
    /// Bytes of a message.
    pub size: u64,
    /// Messages.
    pub iterations: u64,
    /// Best bandwidth in MiB/s.
    pub peak: f64,
    /// Average bandwidth in MiB/s.
    pub average: f64,
    /// Million messages per second.
    pub rate: f64,
}

impl Measured {
    /// The words in the order in which they travel.
    pub fn words(&self) -> [[u8; 8]; 5] {
        [
            self.size.to_be_bytes(),
            self.iterations.to_be_bytes(),
            self.peak.to_bits().to_be_bytes(),
            self.average.to_bits().to_be_bytes(),
            self.rate.to_bits().to_be_bytes(),
        ]
    }

    /// From the words. All bit patterns are accepted: a one-way stock server sends garbage.
    pub fn from_words(words: &[[u8; 8]; 5]) -> Self {
        let number = |i: usize| u64::from_be_bytes(words[i]);
        let float = |i: usize| f64::from_bits(number(i));
        Measured {
            size: number(0),
            iterations: number(1),
            peak: float(2),
            average: float(3),
            rate: float(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: &[u8; Keys::LEN] = b"0000:0001:00003b:9a2399:00000eb1:00007ffbc7073000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:02:00000000:\0";

    #[test]
    fn a_record_that_a_stock_program_sent() {
        let keys = Keys::decode(SEEN).expect("a good record");
        assert_eq!((keys.out_reads, keys.qpn, keys.psn), (1, 0x3b, 0x9a2399));
        assert_eq!((keys.rkey, keys.vaddr), (0xeb1, 0x7ffb_c707_3000));
        assert_eq!(keys.gid.to_ip().to_string(), "10.77.0.2");
        assert_eq!(&keys.encode(), SEEN);
    }

    #[test]
    fn a_cut_record_is_refused() {
        for end in [0, 4, 49, 60, 97, 98] {
            assert!(Keys::decode(&SEEN[..end]).is_err(), "{end}");
        }
        assert!(Keys::decode(&[0xff; Keys::LEN]).is_err());
    }

    #[test]
    fn the_version_record() {
        let announced = Announced {
            test: 0x3f,
            all: true,
            timed: false,
            size: 0x1020_3040,
            count: 100_000_000,
        };
        let record = version_record(&announced);
        assert!(record.starts_with(b"6.06\0u"));
        assert_eq!(decode_version(&record).as_deref(), Ok("6.06"));
        assert_eq!(Announced::decode(&record), Some(announced));
        assert_eq!(Announced::decode(b"6.06\0\0\0\0\0\0\0\0\0\0\0\0"), None, "a stock program");
        assert_eq!(Announced::decode(&[1; 16]), None, "no text at all");
        assert!(decode_version(b"0000:000016:699e").is_err());
    }

    #[test]
    fn the_mtu_record() {
        assert_eq!(&mtu_record(5), b"5\0");
        assert_eq!(decode_mtu(*b"3\0"), Ok(3));
        assert!(decode_mtu(*b"9\0").is_err());
        assert!(decode_mtu(*b"33").is_err());
    }

    #[test]
    fn the_report_words() {
        let report =
            Measured { size: 65536, iterations: 10, peak: 26.24, average: 23.63, rate: 0.000378 };
        assert_eq!(report.words()[0], *b"\0\0\0\0\0\x01\0\0");
        assert_eq!(Measured::from_words(&report.words()), report);
    }
}
