//! Numbers in the byte order of the writer of the capture.

/// A byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

impl Order {
    /// The number at `at` of `bytes`; 0 if they end before.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let Some(raw) = bytes.get(at..).and_then(|bytes| bytes.first_chunk()) else { return 0 };
        match self {
            Self::Big => u16::from_be_bytes(*raw),
            Self::Little => u16::from_le_bytes(*raw),
        }
    }

    /// The number at `at` of `bytes`; 0 if they end before.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let Some(raw) = bytes.get(at..).and_then(|bytes| bytes.first_chunk()) else { return 0 };
        match self {
            Self::Big => u32::from_be_bytes(*raw),
            Self::Little => u32::from_le_bytes(*raw),
        }
    }

    /// The number at `at` of `bytes`; 0 if they end before.
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let Some(raw) = bytes.get(at..).and_then(|bytes| bytes.first_chunk()) else { return 0 };
        match self {
            Self::Big => u64::from_be_bytes(*raw),
            Self::Little => u64::from_le_bytes(*raw),
        }
    }

    /// The number at `at` of `bytes`; 0 if they end before.
    pub(super) fn i64(self, bytes: &[u8], at: usize) -> i64 {
        self.u64(bytes, at) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_zero() {
        let bytes = [1, 2, 3, 4];
        assert_eq!((Order::Big.u16(&bytes, 1), Order::Little.u16(&bytes, 1)), (0x0203, 0x0302));
        assert_eq!(Order::Big.u32(&bytes, 0), 0x0102_0304);
        assert_eq!((Order::Big.u32(&bytes, 1), Order::Little.i64(&bytes, 0)), (0, 0));
    }
}
