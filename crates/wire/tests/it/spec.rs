//! The opcodes as the specification lists them, and each header as bytes laid out by hand.
//!
//! Nothing here is computed by the crate under test.

use uroce_wire::*;

/// Opcode, name, headers and payload behind the BTH, and whether it starts (S) or ends (E) a message.
pub type Row = (u8, &'static str, &'static str, &'static str);

/// Every opcode that RoCE has.
#[rustfmt::skip]
pub const ROWS: [Row; 65] = [
    (0x00, "RC_SEND_FIRST", "payload", "S"),
    (0x01, "RC_SEND_MIDDLE", "payload", ""),
    (0x02, "RC_SEND_LAST", "payload", "E"),
    (0x03, "RC_SEND_LAST_IMM", "ImmDt payload", "E"),
    (0x04, "RC_SEND_ONLY", "payload", "SE"),
    (0x05, "RC_SEND_ONLY_IMM", "ImmDt payload", "SE"),
    (0x06, "RC_WRITE_FIRST", "RETH payload", "S"),
    (0x07, "RC_WRITE_MIDDLE", "payload", ""),
    (0x08, "RC_WRITE_LAST", "payload", "E"),
    (0x09, "RC_WRITE_LAST_IMM", "ImmDt payload", "E"),
    (0x0a, "RC_WRITE_ONLY", "RETH payload", "SE"),
    (0x0b, "RC_WRITE_ONLY_IMM", "RETH ImmDt payload", "SE"),
    (0x0c, "RC_READ_REQUEST", "RETH", "SE"),
    (0x0d, "RC_READ_RESPONSE_FIRST", "AETH payload", "S"),
    (0x0e, "RC_READ_RESPONSE_MIDDLE", "payload", ""),
    (0x0f, "RC_READ_RESPONSE_LAST", "AETH payload", "E"),
    (0x10, "RC_READ_RESPONSE_ONLY", "AETH payload", "SE"),
    (0x11, "RC_ACKNOWLEDGE", "AETH", "SE"),
    (0x12, "RC_ATOMIC_ACKNOWLEDGE", "AETH AtomicAckETH", "SE"),
    (0x13, "RC_COMPARE_SWAP", "AtomicETH", "SE"),
    (0x14, "RC_FETCH_ADD", "AtomicETH", "SE"),
    (0x16, "RC_SEND_LAST_INV", "IETH payload", "E"),
    (0x17, "RC_SEND_ONLY_INV", "IETH payload", "SE"),
    (0x1c, "RC_FLUSH", "FETH RETH", "SE"),
    (0x1d, "RC_ATOMIC_WRITE", "RETH payload", "SE"),
    (0x20, "UC_SEND_FIRST", "payload", "S"),
    (0x21, "UC_SEND_MIDDLE", "payload", ""),
    (0x22, "UC_SEND_LAST", "payload", "E"),
    (0x23, "UC_SEND_LAST_IMM", "ImmDt payload", "E"),
    (0x24, "UC_SEND_ONLY", "payload", "SE"),
    (0x25, "UC_SEND_ONLY_IMM", "ImmDt payload", "SE"),
    (0x26, "UC_WRITE_FIRST", "RETH payload", "S"),
    (0x27, "UC_WRITE_MIDDLE", "payload", ""),
    (0x28, "UC_WRITE_LAST", "payload", "E"),
    (0x29, "UC_WRITE_LAST_IMM", "ImmDt payload", "E"),
    (0x2a, "UC_WRITE_ONLY", "RETH payload", "SE"),
    (0x2b, "UC_WRITE_ONLY_IMM", "RETH ImmDt payload", "SE"),
    (0x64, "UD_SEND_ONLY", "DETH payload", "SE"),
    (0x65, "UD_SEND_ONLY_IMM", "DETH ImmDt payload", "SE"),
    (0x81, "CNP", "payload", "SE"),
    (0xa0, "XRC_SEND_FIRST", "XRCETH payload", "S"),
    (0xa1, "XRC_SEND_MIDDLE", "XRCETH payload", ""),
    (0xa2, "XRC_SEND_LAST", "XRCETH payload", "E"),
    (0xa3, "XRC_SEND_LAST_IMM", "XRCETH ImmDt payload", "E"),
    (0xa4, "XRC_SEND_ONLY", "XRCETH payload", "SE"),
    (0xa5, "XRC_SEND_ONLY_IMM", "XRCETH ImmDt payload", "SE"),
    (0xa6, "XRC_WRITE_FIRST", "XRCETH RETH payload", "S"),
    (0xa7, "XRC_WRITE_MIDDLE", "XRCETH payload", ""),
    (0xa8, "XRC_WRITE_LAST", "XRCETH payload", "E"),
    (0xa9, "XRC_WRITE_LAST_IMM", "XRCETH ImmDt payload", "E"),
    (0xaa, "XRC_WRITE_ONLY", "XRCETH RETH payload", "SE"),
    (0xab, "XRC_WRITE_ONLY_IMM", "XRCETH RETH ImmDt payload", "SE"),
    (0xac, "XRC_READ_REQUEST", "XRCETH RETH", "SE"),
    (0xad, "XRC_READ_RESPONSE_FIRST", "AETH payload", "S"),
    (0xae, "XRC_READ_RESPONSE_MIDDLE", "payload", ""),
    (0xaf, "XRC_READ_RESPONSE_LAST", "AETH payload", "E"),
    (0xb0, "XRC_READ_RESPONSE_ONLY", "AETH payload", "SE"),
    (0xb1, "XRC_ACKNOWLEDGE", "AETH", "SE"),
    (0xb2, "XRC_ATOMIC_ACKNOWLEDGE", "AETH AtomicAckETH", "SE"),
    (0xb3, "XRC_COMPARE_SWAP", "XRCETH AtomicETH", "SE"),
    (0xb4, "XRC_FETCH_ADD", "XRCETH AtomicETH", "SE"),
    (0xb6, "XRC_SEND_LAST_INV", "XRCETH IETH payload", "E"),
    (0xb7, "XRC_SEND_ONLY_INV", "XRCETH IETH payload", "SE"),
    (0xbc, "XRC_FLUSH", "XRCETH FETH RETH", "SE"),
    (0xbd, "XRC_ATOMIC_WRITE", "XRCETH RETH payload", "SE"),
];

pub const XRCETH: XrcEth = XrcEth { srqn: 0x11_2233 };
pub const DETH: Deth = Deth { qkey: 0x4455_6677, src_qpn: Qpn::new(0x88_99aa) };
pub const FETH: Feth = Feth { placement: 3, selectivity: 1 };
pub const RETH: Reth = Reth { va: 0x0102_0304_0506_0708, rkey: 0x1112_1314, length: 0x2122_2324 };
pub const ATOMIC: AtomicEth = AtomicEth {
    va: 0x3132_3334_3536_3738,
    rkey: 0x4142_4344,
    swap_add: 0x5152_5354_5556_5758,
    compare: 0x6162_6364_6566_6768,
};
pub const AETH: Aeth = Aeth { syndrome: Syndrome(0x1f), msn: 0x71_7273 };
pub const ATOMIC_ACK: AtomicAckEth = AtomicAckEth { original: 0x8182_8384_8586_8788 };
pub const IMMDT: u32 = 0x9192_9394;
pub const IETH: u32 = 0xa1a2_a3a4;

/// The bytes of the sample header of that name.
pub fn header_bytes(name: &str) -> Vec<u8> {
    hex(match name {
        "XRCETH" => "00 112233",
        "DETH" => "44556677 00 8899aa",
        "FETH" => "000000 13",
        "RETH" => "0102030405060708 11121314 21222324",
        "AtomicETH" => "3132333435363738 41424344 5152535455565758 6162636465666768",
        "AETH" => "1f 717273",
        "AtomicAckETH" => "8182838485868788",
        "ImmDt" => "91929394",
        "IETH" => "a1a2a3a4",
        _ => "",
    })
}

/// BTH (solicited event, MigReq, P_Key 0x8123, QPN 0xabcdef, AckReq, PSN 0x123456) and the sample headers of a row.
pub fn headers_of(row: &Row) -> Vec<u8> {
    let mut bytes = hex("00 c0 8123 00 abcdef 80 123456");
    bytes[0] = row.0;
    bytes.extend(row.2.split(' ').flat_map(header_bytes));
    bytes
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// CRC-32 one bit at a time.
pub fn crc32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    !bytes.into_iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| match crc & 1 {
            1 => (crc >> 1) ^ 0xedb8_8320,
            _ => crc >> 1,
        })
    })
}
