//! Columns of numbers, one number for each packet, as a page carries them.

use serde::Serialize;

/// How a column's numbers are stored; all are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Width {
    /// 1 byte.
    U8,
    /// 2 bytes.
    U16,
    /// 4 bytes.
    U32,
}

impl Width {
    const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 => 4,
        }
    }

    const fn max(self) -> u64 {
        (1 << (8 * self.bytes())) - 1
    }
}

/// One column.
#[derive(Debug)]
pub(super) struct Column {
    name: &'static str,
    width: Width,
    bytes: Vec<u8>,
}

/// Where a column lies among the bytes of all columns.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ColumnEntry {
    name: &'static str,
    width: Width,
    /// Offset of its first byte, a multiple of 4.
    at: usize,
    /// How many numbers it has.
    count: usize,
}

impl Column {
    /// An empty column.
    pub(super) const fn new(name: &'static str, width: Width) -> Self {
        Self { name, width, bytes: Vec::new() }
    }

    /// Adds a number; one that does not fit is stored as the largest that does.
    pub(super) fn push(&mut self, number: u64) {
        let number = number.min(self.width.max());
        self.bytes.extend_from_slice(&number.to_le_bytes()[..self.width.bytes()]);
    }

    /// The number of packet `row`.
    pub(super) fn get(&self, row: usize) -> Option<u64> {
        let size = self.width.bytes();
        let bytes = self.bytes.get(row * size..(row + 1) * size)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// How many numbers it has.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / self.width.bytes()
    }
}

/// The columns one behind the other, and where each begins.
pub(super) fn join<'a>(columns: impl Iterator<Item = &'a Column>) -> (Vec<ColumnEntry>, Vec<u8>) {
    let (mut entries, mut bytes) = (Vec::new(), Vec::new());
    for column in columns {
        let (name, width, at, count) = (column.name, column.width, bytes.len(), column.len());
        entries.push(ColumnEntry { name, width, at, count });
        bytes.extend_from_slice(&column.bytes);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    (entries, bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_begin_where_typed_arrays_may() {
        let mut columns = [Column::new("a", Width::U8), Column::new("b", Width::U32)];
        columns[0].push(7);
        columns[1].push(0x0102_0304);
        let (entries, bytes) = join(columns.iter());
        assert_eq!(bytes, [7, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!((entries[1].at, entries[1].count), (4, 1));
        let text = serde_json::to_string(&entries[0]).expect("plain data");
        assert_eq!(text, r#"{"name":"a","width":"u8","at":0,"count":1}"#);
    }

    proptest! {
        #[test]
        fn a_number_comes_back_or_is_the_largest(numbers: Vec<u64>) {
            for width in [Width::U8, Width::U16, Width::U32] {
                let mut column = Column::new("x", width);
                numbers.iter().for_each(|number| column.push(*number));
                prop_assert_eq!(column.len(), numbers.len());
                for (row, number) in numbers.iter().enumerate() {
                    prop_assert_eq!(column.get(row), Some((*number).min(width.max())));
                }
                prop_assert_eq!(column.get(numbers.len()), None);
            }
        }
    }
}
