//! The two key types.
#![forbid(unsafe_code)]

use std::fmt;

/// Key by which work requests name memory of their own side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct Lkey(pub u32);

/// Key by which the requests of a peer name memory of this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Rkey(pub u32);

impl Rkey {
    /// The 24 bits that belong to the NIC.
    pub fn index(self) -> u32 {
        self.0 >> 8
    }

    /// The 8 bits that belong to the owner of a type 2 window.
    pub fn variant(self) -> u8 {
        self.0 as u8
    }

    /// The same index with another variant; what `ibv_inc_rkey` does with `variant() + 1`.
    pub fn with_variant(self, variant: u8) -> Rkey {
        Rkey(self.0 & !0xff | u32::from(variant))
    }
}

impl fmt::Display for Lkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Display for Rkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_variant_make_the_key() {
        let key = Rkey(0x1234_56ff);
        assert_eq!((key.index(), key.variant()), (0x12_3456, 0xff));
        assert_eq!(key.with_variant(key.variant().wrapping_add(1)), Rkey(0x1234_5600));
    }
}
