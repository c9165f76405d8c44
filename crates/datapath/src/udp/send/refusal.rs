//! What it means when the kernel refuses a packet.

use std::fmt;
use std::net::IpAddr;

use rustix::io::Errno;

/// The latest reason why a packet could not be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Problem {
    pub(super) dst: IpAddr,
    pub(super) len: usize,
    pub(super) errno: Errno,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dst, len, errno } = self;
        match *errno {
            Errno::MSGSIZE => write!(
                f,
                "a packet of {len} bytes to {dst} is larger than the MTU of the path: lower the \
                 path MTU of the queue pair or raise the MTU of the interfaces on the way"
            ),
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN => write!(
                f,
                "there is no route to {dst}: check `ip route get {dst}` and that the interface is up"
            ),
            Errno::PERM | Errno::ACCESS => write!(
                f,
                "a packet to {dst} was refused by this host: let its firewall pass outgoing UDP \
                 from ports 49152 to 65535"
            ),
            other => write!(f, "the kernel refused a packet of {len} bytes to {dst}: {other}"),
        }
    }
}

/// What to do after the kernel refused the first of some packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It takes no more for now.
    Wait,
    /// The refusal had nothing to do with the packet.
    Again,
    /// An ICMP message about an earlier packet was waiting.
    Soft,
    /// It will never take this packet.
    Drop,
    /// The socket is unusable.
    Broken,
}

impl Verdict {
    pub(super) fn of(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => Self::Wait,
            Errno::INTR => Self::Again,
            Errno::CONNREFUSED | Errno::NOPROTOOPT | Errno::HOSTDOWN | Errno::PROTO => Self::Soft,
            Errno::BADF | Errno::NOTSOCK | Errno::FAULT => Self::Broken,
            _ => Self::Drop,
        }
    }
}
