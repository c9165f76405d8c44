//! Distributions of sizes and times in bounded memory.

const SUB_BITS: u32 = 3;
const SUBS: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize) * SUBS + SUBS;

/// Counts of values in buckets that are an eighth of a power of two wide: every quantile is right
/// within 12.5 %, the smallest and the largest value are exact.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Allocated with the first value.
    buckets: Option<Box<[u64; BUCKETS]>>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

fn bucket_of(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    if bits <= SUB_BITS {
        return value as usize;
    }
    let shift = bits - SUB_BITS - 1;
    (shift as usize + 1) * SUBS + ((value >> shift) as usize & (SUBS - 1))
}

/// The largest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    if bucket < SUBS {
        return bucket as u64;
    }
    let shift = bucket / SUBS - 1;
    let end = ((SUBS + bucket % SUBS + 1) as u128) << shift;
    u64::try_from(end - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Counts `value`.
    pub fn record(&mut self, value: u64) {
        let buckets = self.buckets.get_or_insert_with(|| Box::new([0; BUCKETS]));
        buckets[bucket_of(value)] += 1;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Values counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value; `None` without any.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value; `None` without any.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean; `None` without any value.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(u128::from(self.count)).map(|mean| mean as u64)
    }

    /// A value that `share` (0 to 1) of all values do not exceed; `None` without any value.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let buckets = self.buckets.as_ref()?;
        let wanted = ((self.count as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(end_of(bucket).clamp(self.min, self.max))
    }

    /// Buckets that are not empty: smallest value, largest value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let all = self.buckets.iter().flat_map(|buckets| buckets.iter().enumerate());
        all.filter(|(_, count)| **count > 0).map(|(bucket, count)| {
            let start = bucket.checked_sub(1).map_or(0, |before| end_of(before) + 1);
            (start, end_of(bucket), *count)
        })
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.buckets else {
            return;
        };
        let ours = self.buckets.get_or_insert_with(|| Box::new([0; BUCKETS]));
        ours.iter_mut().zip(theirs.iter()).for_each(|(our, their)| *our += their);
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_histogram_knows_nothing() {
        let empty = Histogram::default();
        assert_eq!((empty.count(), empty.quantile(0.5), empty.mean()), (0, None, None));
        assert_eq!(empty.buckets().count(), 0);
    }

    #[test]
    fn buckets_meet_without_a_gap_over_all_numbers() {
        for bucket in 1..BUCKETS {
            assert_eq!(bucket_of(end_of(bucket - 1) + 1), bucket, "bucket {bucket}");
            assert_eq!(bucket_of(end_of(bucket)), bucket);
        }
        assert_eq!(end_of(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn merging_is_counting_into_one() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        other.record(7);
        other.record(900);
        one.merge(&other);
        one.record(3);
        assert_eq!(
            (one.count(), one.min(), one.max(), one.mean()),
            (3, Some(3), Some(900), Some(303))
        );
        assert_eq!(one.buckets().map(|(_, _, count)| count).sum::<u64>(), 3);
    }

    proptest! {
        #[test]
        fn quantiles_are_right_within_an_eighth(mut values in prop::collection::vec(any::<u64>(), 1..200), share in 0.0..=1.0f64) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.record(*value));
            values.sort_unstable();
            let rank = ((values.len() as f64 * share).ceil() as usize).max(1) - 1;
            let (exact, found) = (values[rank], histogram.quantile(share).unwrap());
            prop_assert!(found >= exact && found - exact <= exact / 8 + 1, "{found} for {exact}");
        }
    }
}
