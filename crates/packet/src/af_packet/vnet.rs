//! The virtio-net header in front of every frame (linux/virtio_net.h): what the link still has to do
//! to it, or would have.

/// Bytes of the header.
pub(super) const VNET: usize = 10;

/// The checksum is to be computed from `csum_start` on.
const NEEDS_CHECKSUM: u8 = 1;

/// No segmentation, and segmentation of a UDP payload into datagrams.
const WHOLE: u8 = 0;
const UDP_SEGMENTS: u8 = 5;

/// Where the checksum field is in a UDP header.
const UDP_CHECKSUM_AT: u16 = 6;

/// The header of a frame that leaves as it is.
pub(super) const PLAIN: [u8; VNET] = [0; VNET];

/// The header of a super-packet: the link cuts what follows the frame's headers, which end with a UDP
/// header at `udp_at`, into payloads of `segment` bytes. The kernel holds the frame's first `linear`
/// bytes in one block, no fewer than the headers.
pub(super) fn segmented(linear: usize, udp_at: usize, segment: usize) -> [u8; VNET] {
    let mut bytes = [0; VNET];
    bytes[..2].copy_from_slice(&[NEEDS_CHECKSUM, UDP_SEGMENTS]);
    let words = [linear as u16, segment as u16, udp_at as u16, UDP_CHECKSUM_AT];
    for (to, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// How a received frame is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One packet.
    Whole,
    /// Payloads of that many bytes behind each other.
    Segments(usize),
    /// Something that cannot be one of our packets.
    Foreign,
}

/// The shape of a frame, and the frame; `None` when the bytes end within the header.
#[inline]
pub(super) fn split(bytes: &[u8]) -> Option<(Shape, &[u8])> {
    let (header, frame) = bytes.split_at_checked(VNET)?;
    let shape = match header[1] {
        WHOLE => Shape::Whole,
        UDP_SEGMENTS => match u16::from_ne_bytes([header[4], header[5]]) {
            0 => Shape::Foreign,
            segment => Shape::Segments(segment.into()),
        },
        _ => Shape::Foreign,
    };
    Some((shape, frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = segmented(42, 34, 1040).to_vec();
        bytes.extend(b"frame");
        assert_eq!(split(&bytes), Some((Shape::Segments(1040), &b"frame"[..])));
        assert_eq!(split(&PLAIN), Some((Shape::Whole, &b""[..])));
        assert_eq!(bytes[..4], [1, 5, 42, 0].map(|byte: u8| byte));
    }

    #[test]
    fn what_is_no_udp_train_is_foreign() {
        let mut bytes = segmented(42, 34, 0);
        assert_eq!(split(&bytes), Some((Shape::Foreign, &b""[..])));
        bytes[1] = 1;
        assert_eq!(split(&bytes), Some((Shape::Foreign, &b""[..])));
        assert_eq!(split(&bytes[..9]), None);
    }
}
