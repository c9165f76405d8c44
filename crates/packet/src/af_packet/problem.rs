//! What it means when a packet cannot be sent.

use std::fmt;
use std::net::IpAddr;

use rustix::io::Errno;
use uroce_link::Unreachable;

/// The latest reason why a packet was dropped on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) dst: IpAddr,
    pub(super) why: Why,
}

/// See [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The packet, with its IP header, is longer than the way's MTU.
    TooLong {
        len: usize,
        mtu: usize,
    },
    Unreachable(Unreachable),
    /// The next hop was not resolved in time, or too many packets wait for it.
    Unresolved,
    Refused(Errno),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dst = self.dst;
        match self.why {
            Why::TooLong { len, mtu } => write!(
                f,
                "a packet of {len} bytes to {dst} is larger than the MTU of the path, {mtu}: lower \
                 the path MTU of the queue pair or raise the MTU of the interfaces on the way"
            ),
            Why::Unreachable(reason) => write!(f, "no packet reaches {dst}: {reason}"),
            Why::Unresolved => write!(
                f,
                "the hardware address for {dst} is not known yet: check that the host is up, if \
                 this lasts"
            ),
            Why::Refused(errno) => write!(
                f,
                "the kernel refused a frame to {dst}: {errno}; check that the interface is up"
            ),
        }
    }
}

/// What to do after the kernel refused the first of some frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It takes no more for now.
    Wait,
    /// The refusal had nothing to do with the frame.
    Again,
    /// It cannot cut super-packets.
    Cut,
    /// It will never take this frame.
    Drop,
    /// The socket is unusable.
    Broken,
}

impl Verdict {
    /// The verdict for an error about a frame; `whole` when that was a super-packet.
    pub(super) fn of(errno: Errno, whole: bool) -> Self {
        match errno {
            Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => Self::Wait,
            Errno::INTR => Self::Again,
            Errno::INVAL | Errno::OPNOTSUPP if whole => Self::Cut,
            Errno::BADF | Errno::NOTSOCK | Errno::FAULT => Self::Broken,
            _ => Self::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_says_what_to_check() {
        let dst = IpAddr::from([10, 0, 0, 2]);
        for why in [
            Why::TooLong { len: 4184, mtu: 1500 },
            Why::Unreachable(Unreachable::Silent(dst)),
            Why::Unresolved,
            Why::Refused(Errno::NETDOWN),
        ] {
            let text = Problem { dst, why }.to_string();
            assert!(text.contains("10.0.0.2"), "{text}");
            assert!(text.contains("check that") || text.contains("lower the path MTU"), "{text}");
        }
    }

    #[test]
    fn only_a_super_packet_is_cut() {
        assert_eq!(Verdict::of(Errno::INVAL, true), Verdict::Cut);
        assert_eq!(Verdict::of(Errno::INVAL, false), Verdict::Drop);
        assert_eq!(Verdict::of(Errno::NOBUFS, true), Verdict::Wait);
    }
}
