//! Membership of engines in multicast groups.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A set of engines, a bit for each.
pub(super) type Set = u64;

/// The engines in a set, in order.
pub(super) fn engines(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(next)
    })
}

/// The members of each group.
type Table = HashMap<IpAddr, Set>;

/// The membership, shared by all engines. Locked by joins and leaves.
#[derive(Debug, Default)]
pub(super) struct Membership {
    table: Mutex<Table>,
    /// Number of changes.
    version: AtomicU64,
}

impl Membership {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the engine to the group. For the first member `open` asks the kernel to join.
    pub(super) fn join(
        &self,
        group: IpAddr,
        engine: usize,
        open: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut table = self.table();
        if !table.contains_key(&group) {
            open()?;
        }
        *table.entry(group).or_default() |= 1 << engine;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes the engine from the group. After the last member `close` asks the kernel to leave.
    pub(super) fn leave(
        &self,
        group: IpAddr,
        engine: usize,
        close: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut table = self.table();
        let Some(members) = table.get_mut(&group) else { return Ok(()) };
        *members &= !(1 << engine);
        let last = *members == 0;
        if last {
            table.remove(&group);
        }
        self.version.fetch_add(1, Ordering::Release);
        if last { close() } else { Ok(()) }
    }
}

/// One engine's copy of the membership, so that a packet takes no shared lock.
#[derive(Debug, Default)]
pub(super) struct MembershipCache {
    table: Table,
    version: u64,
}

impl MembershipCache {
    /// The members of a group now.
    pub(super) fn of(&mut self, group: &IpAddr, membership: &Membership) -> Set {
        if membership.version.load(Ordering::Acquire) != self.version {
            let table = membership.table();
            // Counted while the table is locked.
            self.version = membership.version.load(Ordering::Acquire);
            self.table.clone_from(&table);
        }
        self.table.get(group).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_for_the_first_and_told_after_the_last() {
        let (membership, mut members) = (Membership::default(), MembershipCache::default());
        let group = IpAddr::from([239, 1, 2, 3]);
        let asked = AtomicU64::new(0);
        let ask = || {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        membership.join(group, 63, || Err(io::ErrorKind::Other.into())).expect_err("refused");
        assert_eq!(members.of(&group, &membership), 0);
        for engine in [2, 63, 2] {
            membership.join(group, engine, ask).expect("joined");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(engines(members.of(&group, &membership)).collect::<Vec<_>>(), [2, 63]);
        membership.leave(group, 2, ask).expect("left");
        assert_eq!(members.of(&group, &membership), 1 << 63);
        membership.leave(group, 63, ask).expect("left");
        membership.leave(group, 63, ask).expect("left before");
        assert_eq!((asked.load(Ordering::Relaxed), members.of(&group, &membership)), (2, 0));
    }
}
