//! What it means when the kernel refuses a packet.

use std::fmt;
use std::net::IpAddr;

use rustix::io::Errno;

/// The latest reason why packets could not be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Problem {
    /// The kernel takes no such packet.
    Refused { dst: IpAddr, len: usize, errno: Errno },
    /// The kernel takes the packets only one by one.
    Offload(Errno),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dst, len, errno) = match self {
            Self::Refused { dst, len, errno } => (dst, len, *errno),
            Self::Offload(errno) => {
                return write!(
                    f,
                    "this kernel or network interface does not segment UDP ({errno}): packets are \
                     sent one by one, which is slower; see `ethtool -k` for tx-udp-segmentation"
                );
            }
        };
        match errno {
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

/// Whether a batch may have been refused because it was to be cut. A firewall or a route that refuses it says nothing
/// about that: it may let the next one pass.
pub(super) fn is_of_offload(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL | Errno::IO | Errno::OPNOTSUPP | Errno::NOPROTOOPT | Errno::MSGSIZE
    )
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

    /// The same of a connected socket. There an ICMP message, which anybody can forge, may leave further errors; the kernel
    /// tells them before it looks at what is to be sent. It counts what is to be sent before it refuses that, but for EAGAIN.
    pub(super) fn of_connected(errno: Errno) -> Self {
        match (Self::of(errno), errno) {
            (verdict @ (Self::Again | Self::Soft), _) => verdict,
            (_, Errno::AGAIN) => Self::Wait,
            (
                _,
                Errno::MSGSIZE
                | Errno::NETUNREACH
                | Errno::HOSTUNREACH
                | Errno::NONET
                | Errno::OPNOTSUPP
                | Errno::ACCESS,
            ) => Self::Soft,
            _ => Self::Drop,
        }
    }
}
