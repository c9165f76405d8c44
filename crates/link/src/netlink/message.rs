//! Parts of messages: the fixed part, which is a struct of linux/rtnetlink.h and its neighbours, and attributes.

use netlink_packet_core::{Emitable, Nla};

/// Bytes of `struct ifinfomsg`.
pub(crate) const LINK: usize = 16;
/// Bytes of `struct ifaddrmsg`.
pub(super) const ADDRESS: usize = 8;
/// Bytes of `struct rtmsg`.
pub(super) const ROUTE: usize = 12;
/// Bytes of `struct ndmsg`.
pub(super) const NEIGHBOUR: usize = 12;

/// Where `struct ifinfomsg` has the type of the hardware, the index and the flags.
pub(super) const LINK_TYPE: usize = 2;
pub(super) const LINK_INDEX: usize = 4;
pub(super) const LINK_FLAGS: usize = 8;
/// Where `struct ifaddrmsg` has the index of the interface.
pub(super) const ADDRESS_INDEX: usize = 4;
/// Where `struct rtmsg` has the type of the route.
pub(super) const ROUTE_TYPE: usize = 7;
/// Where `struct ndmsg` has the index of the interface and the state.
const NEIGHBOUR_INDEX: usize = 4;
pub(super) const NEIGHBOUR_STATE: usize = 8;

/// The fixed part of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedPart<const BYTES: usize>(pub(crate) [u8; BYTES]);

impl FixedPart<LINK> {
    /// The interface with that index; 0: whichever the attributes say.
    pub(crate) fn of_link(index: u32) -> Self {
        let mut bytes = [0; LINK];
        bytes[LINK_INDEX..][..4].copy_from_slice(&index.to_ne_bytes());
        Self(bytes)
    }
}

impl FixedPart<ROUTE> {
    /// A route between two addresses of a family.
    pub(super) fn of_route(family: u8, bits: u8) -> Self {
        let mut bytes = [0; ROUTE];
        bytes[..3].copy_from_slice(&[family, bits, bits]);
        Self(bytes)
    }
}

impl FixedPart<NEIGHBOUR> {
    /// A neighbour on the interface with that index.
    pub(super) fn of_neighbour(family: u8, index: u32) -> Self {
        let mut bytes = [0; NEIGHBOUR];
        bytes[0] = family;
        bytes[NEIGHBOUR_INDEX..][..4].copy_from_slice(&index.to_ne_bytes());
        Self(bytes)
    }
}

impl<const BYTES: usize> Emitable for FixedPart<BYTES> {
    fn buffer_len(&self) -> usize {
        BYTES
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.0);
    }
}

/// An attribute of a request; its value is borrowed, so that a question on the way of a packet allocates nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BorrowedAttribute<'a> {
    kind: u16,
    value: &'a [u8],
}

impl<'a> BorrowedAttribute<'a> {
    pub(crate) fn new(kind: u16, value: &'a [u8]) -> Self {
        Self { kind, value }
    }
}

impl Nla for BorrowedAttribute<'_> {
    fn value_len(&self) -> usize {
        self.value.len()
    }

    fn kind(&self) -> u16 {
        self.kind
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(self.value);
    }
}

/// 16 bits at `offset`.
pub(super) fn short(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// 32 bits at `offset`.
pub(super) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
