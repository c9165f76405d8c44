//! What two queue pairs tell each other before they are connected.

use std::fmt;
use std::str::FromStr;

use uroce_device::wire::{Gid, Mtu, Psn, Qpn};

use crate::error::BadText;

/// One end of a connection: what a peer must know to connect to it. [`QueuePair::endpoint`](crate::QueuePair::endpoint)
/// gives that of this side; send it to the peer as text, as bytes, or with the feature `serde`.
///
/// ```
/// # use uroce_verbs::{Endpoint, Gid, Mtu, Psn, Qpn};
/// let gid = Gid::from_ip([10, 0, 0, 1].into());
/// let ours = Endpoint { mtu: Some(Mtu::M1024), ..Endpoint::new(gid, Qpn::new(17), Psn::new(0x1a2b)) };
/// assert_eq!(ours.to_string(), "GID ::ffff:10.0.0.1 QPN 0x000011 PSN 0x001a2b MTU 1024");
/// assert_eq!(ours.to_string().parse(), Ok(ours));
/// assert_eq!(Endpoint::from_bytes(&ours.to_bytes()), Ok(ours));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// GID of the device: its address.
    pub gid: Gid,
    /// Number of the queue pair.
    pub qpn: Qpn,
    /// First PSN that the queue pair sends; random, so that packets of an older connection, or of
    /// an attacker, do not fit (A9).
    pub psn: Psn,
    /// Active MTU of the port of this end, `None` if not known: a connection takes the smaller one of both ends.
    pub mtu: Option<Mtu>,
}

const EXPECTED: &str =
    "an endpoint, such as \"GID ::ffff:10.0.0.1 QPN 0x000011 PSN 0x001a2b MTU 1024\"";

impl Endpoint {
    /// Bytes of the binary form.
    pub const LEN: usize = 24;

    /// An end from its parts, as a peer reported them; its MTU is not known.
    pub fn new(gid: Gid, qpn: Qpn, psn: Psn) -> Self {
        Endpoint { gid, qpn, psn, mtu: None }
    }

    /// The binary form: the GID, the QPN and the PSN in four bytes each, big endian. The first byte of the QPN is
    /// the code of the MTU, 0 if that is not known; the first byte of the PSN is 0.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..16].copy_from_slice(self.gid.bytes());
        bytes[16..20].copy_from_slice(&self.qpn.get().to_be_bytes());
        bytes[16] = self.mtu.map_or(0, Mtu::code);
        bytes[20..].copy_from_slice(&self.psn.get().to_be_bytes());
        bytes
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// [`BadText`]: these bytes are not the binary form of an endpoint.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Result<Self, BadText> {
        let bad = || BadText::new("the binary form of an endpoint", &format!("{bytes:02x?}"));
        let (gid, numbers) = bytes.split_at(16);
        let gid: [u8; 16] = gid.try_into().map_err(|_| bad())?;
        let &[code, q1, q2, q3, zero, p1, p2, p3] = numbers else { return Err(bad()) };
        let mtu = Mtu::from_code(code);
        if zero != 0 || (code != 0 && mtu.is_none()) {
            return Err(bad());
        }
        let number = |a, b, c| u32::from_be_bytes([0, a, b, c]);
        let (qpn, psn) = (Qpn::new(number(q1, q2, q3)), Psn::new(number(p1, p2, p3)));
        Ok(Endpoint { gid: Gid::new(gid), qpn, psn, mtu })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GID {} QPN {} PSN {:#08x}", self.gid, self.qpn, self.psn.get())?;
        self.mtu.map_or(Ok(()), |mtu| write!(f, " MTU {mtu}"))
    }
}

impl FromStr for Endpoint {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        parse(text).ok_or_else(|| BadText::new(EXPECTED, text))
    }
}

fn parse(text: &str) -> Option<Endpoint> {
    let words: Vec<&str> = text.split_whitespace().take(9).collect();
    let (gid, qpn, psn, mtu) = match words[..] {
        ["GID", gid, "QPN", qpn, "PSN", psn] => (gid, qpn, psn, None),
        ["GID", gid, "QPN", qpn, "PSN", psn, "MTU", mtu] => {
            (gid, qpn, psn, Some(Mtu::from_bytes(mtu.parse().ok()?)?))
        }
        _ => return None,
    };
    let (qpn, psn) = (Qpn::new(number(qpn)?), Psn::new(number(psn)?));
    Some(Endpoint { gid: gid.parse().ok()?, qpn, psn, mtu })
}

/// 24 bits with `0x` before them.
fn number(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("0x").filter(|digits| !digits.starts_with('+'))?;
    u32::from_str_radix(digits, 16).ok().filter(|number| *number < 1 << 24)
}
