//! Bytes that are recognised again.

/// Byte `at` of memory or of a message, of stream `seed`: neighbours differ, and so do streams.
fn byte(seed: u8, at: usize) -> u8 {
    let mixed = (at as u32).wrapping_mul(0x9e37_79b1).rotate_left(9) ^ u32::from(seed) << 3;
    (mixed ^ mixed >> 16) as u8
}

/// `length` bytes of stream `seed`. Fresh regions hold stream 0.
pub fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| byte(seed, at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_nearly_everywhere() {
        let (one, other) = (pattern(0, 4096), pattern(1, 4096));
        let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(same < 100, "{same}");
        assert_eq!(pattern(0, 16), one[..16]);
    }
}
