//! Options at the end of a block.

use crate::reader::order::Order;

/// End of the options.
const END: u16 = 0;

/// Options, one after the other. What does not fit into the block ends them.
#[derive(Debug, Clone)]
pub(super) struct Options<'a> {
    order: Order,
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Those in `bytes`, which may go on behind them with less than an option.
    pub(super) const fn new(order: Order, bytes: &'a [u8]) -> Self {
        Self { order, rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    /// Code and value.
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.rest.split_first_chunk::<4>()?;
        let (code, length) = (self.order.u16(head, 0), usize::from(self.order.u16(head, 2)));
        if code == END {
            return None;
        }
        let value = rest.get(..length)?;
        self.rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((code, value))
    }
}
