//! Access rights of a registration.
#![forbid(unsafe_code)]

use bitflags::bitflags;

bitflags! {
    /// What a memory region or window may be used for; the values are those of
    /// `enum ibv_access_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Access: u32 {
        /// The NIC may write for its own side: receives, READ data, results of atomics.
        const LOCAL_WRITE = 1;
        /// A peer may WRITE.
        const REMOTE_WRITE = 1 << 1;
        /// A peer may READ.
        const REMOTE_READ = 1 << 2;
        /// A peer may do atomics.
        const REMOTE_ATOMIC = 1 << 3;
        /// Windows may be bound to the region.
        const MW_BIND = 1 << 4;
        /// Remote addresses count from 0 instead of a virtual address.
        const ZERO_BASED = 1 << 5;
        /// Pages may be absent at registration; here every region is so.
        const ON_DEMAND = 1 << 6;
        /// The memory lies in huge pages; a hint without effect here.
        const HUGETLB = 1 << 7;
        /// A peer may FLUSH to global visibility.
        const FLUSH_GLOBAL = 1 << 8;
        /// A peer may FLUSH to persistence. Of queue pairs only: no region is registered with it, because
        /// this device cannot promise that data survive a power failure.
        const FLUSH_PERSISTENT = 1 << 9;
        /// Writes may be reordered; a hint without effect here.
        const RELAXED_ORDERING = 1 << 20;
    }
}

/// The bits that a provider may ignore when it does not know them (`IBV_ACCESS_OPTIONAL_RANGE`).
const OPTIONAL: u32 = 0x3ff0_0000;

impl Access {
    /// The rights that change memory on behalf of a peer.
    pub const REMOTE_CHANGE: Access = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);

    /// The rights to change memory.
    pub(crate) const CHANGE: Access = Access::REMOTE_CHANGE.union(Access::LOCAL_WRITE);

    /// The rights that a peer can use.
    pub const REMOTE: Access =
        Access::REMOTE_CHANGE.union(Access::REMOTE_READ).union(Access::FLUSH_GLOBAL);

    /// Drops unknown bits of the optional range; `None` if any other unknown bit is set.
    pub(crate) fn sanitised(self) -> Option<Access> {
        Access::from_bits(self.bits() & (Access::all().bits() | !OPTIONAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_optional_bits_are_ignored_and_others_refused() {
        let optional = Access::from_bits_retain(1 | 1 << 25);
        assert_eq!(optional.sanitised(), Some(Access::LOCAL_WRITE));
        assert_eq!(Access::from_bits_retain(1 << 12).sanitised(), None);
        assert_eq!(Access::from_bits_retain(1 << 31).sanitised(), None);
        assert_eq!(Access::all().sanitised(), Some(Access::all()));
    }
}
