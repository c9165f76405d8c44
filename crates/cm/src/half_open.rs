//! How many exchanges are begun and not confirmed, per source and in all (A21).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::limits::CmLimits;

/// Counts of half-open exchanges.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen {
    all: usize,
    per_source: BTreeMap<IpAddr, usize>,
}

impl HalfOpen {
    pub(crate) fn add(&mut self, source: IpAddr) {
        self.all += 1;
        *self.per_source.entry(source).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, source: IpAddr) {
        self.all = self.all.saturating_sub(1);
        let Some(count) = self.per_source.get_mut(&source) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.per_source.remove(&source);
        }
    }

    /// The source has not too many by itself.
    pub(crate) fn source_has_room(&self, source: IpAddr, limits: &CmLimits) -> bool {
        let count = self.per_source.get(&source).copied().unwrap_or_default();
        count < limits.max_half_open_per_source
    }

    /// There are not too many in all. The last quarter is for proven sources.
    pub(crate) fn has_room(&self, proven: bool, limits: &CmLimits) -> bool {
        let reserve = if proven { 0 } else { limits.max_half_open / 4 };
        self.all < limits.max_half_open - reserve
    }

    pub(crate) fn count(&self) -> usize {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_quarter_is_kept_for_those_who_are_known() {
        let limits =
            CmLimits { max_half_open: 8, max_half_open_per_source: 2, ..CmLimits::default() };
        let source = |n: u32| IpAddr::V4(Ipv4Addr::from(n));
        let mut open = HalfOpen::default();
        (0..6).for_each(|n| open.add(source(n)));
        assert!(!open.has_room(false, &limits));
        assert!(open.has_room(true, &limits));
        open.add(source(0));
        assert!(!open.source_has_room(source(0), &limits));
        open.add(source(7));
        assert!(!open.has_room(true, &limits));
        (0..6).for_each(|n| open.remove(source(n)));
        open.remove(source(0));
        open.remove(source(7));
        assert_eq!((open.count(), open.per_source.len()), (0, 0));
    }
}
