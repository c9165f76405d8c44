//! Ranges of bytes as callers write them: `..`, `8..16`, `100..`.

use std::ops::{Bound, RangeBounds};

/// First byte and number of bytes of `range` within `len` bytes. A range that reaches beyond `len`,
/// or ends before it begins, stays so: the check of the key refuses it later, and says why.
pub(crate) fn start_and_length(range: impl RangeBounds<usize>, len: usize) -> (u64, u64) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    (start as u64, end.saturating_sub(start) as u64)
}

/// As in a work request. 2^32 - 1 stands for everything longer: no message may be that long, so the
/// post is refused.
pub(crate) fn wire_length(length: u64) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_range() {
        assert_eq!(start_and_length(.., 10), (0, 10));
        assert_eq!(start_and_length(3.., 10), (3, 7));
        assert_eq!(start_and_length(3..5, 10), (3, 2));
        assert_eq!(start_and_length(3..=5, 10), (3, 3));
        assert_eq!(start_and_length(8..12, 10), (8, 4));
        assert_eq!(start_and_length(12.., 10), (12, 0));
        assert_eq!(start_and_length(..=usize::MAX, 10), (0, usize::MAX as u64));
    }

    #[test]
    fn a_length_beyond_32_bits_is_refused_rather_than_cut() {
        assert_eq!(wire_length(1 << 33), u32::MAX);
        assert_eq!(wire_length(7), 7);
    }
}
