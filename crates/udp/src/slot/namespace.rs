//! Names of abstract unix sockets by which the processes on one address find each other.
//!
//! The kernel keeps such names per network namespace, as it does addresses and ports, and frees a name
//! when the process that has it dies.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use socket2::{Domain, Socket, Type};
use uroce_host::fork::keep_from_children;
use uroce_host::interface::{Link, scoped};
use uroce_host::option;
use uroce_host::process::{self, Peer};
use uroce_wire::Slot;

/// First part of every name; counts up when processes of two versions would not understand each other.
const VERSION: &str = "uroce1";

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Bytes that may be on their way to one process.
const SEND_BUFFER: libc::c_int = 4 * 1024 * 1024;

/// The socket names of one address and port, and the user whose processes share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortNamespace {
    own: SocketAddr,
    /// The user that binds the port. A process that changes its user later keeps its port.
    user: u32,
}

impl PortNamespace {
    /// The names for an address and port, which must be the same in every process.
    pub(crate) fn of(local: SocketAddr) -> io::Result<Self> {
        let asker = Socket::new(Domain::for_address(local), Type::DGRAM.cloexec(), None)?;
        Ok(Self::new(scoped(local, Link::of(local.ip(), &asker).index)))
    }

    /// The names for this address, with the scope that it needs, and port.
    fn new(own: SocketAddr) -> Self {
        Self { own, user: geteuid().as_raw() }
    }

    /// The address and port, with its scope: a link-local address cannot be bound without.
    pub(crate) fn address(self) -> SocketAddr {
        self.own
    }

    /// The name of the process that has the slot.
    pub(crate) fn slot(self, slot: Slot) -> io::Result<SocketAddrUnix> {
        self.name(format_args!("slot/{slot}"))
    }

    /// The name of the process that listens on the service ID.
    pub(crate) fn service(self, service: u64) -> io::Result<SocketAddrUnix> {
        self.name(format_args!("service/{service:016x}"))
    }

    /// The name that a process holds while it joins or rearranges the others.
    pub(crate) fn join_lock(self) -> io::Result<SocketAddrUnix> {
        self.name("door")
    }

    /// The slots that processes have, as the system shows them.
    pub(crate) fn slots_taken(self) -> io::Result<Vec<Slot>> {
        let names = process::listeners(&format!("{VERSION}/{}/slot/", self.own))?;
        let slot = |number: &String| Slot::new(number.parse().ok()?);
        let mut slots: Vec<Slot> = names.iter().filter_map(slot).collect();
        slots.sort_unstable();
        Ok(slots)
    }

    /// Number of slots of other users, and the last of these processes.
    pub(crate) fn foreign_peers(self) -> (usize, Option<Peer>) {
        let at = |slot| process::peer(connect_any(&self.slot(slot)?)?);
        let peers = Slot::all().filter_map(|slot| at(slot).ok());
        let others = peers.filter(|peer| peer.user != self.user);
        others.fold((0, None), |(count, _), peer| (count + 1, Some(peer)))
    }

    fn has_slot(self, pid: u32) -> bool {
        let at = |slot| process::peer(connect_any(&self.slot(slot)?)?);
        Slot::all().any(|slot| at(slot).is_ok_and(|peer| peer == Peer { pid, user: self.user }))
    }

    fn name(self, what: impl Display) -> io::Result<SocketAddrUnix> {
        let text = format!("{VERSION}/{}/{what}", self.own);
        Ok(SocketAddrUnix::new_abstract_name(text.as_bytes())?)
    }
}

/// The slots of an address and port that processes have, in this network namespace.
///
/// # Errors
///
/// When the system does not show its unix sockets (/proc/net/unix), or the address is not of this host.
pub fn slots_taken(local: SocketAddr) -> io::Result<Vec<Slot>> {
    PortNamespace::of(local)?.slots_taken()
}

/// A socket under that name which others can connect to.
pub(crate) fn listen(name: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = socket()?;
    net::bind(&socket, name)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A connection to the process with that name, if it is of this user.
///
/// The socket keeps the borders of messages, and the number of messages under way is limited by their
/// bytes only (of unix datagrams, ten may wait).
pub(crate) fn connect(namespace: PortNamespace, name: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = connect_any(name)?;
    check_user(namespace, &socket)?;
    Ok(socket)
}

/// [`connect`] to the process that listens on a service ID; it may have changed its user since it
/// took the name.
pub(crate) fn connect_to_service(namespace: PortNamespace, service: u64) -> io::Result<OwnedFd> {
    let socket = connect_any(&namespace.service(service)?)?;
    check_user(namespace, &socket).or_else(|_| check_process(namespace, &socket))?;
    Ok(socket)
}

/// A connection to any process with that name.
fn connect_any(name: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let force = (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE);
    if option::set(&socket, force.0, force.1, SEND_BUFFER).is_err() {
        option::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
    }
    net::connect(&socket, name)?;
    Ok(socket)
}

/// Checks that the connected process may redirect packets to us although it is of another user now:
/// it has a slot, which it took as the user that bound the port.
pub(crate) fn check_process(namespace: PortNamespace, socket: &OwnedFd) -> io::Result<()> {
    let Peer { pid, .. } = process::peer(socket)?;
    // 0 stands for any process of another PID namespace.
    if pid != 0 && namespace.has_slot(pid) { Ok(()) } else { Err(Errno::PERM.into()) }
}

/// Refuses the connected process unless it is of the user that bound the port: the kernel shares a
/// UDP port among processes of one user only, so no other process can have a packet for us, or get
/// one from us.
pub(crate) fn check_user(namespace: PortNamespace, socket: &OwnedFd) -> io::Result<()> {
    if process::peer(socket)?.user == namespace.user {
        return Ok(());
    }
    Err(Errno::PERM.into())
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    keep_from_children(&socket);
    option::refuse_descriptors(&socket);
    Ok(socket)
}

#[cfg(test)]
mod names;
#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

    use super::*;

    /// Any user can connect to the name of a slot, and wait behind one.
    #[test]
    fn nobody_sends_descriptors_to_a_process_on_the_address() {
        let namespace = PortNamespace::new("127.91.15.2:4791".parse().expect("address"));
        let name = namespace.slot(Slot::new(1).expect("a slot")).expect("a name");
        let listener = listen(&name).expect("free");
        let can_refuse = option::refuse_descriptors(&listener);
        let client = connect(namespace, &name).expect("of this user");
        let served = net::accept(&listener).expect("it waits");
        let fds = [listener.as_fd()];
        for socket in [&client, &served] {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&fds));
            let sent =
                net::sendmsg(socket, &[IoSlice::new(b"x")], &mut control, SendFlags::empty());
            assert_eq!(sent, if can_refuse { Err(Errno::PERM) } else { Ok(1) });
        }
    }

    #[test]
    fn only_a_process_with_a_slot_may_have_changed_its_user() {
        let namespace = PortNamespace::new("127.91.15.1:4791".parse().expect("address"));
        let pid = std::process::id();
        assert!(!namespace.has_slot(pid));
        let slot = Slot::new(200).expect("a slot");
        let _claim = listen(&namespace.slot(slot).expect("a name")).expect("free");
        assert!(namespace.has_slot(pid) && !namespace.has_slot(1));
        let stranger = PortNamespace { user: namespace.user + 1, ..namespace };
        assert!(!stranger.has_slot(pid), "a slot of another user is none");
    }
}
