//! The records of `ibv_{rc,uc,ud,srq}_pingpong`.

use uroce_wire::Gid;

use crate::{BadRecord, RecordFields};

/// What one end tells the other about one queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Queue pair number.
    pub qpn: u32,
    /// First packet sequence number it will send.
    pub psn: u32,
    /// Its address.
    pub gid: Gid,
}

/// Bytes of a record, with the NUL at its end.
pub const LEN: usize = 52;
/// Records that `ibv_srq_pingpong` sends, however many queue pairs there are.
pub const SRQ_RECORDS: usize = 256;
/// What the client says when it has the server's record.
pub const DONE: &[u8; 5] = b"done\0";

const EXPECTED: &str = "a pingpong record (lid:qpn:psn:gid)";

impl Destination {
    /// A record that stands for no queue pair, as `ibv_srq_pingpong` pads its list.
    pub fn unused() -> Self {
        Destination { lid: 0, qpn: 0, psn: 0, gid: Gid::new([0; 16]) }
    }

    /// The 52 bytes of the record.
    pub fn encode(&self) -> [u8; LEN] {
        let mut text = format!("{:04x}:{:06x}:{:06x}:", self.lid, self.qpn, self.psn);
        for byte in self.gid.bytes() {
            text.push_str(&format!("{byte:02x}"));
        }
        let mut record = [0; LEN];
        record[..LEN - 1].copy_from_slice(text.as_bytes());
        record
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BadRecord`] if it is no such record.
    pub fn decode(record: &[u8]) -> Result<Self, BadRecord> {
        let mut fields = RecordFields::new(EXPECTED, record)?;
        let lid = fields.hex(4)? as u16;
        let qpn = fields.hex(6)? as u32;
        let psn = fields.hex(6)? as u32;
        let gid = Gid::from_wire_hex(fields.text()?.as_bytes()).map_err(|_| fields.bad())?;
        Ok(Destination { lid, qpn, psn, gid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: &[u8; LEN] = b"0000:000016:699e7b:00000000000000000000ffff0a4d0002\0";

    #[test]
    fn a_record_that_a_stock_program_sent() {
        let decoded = Destination::decode(SEEN).expect("a good record");
        assert_eq!((decoded.lid, decoded.qpn, decoded.psn), (0, 0x16, 0x699e7b));
        assert_eq!(decoded.gid.to_ip().to_string(), "10.77.0.2");
        assert_eq!(&decoded.encode(), SEEN);
    }

    #[test]
    fn an_unused_record_is_all_zeros() {
        let expected = format!("0000:000000:000000:{}\0", "0".repeat(32));
        assert_eq!(Destination::unused().encode(), expected.as_bytes());
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"",
            b"\xff\xfe",
            b"0000:000016:699e7b:00",
            b"0000:+00016:699e7b:00000000000000000000ffff0a4d0002\0",
            b"0000:1000016:699e7b:00000000000000000000ffff0a4d0002\0",
        ] {
            assert!(Destination::decode(bad).is_err(), "{bad:?}");
        }
    }
}
