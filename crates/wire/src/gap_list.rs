//! Gap lists: what a responder misses beside the packet that a sequence NAK names (docs/adr/033-gap-lists.md).
//!
//! A list follows the AETH of a sequence NAK where other NAKs end. Each entry has 4 bytes: how far behind the PSN of the NAK a
//! gap begins, and how many packets are missing there. Only a requester that has asked for lists gets one.

use crate::Psn;

/// The reserved bit beside AckReq by which a requester asks for gap lists, in packets that it sends again.
pub const TAKES_GAP_LISTS: u8 = 0x40;

/// Most gaps of one list.
pub const GAPS_PER_LIST: usize = 60;

const ENTRY: usize = 4;

/// Missing packets, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gap {
    /// The first of them.
    pub first: Psn,
    /// How many; at least 1.
    pub packets: u32,
}

impl Gap {
    /// One past the last of them.
    pub fn end(&self) -> Psn {
        self.first.add(self.packets)
    }
}

/// Writes the gaps behind a NAK for `nak`, as many as a list has room for. Returns the bytes written.
pub fn write_gap_list(out: &mut [u8], nak: Psn, gaps: impl IntoIterator<Item = Gap>) -> usize {
    let mut entries = out.chunks_exact_mut(ENTRY).take(GAPS_PER_LIST);
    let mut written = 0;
    for gap in gaps {
        let distance = u16::try_from(gap.first.since(nak));
        let (Ok(distance), Ok(packets)) = (distance, u16::try_from(gap.packets)) else { break };
        let Some(entry) = entries.next() else { break };
        entry[..2].copy_from_slice(&distance.to_be_bytes());
        entry[2..].copy_from_slice(&packets.to_be_bytes());
        written += ENTRY;
    }
    written
}

/// The gaps of a list behind a NAK for `nak`, in order and apart from each other. What follows an entry that makes no
/// sense is left out.
pub fn read_gap_list(list: &[u8], nak: Psn) -> impl Iterator<Item = Gap> {
    let mut free = 0;
    list.chunks_exact(ENTRY).take(GAPS_PER_LIST).map_while(move |entry| {
        let distance = u32::from(u16::from_be_bytes([entry[0], entry[1]]));
        let packets = u32::from(u16::from_be_bytes([entry[2], entry[3]]));
        let makes_sense = distance >= free && packets > 0;
        free = distance + packets + 1;
        makes_sense.then(|| Gap { first: nak.add(distance), packets })
    })
}

/// True if so many bytes behind the AETH of a sequence NAK are a gap list.
pub fn is_gap_list_length(bytes: usize) -> bool {
    bytes > 0 && bytes.is_multiple_of(ENTRY) && bytes <= ENTRY * GAPS_PER_LIST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(first: u32, packets: u32) -> Gap {
        Gap { first: Psn::new(first), packets }
    }

    #[test]
    fn a_list_is_read_as_it_was_written_also_across_the_wrap() {
        let nak = Psn::new(0xff_fff0);
        let gaps = [gap(0xff_fff0, 3), gap(0xff_fff4, 1), gap(2, 70), gap(0x3000, 1)];
        let mut out = [0; 300];
        let length = write_gap_list(&mut out, nak, gaps);
        assert!(length == 16 && is_gap_list_length(length));
        assert!(read_gap_list(&out[..length], nak).eq(gaps));
    }

    #[test]
    fn a_list_has_an_end() {
        let mut out = [0; 1000];
        let many = (0..1000).map(|index| gap(2 * index, 1));
        assert_eq!(write_gap_list(&mut out, Psn::new(0), many.clone()), 240);
        assert!(read_gap_list(&out, Psn::new(0)).eq(many.take(60)));
        assert_eq!(write_gap_list(&mut out, Psn::new(0), [gap(1, 1), gap(70_000, 1)]), 4);
        assert!(!is_gap_list_length(0) && !is_gap_list_length(6) && !is_gap_list_length(244));
    }

    #[test]
    fn what_makes_no_sense_ends_it() {
        let list = [0, 0, 0, 2, 0, 2, 0, 1, 0, 9, 0, 1];
        assert_eq!(read_gap_list(&list, Psn::new(0)).count(), 1, "the second is part of the first");
        assert_eq!(
            read_gap_list(&[0, 0, 0, 0, 0, 4, 0, 1], Psn::new(0)).count(),
            0,
            "an empty one"
        );
        assert_eq!(read_gap_list(&[0, 0, 0], Psn::new(0)).count(), 0);
    }
}
