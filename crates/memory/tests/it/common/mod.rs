//! A table with two protection domains, and small regions with guard bytes around them.

use proptest::prelude::ProptestConfig;
use uroce_memory::{Access, MemLimits, MemTable, Mr, PdId, Region, Requirer};

/// The queue pair of most tests.
pub const QPN: u32 = 17;
/// Every guard byte.
pub const GUARD: u8 = 0xa5;
/// Guard bytes before and after the memory under test.
pub const MARGIN: usize = 4096;

pub const ALL: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND)
    .union(Access::FLUSH_GLOBAL);

pub struct World {
    pub table: MemTable,
    pub pd: PdId,
    pub other_pd: PdId,
}

impl World {
    pub fn new() -> World {
        let mut table = MemTable::new([7; 32], MemLimits::default());
        let (pd, other_pd) = (table.alloc_pd().unwrap(), table.alloc_pd().unwrap());
        World { table, pd, other_pd }
    }

    /// A fresh region of `len` bytes, registered at `iova`.
    pub fn mr(&mut self, len: usize, iova: u64, access: Access) -> Mr {
        let region = Region::alloc(len).unwrap();
        self.table.reg_mr(self.pd, region, iova, access).unwrap()
    }

    pub fn by(&self) -> Requirer {
        Requirer { pd: self.pd, qpn: QPN }
    }
}

/// Memory with guard bytes on both sides: the middle is a region of its own.
pub struct Guarded {
    words: *mut [u64],
    whole: Region,
    pub region: Region,
}

impl Guarded {
    pub fn new(len: usize) -> Guarded {
        let total = (len + 2 * MARGIN).next_multiple_of(8);
        let words = Box::into_raw(vec![0u64; total / 8].into_boxed_slice());
        let start = words.cast::<u8>();
        // SAFETY: the box lives as long as `self`, and nobody uses it but through the regions.
        let whole = unsafe { Region::from_raw(start, len + 2 * MARGIN) };
        // SAFETY: as above; the middle lies inside.
        let region = unsafe { Region::from_raw(start.add(MARGIN), len) };
        whole.fill(0, len + 2 * MARGIN, GUARD).unwrap();
        region.fill(0, len, 0).unwrap();
        Guarded { words, whole, region }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.region.len()];
        self.region.read(0, &mut out).unwrap();
        out
    }

    pub fn assert_guards(&self) {
        let mut margin = vec![0; MARGIN];
        for offset in [0, self.whole.len() - MARGIN] {
            self.whole.read(offset, &mut margin).unwrap();
            assert!(margin.iter().all(|&byte| byte == GUARD), "a guard byte was changed");
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: it came from `Box::into_raw`; a table that outlives it does not copy any more.
        drop(unsafe { Box::from_raw(self.words) });
    }
}

/// How to run a property test; shorter under Miri, and without files, which it does not have.
pub fn config(cases: u32) -> ProptestConfig {
    let full = ProptestConfig::with_cases(cases);
    if cfg!(miri) { ProptestConfig { cases: 8, failure_persistence: None, ..full } } else { full }
}
