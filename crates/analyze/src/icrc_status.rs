//! What the invariant CRC of a captured packet says.

use std::fmt;

/// Verdict on the ICRC of a packet. Values are as Wireshark shows them: the four bytes at the end
/// of the packet read as a big-endian number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcrcStatus {
    /// Right.
    Right,
    /// Wrong, and no known change of the headers explains it.
    Wrong {
        /// What the packet has.
        found: u32,
        /// What would be right.
        expected: u32,
    },
    /// Right if the UDP source port were this one: something rewrote the port on the way, as port
    /// mirrors do.
    RightWithSourcePort(u16),
    /// Right if the IPv4 identification were this one: the capture was made before or behind the
    /// place that fills it in.
    RightWithIpId(u16),
    /// Not known.
    NotChecked(NotChecked),
}

/// Why an ICRC could not be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotChecked {
    /// A snap length cut the packet.
    Cut,
    /// Segmentation offload: the frame holds several packets, and the identification or the ICRC of
    /// each is made later.
    Offloaded,
    /// The headers in front of the packet are not those that an ICRC covers.
    NoHeaders,
}

impl IcrcStatus {
    /// The packet was not damaged: its ICRC is right, or right but for a header that was rewritten.
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Right | Self::RightWithSourcePort(_) | Self::RightWithIpId(_))
    }
}

/// Looks for a proof that the ICRCs of a flow are right, so that a wrong one is damage.
///
/// One that a rewritten header explains proves nothing alone: of wrong ones, one in 32,768 is explained by chance.
/// Two in a row are a proof.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IcrcProof {
    /// A rewritten header explains the packet before.
    was_rewritten: bool,
}

impl IcrcProof {
    /// The next packet of the flow is the proof.
    pub(crate) fn is_given_by(&mut self, status: IcrcStatus) -> bool {
        let is_rewritten = match status {
            IcrcStatus::Right => return true,
            IcrcStatus::NotChecked(_) => return false,
            IcrcStatus::RightWithSourcePort(_) | IcrcStatus::RightWithIpId(_) => true,
            IcrcStatus::Wrong { .. } => false,
        };
        std::mem::replace(&mut self.was_rewritten, is_rewritten) && is_rewritten
    }
}

impl fmt::Display for IcrcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::Wrong { found, expected } => {
                write!(f, "wrong: {found:#010x}, expected {expected:#010x}")
            }
            Self::RightWithSourcePort(port) => {
                write!(f, "right if the UDP source port were {port}: something rewrote it")
            }
            Self::RightWithIpId(id) => {
                write!(f, "right if the IPv4 identification were {id:#06x}: something rewrote it")
            }
            Self::NotChecked(NotChecked::Cut) => f.write_str("not checked: the packet is cut"),
            Self::NotChecked(NotChecked::Offloaded) => {
                f.write_str("not checked: segmentation offload made this frame of several packets")
            }
            Self::NotChecked(NotChecked::NoHeaders) => {
                f.write_str("not checked: no network header in front of the packet")
            }
        }
    }
}

#[cfg(test)]
mod proof;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewritten_port_is_no_damage() {
        assert!(IcrcStatus::RightWithSourcePort(7).is_good());
        assert!(!IcrcStatus::Wrong { found: 1, expected: 2 }.is_good());
        let wrong = IcrcStatus::Wrong { found: 1, expected: 2 }.to_string();
        assert_eq!(wrong, "wrong: 0x00000001, expected 0x00000002");
    }
}
