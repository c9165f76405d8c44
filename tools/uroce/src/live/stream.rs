//! Frames of interfaces, until an end.

use std::time::{Duration, Instant, SystemTime};

use uroce_analyze::Frame;
use uroce_datapath::PcapBlocks;

use super::{Captured, Interfaces, Live};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How soon the end is noticed while nothing passes.
const LOOK: Duration = Duration::from_millis(100);

/// Frames between two looks at the clock.
const FRAMES_AT_A_TIME: u64 = 64;

/// The kernel hands over what it has after so long at the latest.
pub const HAND_OVER: Duration = Duration::from_millis(50);

/// What there is of a capture at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// A frame.
    Frame,
    /// Nothing: it can be waited for.
    Nothing,
    /// No further frame will come.
    End,
}

/// A capture that ends by itself: after a time, a number of frames, or when the user wants it. What passed before the end
/// and is still with the kernel then is a part of it.
#[derive(Debug)]
pub struct Stream {
    live: Live,
    interrupt: Interrupt,
    end: Option<Instant>,
    /// Frames to capture at most.
    most: u64,
    frames: u64,
    ended: Option<CaptureEnd>,
}

/// When a capture ended.
#[derive(Debug, Clone, Copy)]
struct CaptureEnd {
    /// As the kernel stamps frames.
    stamp: Duration,
    at: Instant,
}

impl CaptureEnd {
    fn now() -> Self {
        CaptureEnd { stamp: clock(), at: Instant::now() }
    }

    /// Nothing from before the end will come any more. A clock that was set back since stamps nothing as later, and
    /// would keep a capture from ending.
    fn is_over(self, is_ready: bool, now: CaptureEnd) -> bool {
        let waited = now.at.saturating_duration_since(self.at);
        now.stamp < self.stamp || !is_ready && waited > HAND_OVER
    }
}

impl Stream {
    /// Ends after `time` and after `most` frames, if there are such limits, and when the user interrupts.
    pub fn new(
        live: Live,
        interrupt: Interrupt,
        time: Option<Duration>,
        most: Option<u64>,
    ) -> Self {
        let end = time.and_then(|time| Instant::now().checked_add(time));
        Stream { live, interrupt, end, most: most.unwrap_or(u64::MAX), frames: 0, ended: None }
    }

    /// What there is at the moment.
    pub fn now(&mut self) -> Now {
        if self.frames >= self.most {
            return Now::End;
        }
        let is_ready = self.live.is_ready();
        if self.ended.is_none() && self.is_over(is_ready) {
            self.ended = Some(CaptureEnd::now());
        }
        match (is_ready, self.ended) {
            (_, Some(end)) if end.is_over(is_ready, CaptureEnd::now()) => Now::End,
            (true, _) => Now::Frame,
            (false, _) => Now::Nothing,
        }
    }

    /// The user wants it, or the time is over; while there are frames, the clock is looked at now and then.
    fn is_over(&self, is_ready: bool) -> bool {
        let looks = !is_ready || self.frames.is_multiple_of(FRAMES_AT_A_TIME);
        self.interrupt.is_set() || looks && self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The next frame, if there is one now. An interface that frames had not come from before is described in `blocks`.
    pub fn next_captured(&mut self, blocks: &mut PcapBlocks) -> Option<Captured<'_>> {
        let Self { live, frames, most, ended, .. } = self;
        let captured = live.next_frame(blocks)?;
        *frames += 1;
        if ended.is_some_and(|end| captured.frame.time > end.stamp) {
            // Later ones are none of this capture.
            *most = *frames;
        }
        Some(captured)
    }

    /// The same, numbered as analysis takes it.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        let number = self.frames + 1;
        let captured = self.next_captured(&mut PcapBlocks::default());
        captured.map(|captured| captured.analyzed(number))
    }

    /// Waits until there is a frame or the end, not for long.
    ///
    /// # Errors
    /// Exit 3 if the only interface is gone, or the kernel refuses to wait.
    pub fn wait(&self) -> Result<(), Failure> {
        if self.ended.is_some() {
            return self.live.wait(HAND_OVER);
        }
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        self.live.wait(left.map_or(LOOK, |left| left.min(LOOK)))
    }

    /// Frames so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The interfaces that frames came from so far.
    pub fn interfaces(&self) -> &Interfaces {
        self.live.interfaces()
    }

    /// Packets that the kernel had no room for.
    pub fn dropped(&mut self) -> u64 {
        self.live.counts().dropped
    }
}

/// The time as the kernel stamps frames.
pub fn clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_keeps_no_capture_from_ending() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let end = CaptureEnd { stamp: 100 * second, at: start };
        let over = |stamp, after: Duration, is_ready| {
            end.is_over(is_ready, CaptureEnd { stamp, at: start + after })
        };
        assert!(!over(100 * second, Duration::ZERO, false), "the kernel may have more");
        assert!(over(101 * second, second, false) && !over(101 * second, second, true));
        for is_ready in [false, true] {
            assert!(over(40 * second, Duration::ZERO, is_ready), "set back");
        }
        assert!(!over(900 * second, Duration::ZERO, false), "set forward");
    }
}
