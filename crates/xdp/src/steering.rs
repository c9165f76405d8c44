//! Which packets come to us: the loaded program with its maps, and where it is attached.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use uroce_host::fork;

use crate::error::XdpError;
use crate::program::{Filter, key_of, redirect};
use crate::sys::bpf::{self, Hook, Map, MapKind};

/// Our address and the multicast groups that can be joined.
pub(crate) const MAX_ADDRESSES: u32 = 257;

/// The program, its maps, and, once attached, the link; all end with this value, or with the
/// process, however it ends.
#[derive(Debug)]
pub(crate) struct Steering {
    program: OwnedFd,
    sockets: Map<u32, u32>,
    addresses: Map<[u8; 16], u32>,
    link: Option<ProgramLink>,
}

/// What attaches the program to the interface, as long as any process has it open. A child gets something dead in its
/// place: it would keep the interface from everybody else.
#[derive(Debug)]
struct ProgramLink(OwnedFd);

impl ProgramLink {
    fn new(link: OwnedFd) -> Self {
        fork::keep_descriptor_from_children(link.as_fd());
        Self(link)
    }
}

impl Drop for ProgramLink {
    fn drop(&mut self) {
        fork::forget(self.0.as_fd());
    }
}

/// What decides which packets come to us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) vlan: Option<u16>,
    pub(crate) queues: u32,
}

impl Steering {
    /// Loads the program; with `frags` for frames in several buffers too.
    pub(crate) fn load(wanted: &Wanted, frags: bool) -> Result<Self, XdpError> {
        let refused = |what| move |source| XdpError::explain(what, source);
        let sockets = Map::new(MapKind::Xsk, wanted.queues)
            .map_err(refused("making the map of AF_XDP sockets"))?;
        let addresses = Map::new(MapKind::Hash, MAX_ADDRESSES)
            .map_err(refused("making the map of addresses"))?;
        let filter = Filter {
            port: wanted.port,
            vlan: wanted.vlan,
            addresses: addresses.fd(),
            sockets: sockets.fd(),
        };
        let program = bpf::load(&redirect(&filter), frags).map_err(|error| {
            tracing::debug!(log = error.log, "the kernel did not take the redirect program");
            XdpError::explain("loading the redirect program", error.source)
        })?;
        let steering = Self { program, sockets, addresses, link: None };
        steering.add(wanted.address).map_err(refused("naming our address to the program"))?;
        Ok(steering)
    }

    /// Packets of the receive queue go to this socket.
    pub(crate) fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.insert(queue, socket.as_raw_fd().cast_unsigned())
    }

    /// Packets to this address are ours from now on.
    pub(crate) fn add(&self, address: IpAddr) -> io::Result<()> {
        self.addresses.insert(key_of(address), 1)
    }

    /// Packets to this address are the kernel's from now on.
    pub(crate) fn remove(&self, address: IpAddr) -> io::Result<()> {
        match self.addresses.remove(key_of(address)) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// Starts to take packets from the interface.
    pub(crate) fn attach(&mut self, interface: u32, hook: Hook) -> io::Result<()> {
        self.link = Some(ProgramLink::new(bpf::attach(self.program.as_fd(), interface, hook)?));
        Ok(())
    }
}
