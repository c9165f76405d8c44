//! Frames without a packet.

use uroce_analyze::{Filter, FrameKind, FrameRange};

/// Which frames without a packet are printed. They pass no filter by what is in a packet.
#[derive(Debug)]
pub(super) struct OtherFrames<'a> {
    /// Those in one of these, or in any place if there are none.
    frames: &'a [FrameRange],
    malformed: bool,
    iwarp: bool,
    /// What is neither RoCE nor iWARP.
    rest: bool,
}

impl<'a> OtherFrames<'a> {
    /// Those that pass `filter`, whose ranges of frames are `frames`; `all` if frames of other protocols are asked for.
    pub(super) fn new(filter: &Filter, frames: &'a [FrameRange], all: bool) -> Self {
        let by_place = frames.iter().fold(Filter::default(), |filter, it| filter.with_frames(*it));
        let no_packet_is_asked_for = *filter == by_place;
        Self {
            frames,
            // A malformed one is an error.
            malformed: no_packet_is_asked_for || *filter == by_place.with_only_errors(),
            iwarp: no_packet_is_asked_for,
            rest: no_packet_is_asked_for && all,
        }
    }

    /// What the frame is, if it has no packet and is printed.
    pub(super) fn what(&self, number: u64, kind: FrameKind) -> Option<String> {
        if !self.frames.is_empty() && !self.frames.iter().any(|range| range.contains(number)) {
            return None;
        }
        match kind {
            FrameKind::RoceMalformed(why) if self.malformed => {
                Some(format!("malformed RoCE: {why}"))
            }
            FrameKind::Iwarp(iwarp) if self.iwarp => Some(iwarp.to_string()),
            FrameKind::Other if self.rest => Some("not RoCE".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_printed(filter: Filter, all: bool, number: u64) -> bool {
        let ranges = [FrameRange::new(4, 6), FrameRange::new(9, 9)];
        let filter = ranges.iter().fold(filter, |filter, range| filter.with_frames(*range));
        OtherFrames::new(&filter, &ranges, all).what(number, FrameKind::Other).is_some()
    }

    #[test]
    fn a_frame_is_judged_by_its_place() {
        for (number, inside) in [(3, false), (4, true), (6, true), (7, false), (9, true)] {
            assert_eq!(is_printed(Filter::default(), true, number), inside, "{number}");
        }
        assert!(!is_printed(Filter::default(), false, 5), "only with --all");
    }

    #[test]
    fn what_is_no_packet_passes_no_filter_of_packets() {
        let of_host = Filter::default().with_host([10, 0, 0, 1].into());
        assert!(!is_printed(of_host, true, 5));
        assert!(!is_printed(Filter::default().with_only_errors(), true, 5), "it is no error");
    }
}
