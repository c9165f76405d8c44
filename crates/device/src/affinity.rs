//! Which processor a progress thread runs on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on one of the processors that it may use: the `place`-th, and again from the
/// first when there are fewer. A thread that cannot be kept there works all the same.
pub(crate) fn pin(place: usize) {
    let pinned = sched_getaffinity(None).and_then(|allowed| match nth(&allowed, place) {
        Some(one) => sched_setaffinity(None, &one),
        None => Ok(()),
    });
    if let Err(error) = pinned {
        tracing::debug!(%error, "a progress thread runs on any processor");
    }
}

/// `None`: there is no choice.
fn nth(allowed: &CpuSet, place: usize) -> Option<CpuSet> {
    let processors: Vec<usize> =
        (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor)).collect();
    if processors.len() < 2 {
        return None;
    }
    let mut one = CpuSet::new();
    one.set(processors[place % processors.len()]);
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_round_the_processors_that_are_allowed() {
        let mut allowed = CpuSet::new();
        [3, 5, 8].into_iter().for_each(|processor| allowed.set(processor));
        for (place, processor) in [(0, 3), (1, 5), (2, 8), (3, 3), (7, 5)] {
            let one = nth(&allowed, place).expect("three to choose from");
            assert!(one.is_set(processor) && one.count() == 1, "{place}");
        }
    }

    #[test]
    fn the_only_processor_is_not_chosen() {
        let mut allowed = CpuSet::new();
        allowed.set(2);
        assert!(nth(&allowed, 0).is_none());
    }
}
