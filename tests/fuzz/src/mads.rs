//! Management datagrams.

use uroce_cm::{AgentRequest, MAD_LEN, Mad, addressee};

/// Reads the bytes as a MAD; one that is read and written is read as the same.
pub(crate) fn run(bytes: &[u8]) {
    let mut whole = [0; MAD_LEN];
    let length = bytes.len().min(MAD_LEN);
    whole[..length].copy_from_slice(&bytes[..length]);
    for bytes in [bytes, &whole] {
        let _ = (AgentRequest::parse(bytes), addressee(bytes));
        if let Ok(mad) = Mad::parse(bytes) {
            let again = Mad::parse(&mad.emit()).expect("what we write can be read");
            assert_eq!(again, mad);
        }
    }
}
