//! The tables that the peer writes to: where its receive buffers are, and the buffers that it has mapped.

use uroce_device::memory::Region;

use crate::protocol::{BUFFERS, Iomap, Remote};
use crate::protocol_error::ProtocolError;

/// Entries for receive buffers, and behind them those for mapped buffers.
#[derive(Debug)]
pub(crate) struct CreditTable {
    memory: Region,
    iomaps: usize,
}

impl CreditTable {
    /// Bytes for this number of mapped buffers.
    pub fn size(iomaps: u32) -> usize {
        BUFFERS * Remote::LEN + iomaps as usize * Iomap::LEN
    }

    pub fn new(memory: Region, iomaps: u32) -> CreditTable {
        CreditTable { memory, iomaps: iomaps as usize }
    }

    /// Takes an entry out of the first table; its length is 0 if the peer has written none.
    ///
    /// # Errors
    /// The peer wrote what cannot be.
    pub fn take(&self, index: usize) -> Result<Remote, ProtocolError> {
        let (at, mut entry) = ((index % BUFFERS) * Remote::LEN, [0; Remote::LEN]);
        self.memory.read(at, &mut entry).map_err(|_| ProtocolError)?;
        let found = Remote::parse(&entry).ok_or(ProtocolError)?;
        if found.length > 0 {
            self.memory.fill(at, Remote::LEN, 0).map_err(|_| ProtocolError)?;
        }
        Ok(found)
    }

    /// The mapped buffer that has `offset` in it, and what of it begins there.
    pub fn mapped(&self, offset: u64) -> Option<Remote> {
        (0..self.iomaps).filter_map(|index| self.iomap(index)).find_map(|iomap| {
            let into = u32::try_from(offset.checked_sub(iomap.offset)?).ok()?;
            let length = iomap.buffer.length.checked_sub(into).filter(|length| *length > 0)?;
            let addr = iomap.buffer.addr.checked_add(u64::from(into))?;
            Some(Remote { addr, length, ..iomap.buffer })
        })
    }

    fn iomap(&self, index: usize) -> Option<Iomap> {
        let mut entry = [0; Iomap::LEN];
        let at = BUFFERS * Remote::LEN + index * Iomap::LEN;
        self.memory.read(at, &mut entry).ok()?;
        Iomap::parse(&entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: bool = cfg!(target_endian = "big");

    #[test]
    fn an_entry_is_taken_once() {
        let tables = CreditTable::new(Region::alloc(CreditTable::size(0)).expect("memory"), 0);
        let buffer = Remote { addr: 0x1000, rkey: 5, length: 64 };
        tables.memory.write(Remote::LEN, &buffer.entry(BIG)).expect("inside");
        assert_eq!(tables.take(1), Ok(buffer));
        assert_eq!(tables.take(1).map(|entry| entry.length), Ok(0));
        let beyond = Remote { addr: u64::MAX, rkey: 5, length: 64 };
        tables.memory.write(0, &beyond.entry(BIG)).expect("inside");
        assert_eq!(tables.take(2), Err(ProtocolError));
    }

    #[test]
    fn a_mapped_buffer_is_found_by_offset() {
        let tables = CreditTable::new(Region::alloc(CreditTable::size(2)).expect("memory"), 2);
        let buffer = Remote { addr: 0x1000, rkey: 5, length: 64 };
        let entry = Iomap { offset: 100, buffer }.entry(BIG);
        tables.memory.write(BUFFERS * Remote::LEN + Iomap::LEN, &entry).expect("inside");
        assert_eq!(tables.mapped(110), Some(Remote { addr: 0x100a, rkey: 5, length: 54 }));
        assert_eq!(tables.mapped(99), None);
        assert_eq!(tables.mapped(164), None);
        assert_eq!(tables.mapped(u64::MAX), None);
    }
}
