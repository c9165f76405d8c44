//! Bandwidth from the times at which messages were posted and completed.

use std::time::{Duration, Instant};

/// MiB: what perftest calls MB.
const MIB: f64 = 1_048_576.0;
/// Up to so many messages every span is looked at; beyond, spans of powers of two.
const ALL_SPANS: usize = 2048;
/// Most messages of which the times are kept.
const KEPT: usize = 1 << 20;

/// When each message was posted, and when it was known to be complete.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Only the first and the last moment are of interest.
    brief: bool,
    posted: Vec<Instant>,
    completed: Vec<(usize, Instant)>,
    last: Option<Instant>,
    count: u64,
    done: u64,
}

/// Which spans of a run the peak is looked for in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peak {
    /// None: the peak is given as 0.
    None,
    /// From any post to any later completion.
    Any,
}

/// What was measured of one message size.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bandwidth {
    /// Bytes of a message.
    pub size: u64,
    /// Messages that completed.
    pub iterations: u64,
    /// Best rate of any span of messages, MiB/s; 0 if not looked for.
    pub peak: f64,
    /// Average, MiB/s.
    pub average: f64,
    /// Million messages per second.
    pub rate: f64,
}

impl Times {
    /// For runs whose peak is not looked for: the memory of every moment would take time itself.
    pub fn brief() -> Self {
        Times { brief: true, ..Times::default() }
    }

    /// Notes that a message is posted now.
    pub fn posted(&mut self, now: Instant) {
        self.count += 1;
        let kept = if self.brief { 1 } else { KEPT };
        if self.posted.len() < kept {
            self.posted.push(now);
        }
    }

    /// Notes that `more` messages are complete.
    pub fn completed(&mut self, more: u64, now: Instant) {
        self.done += more;
        self.last = Some(now);
        if !self.brief && self.done as usize <= self.posted.len() {
            self.completed.push((self.done as usize, now));
        }
    }

    /// Adds what another thread has measured at the same time. Both are brief.
    pub fn add(&mut self, other: &Times) {
        self.posted = self
            .posted
            .first()
            .into_iter()
            .chain(&other.posted)
            .min()
            .copied()
            .into_iter()
            .collect();
        self.last = self.last.max(other.last);
        self.count += other.count;
        self.done += other.done;
    }

    /// Messages posted so far.
    pub fn posts(&self) -> u64 {
        self.count
    }

    /// Messages completed so far.
    pub fn completions(&self) -> u64 {
        self.done
    }

    /// From the first post to the last completion.
    pub fn elapsed(&self) -> Duration {
        match (self.posted.first(), self.last) {
            (Some(first), Some(last)) => last.saturating_duration_since(*first),
            _ => Duration::ZERO,
        }
    }

    /// The figures, for messages of `size` bytes. `peak`: where to look for the best span.
    pub fn bandwidth(&self, size: u64, peak: Peak) -> Bandwidth {
        let seconds = self.elapsed().as_secs_f64();
        let per_second = if seconds > 0.0 { self.done as f64 / seconds } else { 0.0 };
        let best = match peak {
            Peak::None => 0.0,
            Peak::Any => self.best_rate().max(per_second),
        };
        Bandwidth {
            size,
            iterations: self.done,
            peak: best * size as f64 / MIB,
            average: per_second * size as f64 / MIB,
            rate: per_second / 1e6,
        }
    }

    /// Most messages per second in any looked-at span from a post to a completion.
    fn best_rate(&self) -> f64 {
        let mut best = 0.0_f64;
        for (index, &(done, at)) in self.completed.iter().enumerate() {
            for length in spans(done, index) {
                let Some(&from) = done.checked_sub(length).and_then(|i| self.posted.get(i)) else {
                    continue;
                };
                let seconds = at.saturating_duration_since(from).as_secs_f64();
                if seconds > 0.0 {
                    best = best.max(length as f64 / seconds);
                }
            }
        }
        best
    }
}

fn spans(done: usize, index: usize) -> Box<dyn Iterator<Item = usize>> {
    if index < ALL_SPANS && done <= ALL_SPANS {
        Box::new(1..=done)
    } else {
        Box::new((0..usize::BITS).map(|shift| 1 << shift).take_while(move |&n| n <= done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_and_peak_of_known_times() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut times = Times::default();
        for _ in 0..4 {
            times.posted(at(0));
        }
        times.completed(1, at(100));
        times.completed(3, at(200));
        let measured = times.bandwidth(1 << 20, Peak::Any);
        assert_eq!(measured.iterations, 4);
        assert!((measured.average - 20.0).abs() < 1e-6, "{measured:?}");
        assert!((measured.peak - 20.0).abs() < 1e-6, "{measured:?}");
        assert!((measured.rate - 20e-6).abs() < 1e-12);
    }

    #[test]
    fn the_peak_is_a_faster_part_of_the_run() {
        let start = Instant::now();
        let mut times = Times::default();
        for i in 0..10 {
            let gap = if i < 5 { 10 } else { 1 };
            let begin = start + Duration::from_millis(i * 10);
            times.posted(begin);
            times.completed(1, begin + Duration::from_millis(gap));
        }
        let measured = times.bandwidth(1 << 20, Peak::Any);
        assert!((measured.peak - 1000.0).abs() < 1.0, "{measured:?}");
        assert!(measured.average < 120.0);
    }

    #[test]
    fn a_brief_memory_has_the_same_average() {
        let start = Instant::now();
        let mut times = Times::brief();
        for i in 0..10 {
            times.posted(start + Duration::from_millis(i));
        }
        times.completed(10, start + Duration::from_millis(100));
        let measured = times.bandwidth(1 << 20, Peak::None);
        assert!((measured.average - 100.0).abs() < 1e-6, "{measured:?}");
        assert_eq!(times.posted.len() + times.completed.len(), 1);
    }

    #[test]
    fn nothing_measured_is_zero() {
        assert_eq!(Times::default().bandwidth(64, Peak::Any).average, 0.0);
    }
}
