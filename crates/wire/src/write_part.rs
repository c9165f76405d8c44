//! How a responder learns that several WRITEs are one work request (docs/adr/036-split-writes.md).

/// The second of the reserved bits beside AckReq. In a WRITE ONLY: the WRITE behind it goes on with the same work request. Only who
/// counts work requests of the peer looks at it; receivers ignore reserved bits (C9-6).
pub const MORE_PARTS: u8 = 0x20;
