//! How a requester learns that a responder answers the parts of a READ in any order (docs/adr/034-parts-of-a-read.md).

/// The highest of the reserved bits beside AckReq. In a READ REQUEST that comes again, the requester asks whether parts of a
/// READ are answered in any order; in the responses, they are. Receivers ignore reserved bits (C9-6), so nobody else
/// sees anything of it.
pub const ANY_PART: u8 = 0x40;
