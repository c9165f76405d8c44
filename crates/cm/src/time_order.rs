//! Exchanges by a time of theirs.

use std::collections::BTreeSet;

use crate::CommId;
use crate::time::Time;

/// The exchanges that have a time of one kind: a deadline, or since when they are something.
#[derive(Debug, Default)]
pub(crate) struct TimeOrder(BTreeSet<(Time, CommId)>);

impl TimeOrder {
    /// The time of exchange `id` is `now` instead of `place`.
    pub(crate) fn settle(&mut self, place: &mut Option<Time>, id: CommId, now: Option<Time>) {
        if *place == now {
            return;
        }
        place.map(|at| self.0.remove(&(at, id)));
        now.map(|at| self.0.insert((at, id)));
        *place = now;
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The earliest.
    pub(crate) fn first(&self) -> Option<(Time, CommId)> {
        self.0.first().copied()
    }

    /// The earliest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Time, CommId)> + '_ {
        self.0.iter().copied()
    }
}
