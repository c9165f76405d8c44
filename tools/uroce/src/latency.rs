//! Times of single operations, and what is told about them.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies of one message size.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// 2 where a sample is a round trip and half of it is reported.
    divisor: f64,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
    samples: Option<Vec<u64>>,
}

/// Longest time the histogram can hold: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Latencies {
    /// Empty. With `halve` a sample is a round trip and half of it is reported, as perftest does for
    /// SEND and WRITE. With `keep` every sample is kept in its order.
    pub fn new(halve: bool, keep: bool) -> Self {
        Latencies {
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("the bounds and the precision are constants that it accepts"),
            divisor: if halve { 2.0 } else { 1.0 },
            sum: 0.0,
            squares: 0.0,
            min: u64::MAX,
            max: 0,
            samples: keep.then(Vec::new),
        }
    }

    /// Adds one measured time.
    pub fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(LONGEST_NS).clamp(1, LONGEST_NS);
        self.histogram.saturating_record(ns);
        self.sum += ns as f64;
        self.squares += (ns as f64) * (ns as f64);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        if let Some(samples) = &mut self.samples {
            samples.push(ns);
        }
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    fn us(&self, ns: f64) -> f64 {
        ns / 1000.0 / self.divisor
    }

    /// The smallest, in microseconds.
    pub fn min(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.us(self.min as f64) }
    }

    /// The largest, in microseconds.
    pub fn max(&self) -> f64 {
        self.us(self.max as f64)
    }

    /// The mean, in microseconds.
    pub fn average(&self) -> f64 {
        self.us(self.sum / (self.count().max(1)) as f64)
    }

    /// The standard deviation, in microseconds.
    pub fn deviation(&self) -> f64 {
        let n = self.count().max(1) as f64;
        let mean = self.sum / n;
        self.us((self.squares / n - mean * mean).max(0.0).sqrt())
    }

    /// A percentile in microseconds, exact to 0.1 %; 50 is what perftest calls typical.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        let ns = self.histogram.value_at_percentile(percent).clamp(self.min, self.max);
        self.us(ns as f64)
    }

    /// Every sample in microseconds, in the order of measurement, if they were kept.
    pub fn samples(&self) -> Option<Vec<f64>> {
        let samples = self.samples.as_ref()?;
        Some(samples.iter().map(|&ns| self.us(ns as f64)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(halve: bool) -> Latencies {
        let mut latencies = Latencies::new(halve, true);
        for us in 1..=1000 {
            latencies.add(Duration::from_micros(us));
        }
        latencies
    }

    #[test]
    fn figures_of_known_samples() {
        let all = filled(false);
        assert_eq!((all.count(), all.min(), all.max()), (1000, 1.0, 1000.0));
        assert!((all.average() - 500.5).abs() < 0.01);
        assert!((all.deviation() - 288.67).abs() < 0.1);
        assert!((all.percentile(50.0) - 500.0).abs() < 1.0);
        assert!((all.percentile(99.9) - 999.0).abs() < 1.1);
    }

    #[test]
    fn half_of_a_round_trip() {
        let all = filled(true);
        assert_eq!((all.min(), all.max()), (0.5, 500.0));
        assert_eq!(all.samples().map(|samples| samples[1]), Some(1.0));
    }

    #[test]
    fn nothing_measured_is_all_zero() {
        let none = Latencies::new(false, false);
        assert_eq!((none.min(), none.max(), none.average()), (0.0, 0.0, 0.0));
        assert_eq!((none.deviation(), none.percentile(99.0)), (0.0, 0.0));
        assert_eq!(none.samples(), None);
    }
}
