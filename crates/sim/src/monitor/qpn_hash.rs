//! A quick hash of node and queue pair numbers, which nobody chooses to harm it.

use std::hash::{BuildHasherDefault, Hasher};

/// For a map by numbers.
pub(super) type QpnHash = BuildHasherDefault<QpnHasher>;

/// Multiplies, and keeps the upper bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QpnHasher(u64);

impl Hasher for QpnHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher as _;

    use uroce_wire::Qpn;

    use super::*;

    #[test]
    fn neighbours_have_different_hashes() {
        let build = QpnHash::default();
        let hashes: HashSet<u64> = (0..16usize)
            .flat_map(|node| (0..256).map(move |qpn| (node, Qpn::new(qpn))))
            .map(|key| build.hash_one(key) >> 40)
            .collect();
        assert!(hashes.len() > 4000, "{} of 4096", hashes.len());
    }
}
