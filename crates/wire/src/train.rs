//! Trains: packets of one size that pass through an operating system as one send (UDP segmentation).

/// Packets of a train at most (Linux's UDP_MAX_SEGMENTS, before 6.9).
pub const TRAIN_PACKETS: usize = 64;

/// Bytes of the packets of a train together at most: an IP packet is not longer, its IPv6 and UDP
/// headers included.
pub const TRAIN_BYTES: usize = 65_535 - 48;

/// Packets of a train whose packets have `len` bytes each, from the BTH to the ICRC.
#[must_use]
pub const fn train_packets(len: usize) -> usize {
    let fit = TRAIN_BYTES / len;
    if fit < TRAIN_PACKETS { fit } else { TRAIN_PACKETS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_packets_are_limited_by_number_and_long_ones_by_bytes() {
        assert_eq!([16, 1_023, 1_024, 1_040, 4_112].map(train_packets), [64, 64, 63, 62, 15]);
    }
}
