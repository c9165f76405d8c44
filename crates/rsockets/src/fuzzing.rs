//! For fuzzers: what the peer of a stream says, read as we read it.

use crate::datagram_header::{self, Introduction};
use crate::protocol::{Iomap, Message, PrivateData, Remote};

/// Reads the bytes as private data, as an entry of each table, as the headers of datagrams, and as immediate data.
///
/// # Panics
/// What was read and written is read as something else.
pub fn read_messages(bytes: &[u8]) {
    if let Some(data) = PrivateData::decode(bytes) {
        assert_eq!(PrivateData::decode(&data.encode()), Some(data));
    }
    let big_endian = cfg!(target_endian = "big");
    if let Some(entry) = bytes.first_chunk().and_then(Remote::parse) {
        assert_eq!(Remote::parse(&entry.entry(big_endian)), Some(entry));
    }
    if let Some(entry) = bytes.first_chunk().and_then(Iomap::parse) {
        assert_eq!(Iomap::parse(&entry.entry(big_endian)), Some(entry));
    }
    if let Some((introduction, rest)) = Introduction::decode(bytes) {
        let again = [&introduction.encode()[..], rest].concat();
        assert_eq!(Introduction::decode(&again), Some((introduction, rest)));
    }
    if let Some((from, rest)) = datagram_header::decode(bytes) {
        let again = [&datagram_header::encode(from)[..], rest].concat();
        assert_eq!(datagram_header::decode(&again), Some((from, rest)));
    }
    for word in bytes.chunks_exact(4) {
        let imm = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        if let Some(message) = Message::decode(imm) {
            assert_eq!(Message::decode(message.encode()), Some(message));
        }
    }
}
