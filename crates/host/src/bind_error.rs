//! Why the UDP datapath cannot be opened.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::io::Errno;
use uroce_wire::Slot;

use crate::port_holder::PortHolder;
use crate::process::Peer;
use crate::sys::interface;

/// Why a UDP datapath could not be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket has the port.
    #[error(
        "UDP port {} of {} is taken by {holder}; {remedy}, or choose another --address",
        .local.port(), .local.ip(), remedy = .holder.remedy()
    )]
    PortBusy {
        /// The address asked for.
        local: SocketAddr,
        /// The holder of the port.
        holder: PortHolder,
    },
    /// As many processes as there can be are there.
    #[error(
        "{} processes use {} already, as many as one address can have, or somebody holds the names of as many (`ss -xl` shows \
         them): stop one, or choose another --address",
        Slot::COUNT, .0.ip()
    )]
    NoSlot(SocketAddr),
    /// Processes of other users have names that ours would need.
    #[error(
        "another user keeps {count} of the {} names by which processes share {}: uid {user}, with process \
         {pid} the last of them; end those processes, or choose another --address",
        Slot::COUNT, .local.ip()
    )]
    ForeignSlots {
        /// The address asked for.
        local: SocketAddr,
        /// Names that other users have.
        count: usize,
        /// One of these users.
        user: u32,
        /// A process of that user; 0 if it is in another PID namespace.
        pid: u32,
    },
    /// The address is not one of this host.
    #[error("{} is not an address of this host: choose one of {here} with --address", .local.ip())]
    NotLocal {
        /// The address asked for.
        local: SocketAddr,
        /// The addresses that could be used, separated by commas.
        here: String,
    },
    /// `0.0.0.0`, `::`, or a multicast address.
    #[error(
        "{0} does not name one interface: choose one unicast address of this host with --address"
    )]
    NotUnicast(IpAddr),
    /// The kernel forbids the port.
    #[error(
        "the kernel does not let this user bind UDP port {} of {}: ports below 1024 need \
         CAP_NET_BIND_SERVICE; use port 4791 or give it the capability",
        .0.port(), .0.ip()
    )]
    Permission(SocketAddr),
    /// A sandbox forbids a system call.
    #[error(
        "{what} was refused for {local} ({source}): a sandbox forbids it; allow sockets (AF_INET, AF_INET6, AF_UNIX, \
         AF_NETLINK), setsockopt, sendmmsg, recvmmsg, epoll and eventfd in the seccomp or AppArmor profile, as those of container \
         runtimes do"
    )]
    Refused {
        /// What was tried.
        what: &'static str,
        /// The address asked for.
        local: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel does not know a system call or a socket option.
    #[error(
        "{what} for {local} is more than this kernel can ({source}): uroce needs Linux 4.18 or newer, or a sandbox that lets its \
         system calls through"
    )]
    TooOld {
        /// What was tried.
        what: &'static str,
        /// The address asked for.
        local: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// There may be no more threads.
    #[error(
        "the system gave this process no thread: raise the limit with `ulimit -u`, or that of the container (`--pids-limit`)"
    )]
    Threads,
    /// The IP version is switched off.
    #[error("this kernel has no {0}: use an address of the other IP version with --address")]
    NoIpVersion(&'static str),
    /// The process has too many files open.
    #[error("this process has no free file descriptor: raise the limit with `ulimit -n`")]
    Descriptors,
    /// Anything else.
    #[error("{what} failed for {local}: {source}; this kernel may be too old or restricted")]
    System {
        /// What was tried.
        what: &'static str,
        /// The address asked for.
        local: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl BindError {
    /// All slots are taken: the users of the processes that have them decide the remedy.
    pub fn no_slot(local: SocketAddr, (count, one): (usize, Option<Peer>)) -> Self {
        match one {
            Some(Peer { pid, user }) => Self::ForeignSlots { local, count, user, pid },
            None => Self::NoSlot(local),
        }
    }

    /// The sentence for a kernel's answer.
    pub fn explain(what: &'static str, local: SocketAddr, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::ADDRINUSE) => Self::PortBusy { local, holder: PortHolder::of(&local) },
            Some(Errno::ADDRNOTAVAIL) => Self::NotLocal { local, here: here(&local) },
            Some(Errno::ACCESS | Errno::PERM) if (1..1024).contains(&local.port()) => {
                Self::Permission(local)
            }
            Some(Errno::ACCESS | Errno::PERM) => Self::Refused { what, local, source },
            Some(Errno::NOSYS | Errno::NOPROTOOPT) => Self::TooOld { what, local, source },
            Some(Errno::AGAIN) => Self::Threads,
            Some(Errno::MFILE | Errno::NFILE) => Self::Descriptors,
            Some(Errno::AFNOSUPPORT) if local.is_ipv4() => Self::NoIpVersion("IPv4"),
            Some(Errno::AFNOSUPPORT) => Self::NoIpVersion("IPv6"),
            _ => Self::System { what, local, source },
        }
    }
}

impl BindError {
    /// The `errno` for the C interface.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Permission(_) => libc::EACCES,
            Self::Refused { source, .. } | Self::TooOld { source, .. } => {
                source.raw_os_error().unwrap_or(libc::EACCES)
            }
            Self::NotLocal { .. } => libc::EADDRNOTAVAIL,
            Self::Descriptors => libc::EMFILE,
            Self::Threads => libc::EAGAIN,
            _ => libc::EADDRINUSE,
        }
    }
}

/// The usable addresses of the same IP version, as a list for a person.
fn here(local: &SocketAddr) -> String {
    let owners = interface::addresses().unwrap_or_default();
    let same = owners.iter().filter(|owner| owner.address.is_ipv4() == local.is_ipv4());
    let texts: Vec<String> =
        same.map(|owner| format!("{} ({})", owner.address, owner.interface)).collect();
    if texts.is_empty() { "none (no interface is up)".to_owned() } else { texts.join(", ") }
}

/// Refuses addresses that do not name one interface.
pub fn check_local(local: &SocketAddr) -> Result<(), BindError> {
    let ip = local.ip();
    if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(BindError::NotUnicast(ip));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(errno: Errno) -> BindError {
        let local = "127.0.0.1:9".parse().expect("address");
        BindError::explain("binding a UDP socket", local, errno.into())
    }

    #[test]
    fn each_answer_of_the_kernel_has_its_sentence() {
        assert!(matches!(explained(Errno::ADDRINUSE), BindError::PortBusy { .. }));
        assert!(matches!(explained(Errno::ACCESS), BindError::Permission(_)));
        assert!(matches!(explained(Errno::AGAIN), BindError::Threads));
        assert!(matches!(explained(Errno::MFILE), BindError::Descriptors));
        assert!(explained(Errno::AFNOSUPPORT).to_string().contains("no IPv4"));
        let foreign = explained(Errno::ADDRNOTAVAIL).to_string();
        assert!(foreign.contains("127.0.0.1 (lo)"), "{foreign}");
        let other = explained(Errno::INVAL).to_string();
        assert!(other.starts_with("binding a UDP socket failed for 127.0.0.1:9"), "{other}");
    }

    /// The port is not to blame where a user may have it.
    #[test]
    fn a_refused_call_names_itself_and_a_missing_one_the_kernel() {
        let local = "127.0.0.1:4791".parse().expect("address");
        let said = |errno: Errno| BindError::explain("opening descriptors", local, errno.into());
        for errno in [Errno::PERM, Errno::ACCESS] {
            let refused = said(errno).to_string();
            assert!(refused.starts_with("opening descriptors was refused"), "{refused}");
            assert!(refused.contains("seccomp") && !refused.contains("1024"), "{refused}");
            assert_eq!(said(errno).errno(), errno.raw_os_error());
        }
        for errno in [Errno::NOSYS, Errno::NOPROTOOPT] {
            assert!(said(errno).to_string().contains("Linux 4.18"), "{errno}");
        }
        assert_eq!(said(Errno::ADDRINUSE).errno(), libc::EADDRINUSE);
        assert_eq!(said(Errno::MFILE).errno(), libc::EMFILE);
    }

    #[test]
    fn an_address_that_names_no_interface_is_refused() {
        for address in ["0.0.0.0:1", "[::]:1", "239.1.2.3:1", "[ff02::1]:1", "255.255.255.255:1"] {
            let refused = check_local(&address.parse().expect("address"));
            assert!(matches!(refused, Err(BindError::NotUnicast(_))), "{address}");
        }
        assert!(check_local(&"10.0.0.1:4791".parse().expect("address")).is_ok());
    }

    #[test]
    fn without_a_free_slot_the_users_of_the_names_decide_the_remedy() {
        let local = "127.0.0.1:4791".parse().expect("address");
        assert!(matches!(BindError::no_slot(local, (0, None)), BindError::NoSlot(_)));
        let peer = Peer { pid: 7, user: 1000 };
        let text = BindError::no_slot(local, (3, Some(peer))).to_string();
        assert!(text.contains("uid 1000") && text.contains("process 7"), "{text}");
    }
}
