//! The socket filters of the receiving packet sockets of an address.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;
use socket2::Socket;
use uroce_datapath::check_group;
use uroce_host::{bpf, option};
use uroce_link::{Groups, PortSocket};

use super::filter;
use super::head::ether_type;
use crate::sys::packet;

/// The kernel's number of the loopback interface in every network namespace.
const LO: u32 = 1;

/// The receive filters, one set for all engines of a process. Only multicast groups change later,
/// and no packet takes the lock on them.
#[derive(Debug)]
pub(super) struct RxFilters {
    local: SocketAddr,
    port_socket: PortSocket,
    /// Index of our interface.
    home: u32,
    /// The socket that packets to groups come to.
    first: Arc<Socket>,
    joined: Mutex<Groups>,
}

impl RxFilters {
    /// Starts to receive with `sockets` packets for `local` that arrive at interface `home`, or at
    /// `lo` because this host sent them to itself. With several sockets each gets the packets of
    /// one slot.
    pub(super) fn open(
        local: SocketAddr,
        home: u32,
        port_socket: PortSocket,
        sockets: &[Arc<Socket>],
    ) -> io::Result<Self> {
        let (first, joined) = (Arc::clone(&sockets[0]), Mutex::default());
        let rx_filters = Self { local, port_socket, home, first, joined };
        match sockets {
            [only] => {
                rx_filters.aim(only, &Groups::default())?;
                packet::bind(only, 0, ether_type(local.is_ipv4()))?;
            }
            several => {
                gather(several, &local)?;
                several.iter().try_for_each(|socket| rx_filters.aim(socket, &Groups::default()))?;
            }
        }
        Ok(rx_filters)
    }

    fn aim(&self, socket: &Socket, groups: &Groups) -> io::Result<()> {
        bpf::attach_filter(socket, &filter::ours(&self.local, groups, [self.home, LO]))
    }

    fn joined(&self) -> MutexGuard<'_, Groups> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to receive packets to the group.
    pub(super) fn join(&self, group: IpAddr) -> io::Result<()> {
        check_group(&self.local, &group)?;
        let mut joined = self.joined();
        if joined.contains(&group) {
            return Ok(());
        }
        if joined.iter().len() == filter::MAX_GROUPS {
            let limit = filter::MAX_GROUPS;
            let text = format!("{group} not joined: {limit} multicast groups are the limit");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        self.port_socket.join(group)?;
        joined.insert(group);
        self.aim(&self.first, &joined)
    }

    /// Undoes [`join`](Self::join).
    pub(super) fn leave(&self, group: IpAddr) -> io::Result<()> {
        let mut joined = self.joined();
        if !joined.remove(&group) {
            return Ok(());
        }
        self.aim(&self.first, &joined)?;
        self.port_socket.leave(group)
    }
}

/// Makes the sockets a fanout group in which each gets the packets of its slot. To every other
/// packet of the host the group is one socket: a socket for each would make the kernel try each of
/// them for all packets.
fn gather(sockets: &[Arc<Socket>], local: &SocketAddr) -> io::Result<()> {
    let mut group = FANOUT_CBPF | FANOUT_UNIQUE;
    for socket in sockets {
        // Nothing is received before the socket has its index in the group.
        bpf::drop_everything(socket)?;
        packet::bind(socket, 0, ether_type(local.is_ipv4()))?;
        option::set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, group)?;
        if group & FANOUT_UNIQUE != 0 {
            let number = option::get(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)? & 0xffff;
            group = FANOUT_CBPF | number;
        }
    }
    let count = u32::try_from(sockets.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    bpf::attach_fanout(&sockets[0], &filter::engines(local.is_ipv4(), count))
}

/// A BPF program selects the socket, and the kernel chooses a free group number. Both flags stand
/// in the upper half of the option.
const FANOUT_CBPF: c_int = (libc::PACKET_FANOUT_CBPF as c_int) << 16;
const FANOUT_UNIQUE: c_int = 0x2000 << 16;
