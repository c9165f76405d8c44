//! Enhanced connection establishment: options of a vendor, which the ends agree upon while they connect.

/// What an end supports, or what both use. `vendor_id` 0: nothing. This NIC has no options of its own; it carries those of applications
/// that manage their queue pairs themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ece {
    /// Who defines the options, 24 bits.
    pub vendor_id: u32,
    /// The options.
    pub options: u32,
}

impl Ece {
    /// As far as the fields of a message hold it.
    pub(crate) fn cut(self) -> Ece {
        Ece { vendor_id: self.vendor_id & 0xff_ffff, ..self }
    }
}
