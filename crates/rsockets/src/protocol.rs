//! What two ends of a stream say to each other: the values that they exchange when they connect, and the
//! 32 bits of immediate data that come with each RDMA WRITE. The facts are those of the protocol text of
//! rdma-core (`librdmacm/docs/rsocket`), so that either end may be rdma-core's.

/// Entries for receive buffers in the table of each end.
pub(crate) const BUFFERS: usize = 2;

/// The version of the protocol.
const VERSION: u8 = 1;
/// The sender is big-endian: what is written into its tables must be, too.
const BIG_ENDIAN: u8 = 1;
/// The sender has a table of mapped buffers behind that of its peer's receive buffers.
const HAS_IOMAP: u8 = 2;
/// The type of a message is in the bits from here on.
const TYPE_SHIFT: u32 = 29;
const VALUE: u32 = (1 << TYPE_SHIFT) - 1;

/// Memory of the peer that it lets us write to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    pub addr: u64,
    pub rkey: u32,
    /// Bytes, or entries where it is a table.
    pub length: u32,
}

impl Remote {
    /// Bytes of an entry in a table.
    pub const LEN: usize = 16;

    fn on_the_wire(self) -> [u8; Self::LEN] {
        self.put(u64::to_be_bytes, u32::to_be_bytes)
    }

    /// As an entry of a table, in the byte order of the one whose table it is.
    pub fn entry(self, big_endian: bool) -> [u8; Self::LEN] {
        if big_endian { self.on_the_wire() } else { self.put(u64::to_le_bytes, u32::to_le_bytes) }
    }

    fn put(self, long: fn(u64) -> [u8; 8], word: fn(u32) -> [u8; 4]) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&long(self.addr));
        bytes[8..12].copy_from_slice(&word(self.rkey));
        bytes[12..].copy_from_slice(&word(self.length));
        bytes
    }

    /// An entry of a table of our own, or with `from_be` of the wire.
    fn get(bytes: &[u8; Self::LEN], from_be: bool) -> Remote {
        let (addr, rest) = bytes.split_first_chunk::<8>().expect("16 bytes");
        let (rkey, length) = rest.split_first_chunk::<4>().expect("8 bytes");
        let length = length.first_chunk::<4>().expect("4 bytes");
        if from_be {
            let (rkey, length) = (u32::from_be_bytes(*rkey), u32::from_be_bytes(*length));
            Remote { addr: u64::from_be_bytes(*addr), rkey, length }
        } else {
            let (rkey, length) = (u32::from_ne_bytes(*rkey), u32::from_ne_bytes(*length));
            Remote { addr: u64::from_ne_bytes(*addr), rkey, length }
        }
    }

    /// An entry of a table of ours, as a peer wrote it; `None`: it ends behind the last address.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Remote> {
        let found = Remote::get(bytes, false);
        found.fits(u64::from(found.length)).then_some(found)
    }

    fn fits(&self, bytes: u64) -> bool {
        self.addr.checked_add(bytes).is_some()
    }
}

/// What each end tells the other one about itself, in the private data of REQ and REP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrivateData {
    pub big_endian: bool,
    /// Messages that may come before more is allowed.
    pub credits: u16,
    /// The table in which the other end notes its receive buffers; its length is in entries.
    pub table: Remote,
    /// Entries of the table behind it, for mapped buffers.
    pub iomaps: u32,
    /// The first receive buffer.
    pub data: Remote,
}

impl PrivateData {
    pub const LEN: usize = 40;

    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = VERSION;
        bytes[1] = HAS_IOMAP | if self.big_endian { BIG_ENDIAN } else { 0 };
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = scale(self.iomaps);
        bytes[8..24].copy_from_slice(&self.table.on_the_wire());
        bytes[24..].copy_from_slice(&self.data.on_the_wire());
        bytes
    }

    /// `None`: another version, too short, or addresses that cannot be.
    pub fn decode(bytes: &[u8]) -> Option<PrivateData> {
        let bytes = bytes.first_chunk::<{ Self::LEN }>()?;
        let [version, flags, high, low, _, _, _, iomaps, rest @ ..] = bytes;
        let (table, data) = rest.split_first_chunk::<{ Remote::LEN }>()?;
        let private_data = PrivateData {
            big_endian: flags & BIG_ENDIAN != 0,
            credits: u16::from_be_bytes([*high, *low]),
            table: Remote::get(table, true),
            iomaps: if flags & HAS_IOMAP != 0 { unscale(*iomaps) } else { 0 },
            data: Remote::get(data.first_chunk()?, true),
        };
        let entries = u64::from(private_data.table.length) * Remote::LEN as u64;
        let mapped = u64::from(private_data.iomaps) * Iomap::LEN as u64;
        // Less would have no room for what is written there.
        let possible = private_data.table.length as usize >= BUFFERS
            && private_data.table.fits(entries + mapped)
            && private_data.data.fits(u64::from(private_data.data.length));
        (*version == VERSION && possible).then_some(private_data)
    }
}

/// A number of mapped buffers in one byte: up to 128 as it is, above that in steps of 256.
fn scale(number: u32) -> u8 {
    let byte = if number <= 128 { number } else { (number >> 8).min(127) | 128 };
    byte as u8
}

fn unscale(byte: u8) -> u32 {
    let number = u32::from(byte);
    if number <= 128 { number } else { (number & 127) << 8 }
}

/// The number of mapped buffers that the peer can be told of, for one that a program asks for.
pub(crate) fn iomaps_for(wanted: u32) -> u32 {
    unscale(scale(wanted))
}

/// A buffer that a peer has mapped at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Iomap {
    pub offset: u64,
    pub buffer: Remote,
}

impl Iomap {
    pub const LEN: usize = 24;

    pub fn entry(&self, big_endian: bool) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let offset = if big_endian { self.offset.to_be_bytes() } else { self.offset.to_le_bytes() };
        bytes[..8].copy_from_slice(&offset);
        bytes[8..].copy_from_slice(&self.buffer.entry(big_endian));
        bytes
    }

    /// An entry of our table, as a peer wrote it; `None`: it ends behind the last address.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Iomap> {
        let (offset, buffer) = bytes.split_first_chunk::<8>()?;
        let buffer = Remote::parse(buffer.first_chunk()?)?;
        Some(Iomap { offset: u64::from_ne_bytes(*offset), buffer })
    }
}

/// Immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// So many bytes are in the receive buffer.
    Data(u32),
    /// Up to this number, modulo 65536, messages may be sent; an entry of the table may be new.
    Credits(u16),
    /// An entry of the table of mapped buffers is new.
    IomapUpdated(u16),
    /// The sender takes and sends nothing any more.
    Disconnect,
    /// The sender is still there.
    Keepalive,
    /// The sender sends nothing any more.
    Shutdown,
}

impl Message {
    pub fn encode(self) -> u32 {
        let (kind, value) = match self {
            Message::Data(length) => (0, length & VALUE),
            Message::Credits(limit) => (4, u32::from(limit)),
            Message::IomapUpdated(index) => (6, u32::from(index)),
            Message::Disconnect => (7, 0),
            Message::Keepalive => (7, 1),
            Message::Shutdown => (7, 2),
        };
        kind << TYPE_SHIFT | value
    }

    /// `None`: a type that means nothing.
    pub fn decode(imm: u32) -> Option<Message> {
        let value = imm & VALUE;
        // Peers may grant more than a count of 16 bits; only the lower ones are compared.
        let low = (value & 0xffff) as u16;
        Some(match (imm >> TYPE_SHIFT, value) {
            (0, length) => Message::Data(length),
            (4, _) => Message::Credits(low),
            (6, _) => Message::IomapUpdated(low),
            (7, 0) => Message::Disconnect,
            (7, 1) => Message::Keepalive,
            (7, 2) => Message::Shutdown,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIVATE_DATA: PrivateData = PrivateData {
        big_endian: false,
        credits: 384,
        table: Remote { addr: 0x1122_3344_5566_7788, rkey: 0x99aa_bbcc, length: 2 },
        iomaps: 5,
        data: Remote { addr: 0x4000, rkey: 7, length: 65536 },
    };

    #[test]
    fn hello_is_laid_out_as_the_protocol_says() {
        let bytes = PRIVATE_DATA.encode();
        assert_eq!(bytes[..8], [1, 2, 1, 0x80, 0, 0, 0, 5]);
        assert_eq!(bytes[8..16], 0x1122_3344_5566_7788_u64.to_be_bytes());
        assert_eq!(bytes[16..24], [0x99, 0xaa, 0xbb, 0xcc, 0, 0, 0, 2]);
        let mut long = bytes.to_vec();
        long.resize(56, 0);
        assert_eq!(PrivateData::decode(&long), Some(PRIVATE_DATA));
    }

    #[test]
    fn a_hello_that_cannot_be_is_refused() {
        let bytes = PRIVATE_DATA.encode();
        assert_eq!(PrivateData::decode(&bytes[..39]), None, "too short");
        assert_eq!(PrivateData::decode(&[]), None);
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[at] = byte;
            PrivateData::decode(&bytes)
        };
        assert_eq!(with(0, 2), None, "another version");
        assert_eq!(with(23, 0), None, "no table");
        assert_eq!(with(23, 1), None, "a table without room for two buffers");
        let mut wrapping = PRIVATE_DATA;
        wrapping.data.addr = u64::MAX - 10;
        assert_eq!(PrivateData::decode(&wrapping.encode()), None, "behind the last address");
    }

    #[test]
    fn messages_there_and_back() {
        use Message::*;
        for message in
            [Data(0), Data(65536), Credits(384), IomapUpdated(3), Disconnect, Keepalive, Shutdown]
        {
            assert_eq!(Message::decode(message.encode()), Some(message));
        }
        assert_eq!(Shutdown.encode(), 0xe000_0002);
        for imm in [1 << 29, 2 << 29, 3 << 29, 5 << 29, 7 << 29 | 3] {
            assert_eq!(Message::decode(imm), None);
        }
    }

    #[test]
    fn entries_are_in_the_order_of_the_tables_owner() {
        let iomap = Iomap { offset: 1, buffer: PRIVATE_DATA.data };
        assert_eq!(iomap.entry(true)[7], 1);
        assert_eq!(Iomap::parse(&iomap.entry(cfg!(target_endian = "big"))), Some(iomap));
        assert_eq!(PRIVATE_DATA.data.entry(true)[12..], [0, 1, 0, 0]);
        let beyond = Remote { addr: u64::MAX, rkey: 1, length: 1 };
        assert_eq!(Remote::parse(&beyond.entry(cfg!(target_endian = "big"))), None);
    }

    #[test]
    fn numbers_of_mapped_buffers() {
        assert_eq!([0, 1, 128, 300, 1 << 20].map(iomaps_for), [0, 1, 128, 256, 127 << 8]);
    }

    #[test]
    fn every_message_that_means_something_comes_back_as_it_was() {
        for imm in
            (0..=7u32).flat_map(|kind| (0..70_000).step_by(13).map(move |value| (kind, value)))
        {
            let imm = imm.0 << TYPE_SHIFT | imm.1;
            let Some(message) = Message::decode(imm) else { continue };
            assert_eq!(Message::decode(message.encode()), Some(message), "{imm:#x}");
        }
        assert_eq!(
            Message::decode(4 << TYPE_SHIFT | 0x1_0005),
            Some(Message::Credits(5)),
            "16 bits"
        );
        assert_eq!(Message::Data(u32::MAX).encode() >> TYPE_SHIFT, 0, "it stays data");
    }

    #[test]
    fn private_data_of_any_bytes_is_refused_or_possible() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let mut accepted = 0;
        for _ in 0..10_000 {
            let mut bytes = [0; PrivateData::LEN];
            bytes.iter_mut().for_each(|byte| *byte = next());
            (bytes[0], bytes[8], bytes[24]) = (VERSION, bytes[8] & 0x7f, bytes[24] & 0x7f);
            let Some(found) = PrivateData::decode(&bytes) else { continue };
            accepted += 1;
            assert!(found.table.length > 0 && found.data.fits(u64::from(found.data.length)));
            assert_eq!(PrivateData::decode(&found.encode()), Some(found));
        }
        assert!(accepted > 1_000, "{accepted}");
    }

    #[test]
    fn a_number_of_mapped_buffers_in_a_byte_never_grows() {
        for wanted in 0..40_000 {
            let told = iomaps_for(wanted);
            assert!(told <= wanted.max(1) && iomaps_for(told) == told, "{wanted}: {told}");
        }
    }
}
