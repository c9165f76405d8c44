//! Path MTU.

use core::fmt;

/// A path MTU, with the codes of `ibv_mtu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mtu {
    /// 256 bytes.
    M256 = 1,
    /// 512 bytes.
    M512 = 2,
    /// 1024 bytes.
    M1024 = 3,
    /// 2048 bytes.
    M2048 = 4,
    /// 4096 bytes.
    M4096 = 5,
}

/// What headers may take of the link MTU: IPv6, UDP, BTH, the longest extension headers, ICRC.
const HEADROOM: usize = 80;

impl Mtu {
    /// All of them, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::M256, Mtu::M512, Mtu::M1024, Mtu::M2048, Mtu::M4096];

    /// Payload bytes of a full packet.
    #[inline]
    pub const fn bytes(self) -> usize {
        128 << self as usize
    }

    /// The number that stands for it (1 to 5).
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The MTU with this code.
    pub fn from_code(code: u8) -> Option<Mtu> {
        Mtu::ALL.into_iter().find(|mtu| mtu.code() == code)
    }

    /// The MTU with this many bytes.
    pub fn from_bytes(bytes: usize) -> Option<Mtu> {
        Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }

    /// The largest that fits a link MTU, by rxe's rule: at most the link MTU - 80.
    pub fn largest_for_link(link_mtu: usize) -> Option<Mtu> {
        Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() + HEADROOM <= link_mtu)
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_bytes_agree() {
        for (code, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
            let mtu = Mtu::from_code(code).unwrap();
            assert_eq!((mtu.code(), mtu.bytes()), (code, bytes));
            assert_eq!(Mtu::from_bytes(bytes), Some(mtu));
        }
        assert_eq!(
            (Mtu::from_code(0), Mtu::from_code(6), Mtu::from_bytes(1500)),
            (None, None, None)
        );
    }

    #[test]
    fn e13_link_mtu_leaves_room_for_headers() {
        assert_eq!(Mtu::largest_for_link(1500), Some(Mtu::M1024));
        assert_eq!(Mtu::largest_for_link(9000), Some(Mtu::M4096));
        assert_eq!(Mtu::largest_for_link(4176), Some(Mtu::M4096));
        assert_eq!(Mtu::largest_for_link(4175), Some(Mtu::M2048));
        assert_eq!(Mtu::largest_for_link(335), None);
    }
}
