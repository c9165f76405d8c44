//! A frame as a capture file or an interface gives it.

use crate::Timestamp;

/// What the first byte of a frame is; the names and numbers are libpcap's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkType {
    /// LINKTYPE_NULL (0): the address family of the sender, in its byte order.
    Null,
    /// LINKTYPE_ETHERNET (1).
    Ethernet,
    /// LINKTYPE_RAW (101), LINKTYPE_IPV4 (228) and LINKTYPE_IPV6 (229): an IP header.
    RawIp,
    /// LINKTYPE_LOOP (108): the address family in network byte order.
    Loop,
    /// LINKTYPE_LINUX_SLL (113): a "cooked" frame of `tcpdump -i any`.
    LinuxSll,
    /// LINKTYPE_LINUX_SLL2 (276): the newer form of it.
    LinuxSll2,
    /// LINKTYPE_INFINIBAND (247): a local route header.
    Infiniband,
    /// LINKTYPE_ERF (197): an ERF record.
    Erf,
    /// Another one.
    Other(u32),
}

impl LinkType {
    /// The type with libpcap's `number`.
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            108 => Self::Loop,
            113 => Self::LinuxSll,
            197 => Self::Erf,
            247 => Self::Infiniband,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }
}

/// Which way a frame went at the interface that captured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It arrived.
    Inbound,
    /// It left.
    Outbound,
}

/// One captured frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Its number in the capture; the first frame is 1, as in Wireshark.
    pub number: u64,
    /// Number of its interface in the capture; the first one is 0.
    pub interface: u32,
    /// When it was captured.
    pub time: Timestamp,
    /// What `data` begins with.
    pub link_type: LinkType,
    /// Which way it went, if the capture tells.
    pub direction: Option<Direction>,
    /// Length on the wire; more than `data` has if a snap length cut it.
    pub original_len: u32,
    /// The bytes that were captured.
    pub data: &'a [u8],
    /// Comment of the capture file on this frame; empty if there is none.
    pub comment: &'a str,
}

impl Frame<'_> {
    /// A snap length cut bytes off its end.
    pub fn is_cut(&self) -> bool {
        self.data.len() < self.original_len as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_types_have_libpcaps_numbers() {
        assert_eq!(LinkType::from_number(1), LinkType::Ethernet);
        assert_eq!(LinkType::from_number(276), LinkType::LinuxSll2);
        assert_eq!(LinkType::from_number(9999), LinkType::Other(9999));
    }
}
