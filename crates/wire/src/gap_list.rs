//! Gap lists: what a responder misses beside the packet that a sequence NAK names (docs/adr/033-gap-lists.md).
//!
//! A list follows the AETH of a sequence NAK where other NAKs end. Each entry has 4 bytes: how far behind the PSN of the NAK a
//! gap begins, and how many packets are missing there. A last one without packets says how far the responder has seen. Only
//! a requester that has asked for lists gets one.

use crate::Psn;

/// The reserved bit beside AckReq by which a requester asks for gap lists, in packets that it sends again, and in the first new
/// packet behind them: a responder that still misses something before that one answers it by a NAK with a list.
pub const TAKES_GAP_LISTS: u8 = 0x40;

/// Most gaps of one list.
pub const GAPS_PER_LIST: usize = 60;

const ENTRY: usize = 4;

/// Bytes of the longest list.
const MAX_GAP_LIST: usize = ENTRY * (GAPS_PER_LIST + 1);

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

/// Writes the gaps behind a NAK for `nak`, as many as a list has room for, and one past the last PSN that was seen. Returns the
/// bytes written.
pub fn write_gap_list(
    out: &mut [u8],
    nak: Psn,
    gaps: impl IntoIterator<Item = Gap>,
    seen: Psn,
) -> usize {
    let mut entries = out.chunks_exact_mut(ENTRY);
    let end = Gap { first: seen, packets: 0 };
    let mut written = 0;
    for gap in gaps.into_iter().take(GAPS_PER_LIST).chain([end]) {
        let distance = u16::try_from(gap.first.since(nak));
        let (Ok(distance), Ok(packets)) = (distance, u16::try_from(gap.packets)) else { continue };
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
        let (distance, packets) = read_entry(entry);
        let makes_sense = distance >= free && packets > 0;
        free = distance + packets + 1;
        makes_sense.then(|| Gap { first: nak.add(distance), packets })
    })
}

/// One past the last PSN that the responder had seen when it wrote this list behind a NAK for `nak`, if the list says that.
pub fn read_seen(list: &[u8], nak: Psn) -> Option<Psn> {
    let (distance, packets) = read_entry(list.chunks_exact(ENTRY).last()?);
    (packets == 0 && distance > 0).then(|| nak.add(distance))
}

/// Distance and packets of an entry, which has 4 bytes.
fn read_entry(entry: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from(u16::from_be_bytes([entry[at], entry[at + 1]]));
    (number(0), number(2))
}

/// True if so many bytes behind the AETH of a sequence NAK are a gap list.
pub fn is_gap_list_length(bytes: usize) -> bool {
    bytes > 0 && bytes.is_multiple_of(ENTRY) && bytes <= MAX_GAP_LIST
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
        let length = write_gap_list(&mut out, nak, gaps, Psn::new(0x3002));
        assert!(length == 20 && is_gap_list_length(length));
        assert!(read_gap_list(&out[..length], nak).eq(gaps));
        assert_eq!(read_seen(&out[..length], nak), Some(Psn::new(0x3002)));
        assert_eq!(read_seen(&out[..16], nak), None, "a list without that");
    }

    #[test]
    fn a_list_has_an_end() {
        let mut out = [0; 1000];
        let many = (0..1000).map(|index| gap(2 * index, 1));
        let seen = Psn::new(2_000);
        assert_eq!(write_gap_list(&mut out, Psn::new(0), many.clone(), seen), 244);
        assert!(read_gap_list(&out, Psn::new(0)).eq(many.take(60)));
        assert_eq!(read_seen(&out[..244], Psn::new(0)), Some(seen));
        let far = gap(70_000, 1);
        assert_eq!(write_gap_list(&mut out, Psn::new(0), [gap(1, 1), far], far.end()), 4);
        assert_eq!(read_seen(&out[..4], Psn::new(0)), None, "too far to be told");
        assert!(!is_gap_list_length(0) && !is_gap_list_length(6) && !is_gap_list_length(248));
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
        for list in [&[][..], &[0, 0, 0], &[0, 0, 0, 0]] {
            assert_eq!(read_seen(list, Psn::new(0)), None);
        }
    }

    /// What a requester believes of any bytes: gaps in order and apart, and a PSN that is ahead of that of the NAK.
    #[test]
    fn any_bytes_are_a_list_in_order() {
        let mut random = 1_u32;
        let mut byte = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if random >> 30 == 0 { 0 } else { (random >> 24) as u8 % 5 }
        };
        let step = if cfg!(miri) { 17 } else { 1 };
        for length in (0..2_000).step_by(step).map(|round| round % 250) {
            let mut bytes = [0; 250];
            bytes.fill_with(&mut byte);
            let list = &bytes[..length];
            let nak = Psn::new(0xff_ff00);
            let mut end = nak;
            for gap in read_gap_list(list, nak) {
                assert!(gap.packets > 0 && gap.first.since(end) >= 0, "{list:?}");
                end = gap.end().add(1);
            }
            assert!(read_seen(list, nak).is_none_or(|seen| seen.since(nak) > 0), "{list:?}");
        }
    }
}
