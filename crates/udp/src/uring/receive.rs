//! Packets on their way from the kernel, without a system call for each batch.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use socket2::Socket;
use uroce_datapath::{DatapathStats, RxPacket};
use uroce_host::interface::Link;
use uroce_host::option;

use crate::sys::udp::{RECV_ROOM, SUPER_ROOM};
use crate::sys::uring::{Arrival, Held, RecvRing};
use crate::udp::receive::{SOFT_LIMIT, check_room, decode};
use crate::udp::{Opened, socket};

/// Buffers for messages of up to 64 KiB: 4 MiB, as the receive buffer of the socket.
const SUPER_BUFFERS: u16 = 64;

/// Buffers for single packets.
const BUFFERS: u16 = 256;

/// A socket that packets arrive at.
#[derive(Debug)]
struct Source {
    /// Never used again, so that an arrival of a group that was left is known as such.
    id: u64,
    /// `None` for our own address.
    group: Option<IpAddr>,
    socket: Socket,
    /// The kernel receives from it.
    armed: bool,
}

/// Every socket that packets arrive at, and what has arrived.
pub(super) struct Receiver {
    local: SocketAddr,
    link: Link,
    recv_buffer: usize,
    offload: bool,
    /// The first is that of our own address.
    sources: Vec<Source>,
    next_id: u64,
    ring: RecvRing,
    /// A message of which packets are left, and how many of its bytes are handed over already.
    pending: Option<(Held, usize)>,
    /// Messages that sockets of groups that were left had no room for.
    overflows_before: u64,
}

impl Receiver {
    pub(super) fn new(opened: Opened, ring: RecvRing, recv_buffer: usize) -> io::Result<Self> {
        let mut receiver = Self {
            local: opened.own,
            link: opened.link,
            recv_buffer,
            offload: opened.merged,
            sources: Vec::new(),
            next_id: 0,
            ring,
            pending: None,
            overflows_before: 0,
        };
        receiver.add(None, opened.socket)?;
        Ok(receiver)
    }

    /// The ring for messages as they arrive with or without UDP_GRO.
    pub(super) fn ring(offload: bool) -> io::Result<RecvRing> {
        match offload {
            true => RecvRing::new(SUPER_BUFFERS, SUPER_ROOM),
            false => RecvRing::new(BUFFERS, RECV_ROOM),
        }
    }

    fn add(&mut self, group: Option<IpAddr>, socket: Socket) -> io::Result<()> {
        // Of a non-blocking socket the ring would only say that nothing is there.
        socket.set_nonblocking(false)?;
        let id = self.next_id;
        self.ring.arm(socket.as_fd(), id)?;
        self.next_id += 1;
        self.sources.push(Source { id, group, socket, armed: true });
        Ok(())
    }

    /// Messages that the sockets had no room for; several packets that the kernel has joined are one.
    pub(super) fn overflows(&self) -> u64 {
        let sources = self.sources.iter().map(|source| option::overflows(&source.socket));
        self.overflows_before + sources.sum::<u64>()
    }

    /// The socket of our own address.
    pub(super) fn socket(&self) -> &Socket {
        &self.sources[0].socket
    }

    pub(super) fn waiter(&self) -> io::Result<OwnedFd> {
        self.ring.waiter()
    }

    /// Packets are there.
    pub(super) fn has_more(&mut self) -> bool {
        self.pending.is_some() || !self.ring.is_empty()
    }

    /// Hands over up to `limit` packets of those that arrived.
    pub(super) fn recv(
        &mut self,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> io::Result<usize> {
        let (mut count, mut soft) = (0, 0);
        while count < limit && soft < SOFT_LIMIT {
            if let Some((held, offset)) = self.pending.take() {
                count += self.hand_over(held, offset, limit - count, stats, sink);
                continue;
            }
            let Some(arrival) = self.ring.next() else { break };
            match self.arrived(arrival) {
                None => {}
                Some(Errno::BADF | Errno::NOTSOCK | Errno::FAULT) => {
                    return Err(Errno::BADF.into());
                }
                Some(_) => soft += 1,
            }
        }
        stats.soft_errors += soft as u64;
        self.rearm(stats)?;
        Ok(count)
    }

    /// Takes note of an arrival; returns an error that the socket reported.
    fn arrived(&mut self, arrival: Arrival) -> Option<Errno> {
        let source = self.sources.iter_mut().find(|source| source.id == arrival.id);
        let known = source.is_some();
        if let Some(source) = source {
            source.armed = arrival.more;
        }
        match arrival.message {
            Ok(held) if known => self.pending = Some((held, 0)),
            Ok(held) => self.ring.recycle(held),
            // All buffers were full, or the thread that had armed the receive has ended.
            Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {}
            Err(errno) if known => return Some(errno),
            Err(_) => {}
        }
        None
    }

    /// Lets receives that have ended go on.
    fn rearm(&mut self, stats: &mut DatapathStats) -> io::Result<()> {
        for source in self.sources.iter_mut().filter(|source| !source.armed) {
            stats.syscalls += 1;
            self.ring.arm(source.socket.as_fd(), source.id)?;
            source.armed = true;
        }
        Ok(())
    }

    /// Hands over up to `limit` packets of a message, from byte `offset` on; returns how many.
    fn hand_over(
        &mut self,
        held: Held,
        mut offset: usize,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> usize {
        let message = self.ring.message(&held);
        let (mut good, mut done) = (0, true);
        if let Some((whole, segment)) = decode(&message, self.local.port(), stats) {
            good = whole.hand_over(segment, &mut offset, limit, stats, sink);
            done = offset >= whole.payload.len();
        }
        if done {
            self.ring.recycle(held);
        } else {
            self.pending = Some((held, offset));
        }
        good
    }

    /// Joins the group on the interface of our address.
    pub(super) fn join(&mut self, group: IpAddr) -> io::Result<()> {
        if self.sources.iter().any(|source| source.group == Some(group)) {
            return Ok(());
        }
        check_room(self.sources.len() - 1, group)?;
        let Self { local, link, recv_buffer, offload, .. } = *self;
        let socket = socket::open_group(&local, link, group, recv_buffer, offload)?;
        self.add(Some(group), socket)
    }

    /// Leaves the group.
    pub(super) fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        let Some(index) = self.sources.iter().position(|source| source.group == Some(group)) else {
            return Ok(());
        };
        let left = self.sources.swap_remove(index);
        self.overflows_before += option::overflows(&left.socket);
        // The ring keeps the socket open as long as it receives from it.
        self.ring.disarm(left.id);
        socket::leave_group(&left.socket, &self.local, self.link, group)
    }
}
