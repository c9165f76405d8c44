//! The buffers of a program that are mapped for its peer.

use uroce_ibverbs::owned_mr::OwnedMr;

/// A registered buffer of the program.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub mr: OwnedMr,
    pub addr: usize,
    pub length: usize,
    pub offset: u64,
    /// The entry in the peer's table; `None`: the peer does not know of it.
    pub index: Option<u32>,
}

impl Mapping {
    fn is_of(&self, addr: usize, length: usize) -> bool {
        (self.addr, self.length) == (addr, length)
    }
}

/// What a socket has mapped.
#[derive(Debug, Default)]
pub(crate) struct Mapped(Vec<Mapping>);

impl Mapped {
    pub fn add(&mut self, mapping: Mapping) {
        self.0.push(mapping);
    }

    /// An entry of the peer's table that is free.
    pub fn free_index(&self, entries: u32) -> Option<u32> {
        (0..entries).find(|index| !self.0.iter().any(|mapping| mapping.index == Some(*index)))
    }

    pub fn overlaps(&self, offset: u64, length: usize) -> bool {
        let end = offset.saturating_add(length as u64);
        self.0
            .iter()
            .filter(|mapping| mapping.index.is_some())
            .any(|mapping| offset < mapping.offset + mapping.length as u64 && mapping.offset < end)
    }

    /// The mapping with this entry in the peer's table.
    pub fn at(&self, index: u32) -> Option<&Mapping> {
        self.0.iter().find(|mapping| mapping.index == Some(index))
    }

    /// The peer will not hear of it.
    pub fn remove_at(&mut self, index: u32) {
        self.0.retain(|mapping| mapping.index != Some(index));
    }

    /// The first of the mappings of a buffer.
    pub fn of(&self, addr: usize, length: usize) -> Option<&Mapping> {
        self.0.iter().find(|mapping| mapping.is_of(addr, length))
    }

    /// Takes that away.
    pub fn take(&mut self, addr: usize, length: usize) -> Option<Mapping> {
        let at = self.0.iter().position(|mapping| mapping.is_of(addr, length))?;
        Some(self.0.remove(at))
    }

    /// An offset behind all that is mapped.
    pub fn free_offset(&self) -> u64 {
        let ends = self.0.iter().map(|mapping| mapping.offset + mapping.length as u64);
        ends.max().unwrap_or(0)
    }
}
