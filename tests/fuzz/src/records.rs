//! What the other end of `uroce pingpong` or `uroce perf` says over TCP.

use uroce_exchange::BadRecord;
use uroce_exchange::perftest::{self, Announced, Keys, Measured, VERSION_LEN};
use uroce_exchange::pingpong::{self, Destination};

/// Bytes of a record that is not taken, as its failure shows them: 120, of which each may become the replacement character.
const MOST_SHOWN: usize = 3 * 120;

/// Reads the bytes as each record; one that is read and written is read as the same, and a failure shows no more of the peer's
/// bytes than a line has room for.
pub(crate) fn run(bytes: &[u8]) {
    if let Some(keys) = taken(Keys::decode(bytes)) {
        assert_eq!(Keys::decode(&keys.encode()), Ok(keys));
    }
    for record in bytes.chunks(pingpong::LEN) {
        if let Some(to) = taken(Destination::decode(record)) {
            assert_eq!(Destination::decode(&to.encode()), Ok(to));
        }
    }
    if let Some(version) = taken(perftest::decode_version(bytes)) {
        assert!(version.len() < bytes.len() && !version.contains('\0'), "{version:?}");
    }
    if let Some(announced) = bytes.first_chunk::<VERSION_LEN>().and_then(Announced::decode) {
        assert_eq!(Announced::decode(&perftest::version_record(&announced)), Some(announced));
    }
    if let Some(record) = bytes.first_chunk()
        && let Some(code) = taken(perftest::decode_mtu(*record))
    {
        assert_eq!(perftest::mtu_record(code), *record);
    }
    if let Some(words) = bytes.first_chunk::<40>() {
        let words = std::array::from_fn(|word| std::array::from_fn(|at| words[8 * word + at]));
        assert_eq!(Measured::from_words(&words).words(), words);
    }
}

fn taken<T>(read: Result<T, BadRecord>) -> Option<T> {
    read.inspect_err(|bad| assert!(bad.found.len() <= MOST_SHOWN, "{bad}")).ok()
}
