//! How many exchanges are begun and not confirmed, per source, per service and in all (A21).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::ServiceId;
use crate::limits::CmLimits;

/// Counts of half-open exchanges.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen {
    all: usize,
    per_source: BTreeMap<IpAddr, usize>,
    per_service: BTreeMap<ServiceId, usize>,
}

impl HalfOpen {
    pub(crate) fn add(&mut self, source: IpAddr, service_id: ServiceId) {
        self.all += 1;
        *self.per_source.entry(source).or_default() += 1;
        *self.per_service.entry(service_id).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, source: IpAddr, service_id: ServiceId) {
        self.all = self.all.saturating_sub(1);
        decrement(&mut self.per_source, source);
        decrement(&mut self.per_service, service_id);
    }

    /// There is one for this service.
    pub(crate) fn serves(&self, service_id: ServiceId) -> bool {
        self.per_service.contains_key(&service_id)
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

/// Counts one less; what there is none of has no entry.
fn decrement<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    let Some(count) = counts.get_mut(&key) else { return };
    *count = count.saturating_sub(1);
    if *count == 0 {
        counts.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ONE: ServiceId = ServiceId(1);
    const TWO: ServiceId = ServiceId(2);

    #[test]
    fn a_quarter_is_kept_for_those_who_are_known() {
        let limits =
            CmLimits { max_half_open: 8, max_half_open_per_source: 2, ..CmLimits::default() };
        let source = |n: u32| IpAddr::V4(Ipv4Addr::from(n));
        let mut open = HalfOpen::default();
        (0..6).for_each(|n| open.add(source(n), ONE));
        assert!(!open.has_room(false, &limits));
        assert!(open.has_room(true, &limits));
        open.add(source(0), TWO);
        assert!(!open.source_has_room(source(0), &limits));
        open.add(source(7), ONE);
        assert!(!open.has_room(true, &limits));
        (0..6).for_each(|n| open.remove(source(n), ONE));
        assert!(open.serves(ONE) && open.serves(TWO) && !open.serves(ServiceId(3)));
        open.remove(source(0), TWO);
        open.remove(source(7), ONE);
        assert_eq!((open.count(), open.per_source.len(), open.per_service.len()), (0, 0, 0));
    }
}
