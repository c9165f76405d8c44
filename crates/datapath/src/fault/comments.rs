//! Comments on packets that rules hold: they are written when the packets leave.

use std::collections::VecDeque;

/// Packets whose comments are kept: the newest.
const CAPACITY: usize = 1024;

/// Comments, found again by the number in the tag of their packet.
#[derive(Debug, Default)]
pub(super) struct HeldComments {
    kept: VecDeque<(u32, Vec<String>)>,
    /// The last number that was given, in the upper 24 bits of a tag.
    last: u32,
}

impl HeldComments {
    /// The tag of a packet with this hop limit, and a number if there are comments on it.
    pub(super) fn tag(&mut self, hop_limit: u8, comments: &[String]) -> u32 {
        if comments.is_empty() {
            return hop_limit.into();
        }
        self.last = (self.last + 1) & 0x00ff_ffff;
        self.last = self.last.max(1);
        self.last << 8 | u32::from(hop_limit)
    }

    /// Keeps comments on the packet with that tag.
    pub(super) fn keep(&mut self, tag: u32, comments: Vec<String>) {
        if comments.is_empty() {
            return;
        }
        if self.kept.len() == CAPACITY {
            self.kept.pop_front();
        }
        self.kept.push_back((tag >> 8, comments));
    }

    /// The comments on the packet with that tag.
    pub(super) fn of(&self, tag: u32) -> &[String] {
        let number = tag >> 8;
        let found = self.kept.iter().rev().find(|(kept, _)| number > 0 && *kept == number);
        found.map_or(&[], |(_, comments)| comments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_by_their_packet_and_bounded() {
        let mut held = HeldComments::default();
        assert_eq!((held.tag(63, &[]), held.of(63).len()), (63, 0));
        let comment = |text: &str| vec![text.to_owned()];
        let tags: Vec<u32> = (0..2000)
            .map(|number| {
                let tag = held.tag(63, &comment("x"));
                held.keep(tag, comment(&number.to_string()));
                tag
            })
            .collect();
        assert!(tags.iter().all(|tag| *tag as u8 == 63));
        assert_eq!(held.of(tags[1999]), ["1999"]);
        assert_eq!((held.of(tags[0]).len(), held.kept.len()), (0, CAPACITY));
    }
}
