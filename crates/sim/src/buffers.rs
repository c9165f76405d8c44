//! PacketBuffers of packets, to use again.

use std::sync::{Arc, Mutex, PoisonError};

/// PacketBuffers that are kept.
const MOST: usize = 4096;

/// PacketBuffers that no packet uses now. A clone is the same store.
#[derive(Debug, Clone, Default)]
pub(crate) struct PacketBuffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl PacketBuffers {
    /// A buffer with these bytes.
    pub(crate) fn copy_of(&self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Takes back a buffer.
    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST {
            spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_used_again_holds_the_new_bytes_only() {
        let buffers = PacketBuffers::default();
        let old = buffers.copy_of(b"a long one");
        let at = old.as_ptr();
        buffers.clone().give_back(old);
        let new = buffers.copy_of(b"new");
        assert_eq!((new.as_slice(), new.as_ptr()), (b"new".as_slice(), at));
    }
}
