//! Where processes on one address find each other: names of unix sockets that are no files.
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
use uroce_wire::Slot;

use crate::process;
use crate::sys::option;

/// First part of every name; counts up when processes of two versions would not understand each other.
const VERSION: &str = "uroce1";

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Bytes that may be on their way to one process.
const SEND_BUFFER: libc::c_int = 4 * 1024 * 1024;

/// The names of one address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(SocketAddr);

impl Place {
    /// The place of this address, with the scope that it needs, and port.
    pub(crate) fn new(own: SocketAddr) -> Self {
        Self(own)
    }

    /// The name of the process that has the slot.
    pub(crate) fn slot(self, slot: Slot) -> io::Result<SocketAddrUnix> {
        self.name(format_args!("slot/{slot}"))
    }

    /// The name of the process that takes calls to the service.
    pub(crate) fn service(self, service: u64) -> io::Result<SocketAddrUnix> {
        self.name(format_args!("service/{service:016x}"))
    }

    /// What a process holds while it joins or rearranges the others.
    pub(crate) fn door(self) -> io::Result<SocketAddrUnix> {
        self.name("door")
    }

    /// The slots that processes have, as the system shows them.
    pub(crate) fn slots_taken(self) -> io::Result<Vec<Slot>> {
        let names = process::listeners(&format!("{VERSION}/{}/slot/", self.0))?;
        let slot = |number: &String| Slot::new(number.parse().ok()?);
        let mut slots: Vec<Slot> = names.iter().filter_map(slot).collect();
        slots.sort_unstable();
        Ok(slots)
    }

    fn name(self, what: impl Display) -> io::Result<SocketAddrUnix> {
        let text = format!("{VERSION}/{}/{what}", self.0);
        Ok(SocketAddrUnix::new_abstract_name(text.as_bytes())?)
    }
}

/// The slots of an address and port that processes have, in this network namespace.
///
/// # Errors
///
/// When the system does not show its unix sockets (/proc/net/unix), or the address is not of this host.
pub fn slots_taken(local: SocketAddr) -> io::Result<Vec<Slot>> {
    super::datapath::place(local)?.slots_taken()
}

/// A socket under that name which others can connect to.
pub(crate) fn listen(name: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = socket()?;
    net::bind(&socket, name)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A connection to the process that has that name, if it is one of ours: of this user.
///
/// The socket keeps the borders of messages, and the number of messages under way is limited by their
/// bytes only (of unix datagrams, ten may wait).
pub(crate) fn connect(name: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let force = (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE);
    if option::set(&socket, force.0, force.1, SEND_BUFFER).is_err() {
        option::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
    }
    net::connect(&socket, name)?;
    check_user(&socket)?;
    Ok(socket)
}

/// Refuses the process at the other end unless it is of this user: the kernel shares a UDP port among
/// processes of one user only, so nobody else can have a packet for us, or be owed one.
pub(crate) fn check_user(socket: &OwnedFd) -> io::Result<()> {
    if process::peer(socket)?.user == geteuid().as_raw() {
        return Ok(());
    }
    Err(Errno::PERM.into())
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}
