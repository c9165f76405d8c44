//! One number for all packets of a simulation.

/// A number that depends on all numbers it was given, and on their order. It is the same in every build.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TraceHash(u64);

impl TraceHash {
    pub(crate) fn add(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    pub(crate) fn finish(self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(parts: &[&[u8]]) -> u64 {
        let mut hash = TraceHash::default();
        parts.iter().for_each(|part| hash.add_bytes(part));
        hash.finish()
    }

    #[test]
    fn what_differs_has_another_number() {
        let all = [
            hash(&[b"one", b"two"]),
            hash(&[b"two", b"one"]),
            hash(&[b"onetwo"]),
            hash(&[b"one", b"twp"]),
            hash(&[b"one", b"two", b""]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{index}");
        }
        assert_eq!(all[0], hash(&[b"one", b"two"]));
    }
}
