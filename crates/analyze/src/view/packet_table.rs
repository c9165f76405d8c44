//! The packets of a page, column by column.

use super::columns::Columns;
use super::layouts::Layouts;
use super::strings::StringTable;
use crate::Timestamp;

/// The packets of a page.
#[derive(Debug)]
pub(super) struct PacketTable {
    pub(super) columns: Columns,
    /// Bytes of all packets, one behind the other.
    pub(super) bytes: Vec<u8>,
    pub(super) strings: StringTable,
    pub(super) layouts: Layouts,
    /// When the earliest one was seen.
    pub(super) start: Option<Timestamp>,
    /// Packets that found no room.
    pub(super) left_out: u64,
}

impl PacketTable {
    pub(super) fn new() -> Self {
        Self {
            columns: Columns::new(),
            bytes: Vec::new(),
            strings: StringTable::new(),
            layouts: Layouts::new(),
            start: None,
            left_out: 0,
        }
    }

    /// Packets there are.
    pub(super) fn len(&self) -> usize {
        self.columns.frame.len()
    }
}
