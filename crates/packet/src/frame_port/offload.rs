//! What a network card has still to do to a frame, or would have: the virtio-net header in front of it
//! (linux/virtio_net.h), in the byte order of this machine.

/// The checksum is to be computed from `csum_start` on.
const NEEDS_CHECKSUM: u8 = 1;
/// `gso_type`: one packet, and a UDP payload that is to be cut into datagrams.
const WHOLE: u8 = 0;
const UDP_SEGMENTS: u8 = 5;

/// Places of the 16-bit fields.
const HEADER_LENGTH: usize = 2;
const SEGMENT: usize = 4;
const CHECKSUM_START: usize = 6;
/// Of the checksum, behind the start.
const CHECKSUM_AT: usize = 8;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

/// Checksum and segmentation that are left to the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload([u8; Offload::LEN]);

impl Offload {
    /// Bytes in front of a frame.
    pub(super) const LEN: usize = 10;
    /// Nothing is left to do.
    pub const NONE: Self = Self([0; Self::LEN]);

    /// That of a frame whose UDP payload is to be cut into datagrams of `segment` bytes. The headers, from Ethernet to UDP, have
    /// `headers` bytes, and the UDP checksum in them is the sum of the pseudo header (RFC 768).
    #[must_use]
    pub fn datagrams(headers: usize, segment: usize) -> Self {
        let udp = headers.saturating_sub(UDP_LEN);
        let mut bytes = [NEEDS_CHECKSUM, UDP_SEGMENTS, 0, 0, 0, 0, 0, 0, 0, 0];
        let fields =
            [(HEADER_LENGTH, headers), (SEGMENT, segment), (CHECKSUM_START, udp), (CHECKSUM_AT, 6)];
        for (at, value) in fields {
            bytes[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        }
        Self(bytes)
    }

    /// That of a frame which begins behind it.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Every packet of the frame is complete, its checksums too.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0[0] & NEEDS_CHECKSUM == 0 && self.0[1] == WHOLE
    }

    /// Bytes of UDP payload of each packet of the frame, if the frame is a GSO batch of datagrams.
    #[must_use]
    pub fn udp_segment(&self) -> Option<usize> {
        let segment = usize::from(self.word(SEGMENT));
        (self.0[1] == UDP_SEGMENTS && segment > 0).then_some(segment)
    }

    /// One packet, whose checksum may be left to the link.
    #[must_use]
    pub fn is_one_packet(&self) -> bool {
        self.0[1] == WHOLE
    }

    /// The link header has become so many bytes longer.
    pub(super) fn shift(&mut self, by: usize) {
        let needs_checksum = self.0[0] & NEEDS_CHECKSUM != 0;
        for (at, wanted) in
            [(CHECKSUM_START, needs_checksum), (HEADER_LENGTH, !self.is_one_packet())]
        {
            if wanted {
                let moved = self.word(at).saturating_add(by as u16);
                self.0[at..at + 2].copy_from_slice(&moved.to_ne_bytes());
            }
        }
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_ne_bytes([self.0[at], self.0[at + 1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(segment: u16) -> Offload {
        Offload::datagrams(42, segment.into())
    }

    #[test]
    fn a_train_of_datagrams_tells_the_size_of_each() {
        assert_eq!(batch(1040).udp_segment(), Some(1040));
        assert!(!batch(1040).is_one_packet() && !batch(1040).is_none());
        assert_eq!((batch(0).udp_segment(), Offload::NONE.udp_segment()), (None, None));
        assert!(Offload::NONE.is_none() && Offload::NONE.is_one_packet());
    }

    #[test]
    fn a_vlan_tag_moves_what_lies_behind_it() {
        let mut moved = batch(1040);
        moved.shift(4);
        assert_eq!((moved.word(HEADER_LENGTH), moved.word(CHECKSUM_START)), (46, 38));
        assert_eq!(moved.udp_segment(), Some(1040));
        let mut none = Offload::NONE;
        none.shift(4);
        assert_eq!(none, Offload::NONE);
    }

    #[test]
    fn a_short_message_has_none() {
        assert_eq!(Offload::read(&[0; 9]), None);
        assert_eq!(Offload::read(&[0; 10]), Some(Offload::NONE));
    }
}
