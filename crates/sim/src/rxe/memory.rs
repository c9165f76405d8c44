//! Memory that the model reads and writes.

use uroce_device::memory::{Region, Sge};

/// One registered region, which all of a queue pair's requests are about.
#[derive(Clone)]
pub(crate) struct RxeMemory {
    pub(crate) region: Region,
    /// Address of the first byte, as peers name it.
    pub(crate) base: u64,
    /// Its local key, which is its remote key, too.
    pub(crate) key: u32,
}

impl RxeMemory {
    /// Where a range is, if all of it is inside.
    pub(super) fn offset(&self, va: u64, length: usize) -> Option<usize> {
        let offset = usize::try_from(va.checked_sub(self.base)?).ok()?;
        let end = offset.checked_add(length)?;
        (end <= self.region.len()).then_some(offset)
    }

    /// The bytes of a list of ranges, `length` of them from byte `skip` on. `None`: a key is wrong.
    pub(super) fn gather(&self, sges: &[Sge], skip: usize, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        for (offset, part) in self.parts(sges, skip, length)? {
            self.region.read(offset, &mut bytes[filled..filled + part]).ok()?;
            filled += part;
        }
        (filled == length).then_some(bytes)
    }

    /// Writes bytes to a list of ranges, from its byte `skip` on. `None`: a key is wrong, or it has no room.
    pub(super) fn scatter(&self, sges: &[Sge], skip: usize, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        for (offset, part) in self.parts(sges, skip, bytes.len())? {
            let (now, later) = rest.split_at(part);
            self.region.write(offset, now).ok()?;
            rest = later;
        }
        rest.is_empty().then_some(())
    }

    /// Offsets and lengths of what a part of a list covers.
    fn parts(&self, sges: &[Sge], skip: usize, length: usize) -> Option<Vec<(usize, usize)>> {
        let (mut skip, mut left) = (skip, length);
        let mut parts = vec![];
        for sge in sges {
            let own = sge.length as usize;
            let before = skip.min(own);
            skip -= before;
            let part = (own - before).min(left);
            if part == 0 {
                continue;
            }
            if sge.lkey.0 != self.key {
                return None;
            }
            parts.push((self.offset(sge.addr + before as u64, part)?, part));
            left -= part;
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use uroce_device::memory::Lkey;

    use super::*;

    fn memory() -> RxeMemory {
        let region = Region::alloc(64).expect("memory");
        region.write(0, &std::array::from_fn::<u8, 64, _>(|at| at as u8)).expect("inside");
        RxeMemory { region, base: 0x1000, key: 7 }
    }

    fn sge(addr: u64, length: u32, lkey: u32) -> Sge {
        Sge { addr, length, lkey: Lkey(lkey) }
    }

    #[test]
    fn a_part_of_a_list_is_gathered_and_scattered() {
        let memory = memory();
        let list = [sge(0x1000, 3, 7), sge(0x1010, 0, 7), sge(0x1020, 4, 7)];
        assert_eq!(memory.gather(&list, 2, 3), Some(vec![2, 32, 33]));
        assert_eq!(memory.scatter(&list, 2, &[9, 8]), Some(()));
        assert_eq!(memory.gather(&list, 0, 7), Some(vec![0, 1, 9, 8, 33, 34, 35]));
    }

    #[test]
    fn what_is_outside_or_has_another_key_is_refused() {
        let memory = memory();
        assert_eq!(memory.gather(&[sge(0x1000, 3, 8)], 0, 3), None);
        assert_eq!(memory.gather(&[sge(0x1000, 3, 7)], 0, 4), None);
        assert_eq!(memory.scatter(&[sge(0x103f, 2, 7)], 0, &[1, 2]), None);
        assert_eq!(memory.offset(0x1000, 64), Some(0));
        assert_eq!(memory.offset(0x1001, 64), None);
        assert_eq!(memory.offset(0xfff, 1), None);
        assert_eq!(memory.offset(u64::MAX, 8), None);
    }
}
