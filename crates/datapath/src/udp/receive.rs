//! Packets on their way from the kernel.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;
use socket2::{InterfaceIndexOrAddress, Socket};

use super::link::{Link, scoped};
use super::socket::{self, Buffer};
use super::{address, control};
use crate::caps::DatapathStats;
use crate::packet::{IpId, RxPacket};
use crate::sys::udp::{Received, RecvRoom};

/// Errors left by ICMP messages that one call forgives before it returns.
const SOFT_LIMIT: usize = 8;

/// Groups that one datapath can join: each takes a socket.
const MAX_GROUPS: usize = 256;

/// The receive socket of a multicast group: a socket bound to a unicast address hears none.
#[derive(Debug)]
struct GroupSocket {
    group: IpAddr,
    socket: Socket,
}

/// Every socket that packets arrive at.
#[derive(Debug)]
pub(super) struct Receiver {
    local: SocketAddr,
    link: Link,
    pub(super) socket: Socket,
    groups: Vec<GroupSocket>,
    /// Whose turn it is to be read first, so that no socket starves.
    turn: usize,
    room: RecvRoom,
    /// Readable when any of the sockets is.
    epoll: OwnedFd,
    recv_buffer: usize,
}

impl Receiver {
    pub(super) fn new(
        local: SocketAddr,
        link: Link,
        socket: Socket,
        batch: usize,
        recv_buffer: usize,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, &socket)?;
        let room = RecvRoom::new(batch);
        Ok(Self { local, link, socket, groups: Vec::new(), turn: 0, room, epoll, recv_buffer })
    }

    pub(super) fn waiter(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Reads up to `limit` packets from all sockets in turn.
    pub(super) fn recv(
        &mut self,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> io::Result<usize> {
        let sockets = 1 + self.groups.len();
        let first = self.turn % sockets;
        self.turn = first + 1;
        let mut count = 0;
        for step in 0..sockets {
            if count < limit {
                count += self.drain((first + step) % sockets, limit - count, stats, sink)?;
            }
        }
        Ok(count)
    }

    /// Reads one socket until it is empty or `limit` is reached.
    fn drain(
        &mut self,
        index: usize,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> io::Result<usize> {
        let mut count = 0;
        let mut soft = 0;
        while count < limit && soft < SOFT_LIMIT {
            let asked = self.room.batch().min(limit - count);
            stats.syscalls += 1;
            let socket = self.groups.get(index.wrapping_sub(1)).map(|group| &group.socket);
            match self.room.receive(socket.unwrap_or(&self.socket).as_fd(), asked) {
                Ok(got) => {
                    count += self.hand_over(got, stats, sink);
                    if got < asked {
                        break;
                    }
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => break,
                    Some(Errno::BADF | Errno::NOTSOCK | Errno::FAULT) => return Err(error),
                    _ => soft += 1,
                },
            }
        }
        stats.soft_errors += soft as u64;
        Ok(count)
    }

    /// Hands over the first `got` messages of the room; returns how many were good.
    fn hand_over(
        &self,
        got: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> usize {
        let mut good = 0;
        for message in (0..got).map(|index| self.room.message(index)) {
            if message.truncated {
                stats.rx_truncated += 1;
            } else if let Some(packet) = packet(&message, self.local.port()) {
                stats.rx_packets += 1;
                stats.rx_bytes += packet.payload.len() as u64;
                good += 1;
                sink(packet);
            } else {
                stats.rx_dropped += 1;
            }
        }
        good
    }

    /// Joins the group on the interface of our address.
    pub(super) fn join(&mut self, group: IpAddr) -> io::Result<()> {
        if self.groups.iter().any(|joined| joined.group == group) {
            return Ok(());
        }
        if self.groups.len() == MAX_GROUPS {
            let text = format!("{group} not joined: {MAX_GROUPS} multicast groups are the limit");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let socket = self.group_socket(group)?;
        watch(&self.epoll, &socket)?;
        self.groups.push(GroupSocket { group, socket });
        Ok(())
    }

    fn group_socket(&self, group: IpAddr) -> io::Result<Socket> {
        let socket = socket::open(&self.local)?;
        socket::show_headers(&socket, &self.local)?;
        socket::enlarge(&socket, Buffer::Receive, self.recv_buffer);
        // Other devices of this host may join the same group.
        socket.set_reuse_address(true)?;
        let addr = scoped(SocketAddr::new(group, self.local.port()), self.link.index);
        socket.bind(&addr.into())?;
        match (group, self.local) {
            (IpAddr::V4(group), SocketAddr::V4(local)) => {
                let interface = match self.link.index {
                    0 => InterfaceIndexOrAddress::Address(*local.ip()),
                    index => InterfaceIndexOrAddress::Index(index),
                };
                socket.join_multicast_v4_n(&group, &interface)?;
            }
            (IpAddr::V6(group), _) => socket.join_multicast_v6(&group, self.link.index)?,
            (IpAddr::V4(_), SocketAddr::V6(_)) => return Err(Errno::AFNOSUPPORT.into()),
        }
        Ok(socket)
    }

    /// Leaves the group; the kernel does so when the socket closes.
    pub(super) fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        let Some(index) = self.groups.iter().position(|joined| joined.group == group) else {
            return Ok(());
        };
        let left = self.groups.swap_remove(index);
        Ok(epoll::delete(&self.epoll, &left.socket)?)
    }
}

/// Makes `epoll` readable whenever `socket` is.
fn watch(epoll: &OwnedFd, socket: &Socket) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
}

/// The packet in a message; `None` when its addresses are not to be had.
fn packet<'a>(message: &Received<'a>, port: u16) -> Option<RxPacket<'a>> {
    let src = address::decode(message.name)?;
    let fields = control::decode(message.control);
    Some(RxPacket {
        src,
        dst: SocketAddr::new(fields.dst?, port),
        traffic_class: fields.traffic_class,
        hop_limit: fields.hop_limit,
        ip_id: if src.is_ipv4() { IpId::Hidden } else { IpId::NotPresent },
        payload: message.payload,
    })
}
