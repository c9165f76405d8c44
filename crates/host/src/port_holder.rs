//! The holder of a UDP port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::process::geteuid;

/// The holder of a UDP port, as far as this user may know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortHolder {
    /// The kernel: rdma_rxe, where the port is RoCE's.
    Kernel,
    /// A process of this user, by a socket with this inode.
    Own {
        /// The inode, which /proc/PID/fd shows.
        inode: u64,
    },
    /// A process of another user.
    Other {
        /// The user.
        uid: u32,
        /// The inode of its socket.
        inode: u64,
    },
    /// It is not to be seen.
    Unknown,
}

impl PortHolder {
    /// The holder of the port now.
    #[must_use]
    pub fn of(local: &SocketAddr) -> Self {
        // The tables may leave sockets out while others come and go.
        let found = (0..TRIES).find_map(|_| find(local));
        found.map_or(Self::Unknown, |(uid, inode)| Self::new(uid, inode, geteuid().as_raw()))
    }

    fn new(uid: u32, inode: u64, own: u32) -> Self {
        match inode {
            0 => Self::Kernel,
            inode if uid == own => Self::Own { inode },
            inode => Self::Other { uid, inode },
        }
    }

    /// What to do about it, beside using another address.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Kernel => "unload the module with `rmmod rdma_rxe`",
            Self::Own { .. } => {
                "stop that process (only those with --datapath udp or uring share an address)"
            }
            Self::Other { .. } => {
                "only processes of one user can share an address: run as that user"
            }
            Self::Unknown => {
                "stop that process, or unload the module with `rmmod rdma_rxe` if it is the kernel's"
            }
        }
    }
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("the kernel's rdma_rxe"),
            Self::Own { .. } => f.write_str("a process of this user that does not share it"),
            Self::Other { uid, .. } => write!(f, "a process of user {uid}"),
            Self::Unknown => f.write_str("somebody whom this user cannot see"),
        }
    }
}

/// How often the tables are read.
const TRIES: usize = 4;

/// User and inode of the socket that takes the port.
fn find(local: &SocketAddr) -> Option<(u32, u64)> {
    // A socket for all IPv6 addresses takes the port of the IPv4 ones as well.
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(std::fs::read_to_string);
    let mut lines = tables.iter().flatten().flat_map(|table| table.lines());
    lines.find_map(|line| socket(line, local))
}

/// User and inode of the socket in a line of /proc/net/udp, if it takes the port of `local`. A socket of
/// the kernel has no inode, which is 0.
fn socket(line: &str, local: &SocketAddr) -> Option<(u32, u64)> {
    let mut words = line.split_whitespace().skip(1);
    let (ip, port) = words.next()?.split_once(':')?;
    let uid = words.nth(5)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    let ip = hex_address(ip)?;
    // A socket for all IPv4 addresses leaves the port of the IPv6 ones free; an IPv6 socket can have an IPv4 address.
    let all = ip.is_unspecified() && (ip.is_ipv6() || local.is_ipv4());
    let covers = all || ip.to_canonical() == local.ip().to_canonical();
    (covers && u16::from_str_radix(port, 16) == Ok(local.port())).then_some((uid, inode))
}

/// An address as /proc/net shows it: 32-bit words in the byte order of the machine.
fn hex_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    let words: Option<Vec<u32>> = (0..text.len()).step_by(8).map(word).collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    if let Ok(v4) = <[u8; 4]>::try_from(&bytes[..]) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(&bytes[..]).ok().map(|v6| Ipv6Addr::from(v6).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  123: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 98765 2 0000000000000000 0
  124: 00000000:12B8 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0000000000000000 0
";

    fn find(local: &str) -> Option<(u32, u64)> {
        let local = local.parse().expect("an address");
        TABLE.lines().find_map(|line| socket(line, &local))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_are_found_by_address_and_port() {
        assert_eq!(find("127.0.0.1:4791"), Some((1000, 98_765)));
        assert_eq!(find("127.0.0.2:4791"), None);
        assert_eq!(find("10.0.0.1:4792"), Some((0, 0)), "bound to all addresses, by the kernel");
        let v6 = "00000000000000000000000001000000";
        assert_eq!(hex_address(v6), "::1".parse().ok());
        assert_eq!(hex_address("0100007"), None);
        assert_eq!(hex_address("äöü00000"), None);
    }

    #[test]
    fn each_holder_has_its_remedy() {
        assert_eq!(PortHolder::new(0, 0, 1000), PortHolder::Kernel);
        assert_eq!(PortHolder::new(1000, 7, 1000), PortHolder::Own { inode: 7 });
        let other = PortHolder::new(1001, 7, 1000);
        assert_eq!(other.to_string(), "a process of user 1001");
        assert!(other.remedy().contains("run as that user"));
        assert!(PortHolder::Kernel.remedy().contains("rmmod rdma_rxe"));
    }

    #[test]
    fn our_own_socket_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let holder = PortHolder::of(&socket.local_addr().expect("bound"));
        assert!(matches!(holder, PortHolder::Own { .. }), "{holder:?}");
    }
}
