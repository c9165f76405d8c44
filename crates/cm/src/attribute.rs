//! Which message a MAD holds.

/// The attribute id of a MAD. A newtype, as any 16 bits can come from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attribute(pub u16);

impl Attribute {
    /// Request for a connection.
    pub const REQ: Attribute = Attribute(0x0010);
    /// Message receipt acknowledgement: the answer will take longer.
    pub const MRA: Attribute = Attribute(0x0011);
    /// Refusal.
    pub const REJ: Attribute = Attribute(0x0012);
    /// Reply to a request.
    pub const REP: Attribute = Attribute(0x0013);
    /// Ready to use.
    pub const RTU: Attribute = Attribute(0x0014);
    /// Request for disconnection.
    pub const DREQ: Attribute = Attribute(0x0015);
    /// Reply to a request for disconnection.
    pub const DREP: Attribute = Attribute(0x0016);
    /// Service id resolution request.
    pub const SIDR_REQ: Attribute = Attribute(0x0017);
    /// Service id resolution reply.
    pub const SIDR_REP: Attribute = Attribute(0x0018);
    /// Load alternate path.
    pub const LAP: Attribute = Attribute(0x0019);
    /// Alternate path response.
    pub const APR: Attribute = Attribute(0x001a);
}
