//! Why packets were dropped on the way out.

use std::fmt;
use std::net::IpAddr;

use uroce_link::Unreachable;

/// The latest reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// There is no way to the destination.
    NoWay { dst: IpAddr, reason: Unreachable },
    /// The way leads through another interface.
    Elsewhere { dst: IpAddr },
    /// The packet is longer than the path allows.
    TooLong { dst: IpAddr, bytes: usize, mtu: usize },
    /// Too many packets wait for the hardware address.
    Waiting { dst: IpAddr },
    /// The interface's own queue was full.
    Congested,
    /// More packets to ourselves than are kept.
    EchoFull,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWay { dst, reason } => write!(f, "packets to {dst} were dropped: {reason}"),
            Self::Elsewhere { dst } => write!(
                f,
                "packets to {dst} were dropped: the way leads through another interface than ours, \
                 or it is another address of this host, which AF_XDP does not reach; use \
                 `--datapath udp` for it"
            ),
            Self::TooLong { dst, bytes, mtu } => write!(
                f,
                "packets of {bytes} bytes to {dst} were dropped: the path takes {mtu}; choose a \
                 smaller path MTU"
            ),
            Self::Waiting { dst } => write!(
                f,
                "packets to {dst} were dropped: too many wait until it answers ARP or neighbour \
                 discovery; check that it is up"
            ),
            Self::Congested => f.write_str(
                "the interface's own queue was full: raise it with `ip link set DEV txqueuelen`, or \
                 send less at once",
            ),
            Self::EchoFull => {
                f.write_str("more packets to ourselves were sent than are queued: receive in between")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_says_what_to_do() {
        let dst = IpAddr::from([10, 0, 0, 1]);
        for problem in [
            Problem::Elsewhere { dst },
            Problem::TooLong { dst, bytes: 2000, mtu: 1500 },
            Problem::Waiting { dst },
            Problem::Congested,
            Problem::EchoFull,
        ] {
            let text = problem.to_string();
            assert!(text.contains(": ") || text.contains("; "), "{text}");
        }
    }
}
