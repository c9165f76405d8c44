//! Packets on their way from the kernel.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;
use socket2::Socket;
use uroce_datapath::{DatapathStats, IpId, RxPacket};
use uroce_host::interface::Link;
use uroce_host::{address, option};
use uroce_wire::DropReason;

use super::socket;
use crate::sys::udp::{RECV_ROOM, Received, RecvRoom, SUPER_ROOM, decode_control};

/// Errors left by ICMP messages that one call forgives before it returns.
pub(crate) const SOFT_LIMIT: usize = 8;

/// Groups that one datapath can join: each takes a socket.
const MAX_GROUPS: usize = 256;

/// The receive socket of a multicast group: a socket bound to a unicast address hears none.
#[derive(Debug)]
struct GroupSocket {
    group: IpAddr,
    socket: Socket,
}

/// Messages that were read and not yet handed over as a whole.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    /// The next message in the room.
    next: usize,
    /// Messages in the room.
    end: usize,
    /// Bytes of the next message that are handed over already.
    offset: usize,
}

impl Pending {
    /// Goes on to the next message.
    fn pass(&mut self) {
        self.next += 1;
        self.offset = 0;
    }
}

/// Every socket that packets arrive at.
#[derive(Debug)]
pub(super) struct Receiver {
    local: SocketAddr,
    link: Link,
    pub(super) socket: Socket,
    groups: Vec<GroupSocket>,
    /// Index of the socket that is read first next time, so that no socket starves.
    turn: usize,
    room: RecvRoom,
    pending: Pending,
    /// Packets in the last message, to guess how many messages bring as many as asked for.
    per_message: usize,
    /// Messages to ask for in one call.
    asking: usize,
    /// The last call brought the one message that it asked for.
    lone: bool,
    /// Readable when any of the sockets is.
    epoll: OwnedFd,
    recv_buffer: usize,
    offload: bool,
    /// Messages that sockets of groups that were left had no room for.
    overflows_before: u64,
}

impl Receiver {
    pub(super) fn new(
        local: SocketAddr,
        link: Link,
        socket: Socket,
        batch: usize,
        recv_buffer: usize,
        offload: bool,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, &socket)?;
        let room = if offload {
            RecvRoom::new(batch, SUPER_ROOM)
        } else {
            RecvRoom::new(batch, RECV_ROOM)
        };
        Ok(Self {
            local,
            link,
            socket,
            groups: Vec::new(),
            turn: 0,
            room,
            pending: Pending::default(),
            per_message: 1,
            asking: 1,
            lone: false,
            epoll,
            recv_buffer,
            offload,
            overflows_before: 0,
        })
    }

    /// Messages that the sockets had no room for; several packets that the kernel has joined are one.
    pub(super) fn overflows(&self) -> u64 {
        let groups = self.groups.iter().map(|group| option::overflows(&group.socket));
        self.overflows_before + option::overflows(&self.socket) + groups.sum::<u64>()
    }

    pub(super) fn waiter(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Reads up to `limit` packets from all sockets, round robin.
    pub(super) fn recv(
        &mut self,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> io::Result<usize> {
        let sockets = 1 + self.groups.len();
        let first = self.turn % sockets;
        self.turn = first + 1;
        let mut count = self.hand_over(limit, stats, sink);
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
        let (mut soft, mut useless) = (0, 0);
        while count < limit && soft < SOFT_LIMIT && useless < limit {
            let asked = (limit - count).div_ceil(self.per_message).min(self.asking);
            stats.syscalls += 1;
            let socket = self.groups.get(index.wrapping_sub(1)).map(|group| &group.socket);
            match self.room.receive(socket.unwrap_or(&self.socket).as_fd(), asked) {
                Ok(got) => {
                    self.pending = Pending { next: 0, end: got, offset: 0 };
                    let packets = self.hand_over(limit - count, stats, sink);
                    count += packets;
                    useless += if packets == 0 { got } else { 0 };
                    if self.is_enough(got, asked) && count > 0 {
                        break;
                    }
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => {
                        self.lone = false;
                        break;
                    }
                    Some(Errno::BADF | Errno::NOTSOCK | Errno::FAULT) => return Err(error),
                    _ => soft += 1,
                },
            }
        }
        stats.soft_errors += soft as u64;
        Ok(count)
    }

    /// Whether to stop at `got` messages of `asked`, and how many to ask for from now on.
    ///
    /// A peer that sends one message and waits for the response has no second one on its way: to
    /// ask the kernel for it takes a third of the time of the call and delays the message. So one
    /// message is requested until two calls in a row have returned one each, and again when a call
    /// for more has returned only one.
    fn is_enough(&mut self, got: usize, asked: usize) -> bool {
        let first = asked == 1 && !self.lone;
        self.lone = asked == 1;
        self.asking = if first || asked > 1 && got == 1 { 1 } else { self.room.batch() };
        first || got < asked
    }

    /// Hands over up to `limit` packets of the messages in the room; returns how many.
    fn hand_over(
        &mut self,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> usize {
        let mut good = 0;
        while self.has_more() && good < limit {
            let message = self.room.message(self.pending.next);
            let Some((whole, segment)) = decode(&message, self.local.port(), stats) else {
                self.pending.pass();
                continue;
            };
            let offset = &mut self.pending.offset;
            good += whole.hand_over(segment, offset, limit - good, stats, sink);
            if self.pending.offset >= whole.payload.len() {
                self.per_message = whole.payload.len().div_ceil(segment);
                self.pending.pass();
            }
        }
        good
    }

    /// Packets are there that [`recv`](Self::recv) left over: no reason to sleep.
    pub(super) fn has_more(&self) -> bool {
        self.pending.next < self.pending.end
    }

    /// Joins the group on the interface of our address.
    pub(super) fn join(&mut self, group: IpAddr) -> io::Result<()> {
        if self.groups.iter().any(|joined| joined.group == group) {
            return Ok(());
        }
        check_room(self.groups.len(), group)?;
        let Self { local, link, recv_buffer, offload, .. } = *self;
        let socket = socket::open_group(&local, link, group, recv_buffer, offload)?;
        watch(&self.epoll, &socket)?;
        self.groups.push(GroupSocket { group, socket });
        Ok(())
    }

    /// Leaves the group; the kernel does so when the socket closes.
    pub(super) fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        let Some(index) = self.groups.iter().position(|joined| joined.group == group) else {
            return Ok(());
        };
        let left = self.groups.swap_remove(index);
        self.overflows_before += option::overflows(&left.socket);
        Ok(epoll::delete(&self.epoll, &left.socket)?)
    }
}

/// Refuses one group more than allowed.
pub(crate) fn check_room(joined: usize, group: IpAddr) -> io::Result<()> {
    if joined < MAX_GROUPS {
        return Ok(());
    }
    let text = format!("{group} not joined: {MAX_GROUPS} multicast groups are the limit");
    Err(io::Error::new(io::ErrorKind::QuotaExceeded, text))
}

/// Makes `epoll` readable whenever `socket` is.
fn watch(epoll: &OwnedFd, socket: &Socket) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
}

/// The packets of a message as one, and the size of each but the last; `None` when it is of no use.
pub(crate) fn decode<'a>(
    message: &Received<'a>,
    port: u16,
    stats: &mut DatapathStats,
) -> Option<(RxPacket<'a>, usize)> {
    match addressed(message, port) {
        _ if message.truncated => stats.rx_truncated += 1,
        Some((_, segment)) if segment > RECV_ROOM => stats.rx_truncated += 1,
        None if message.payload.is_empty() => stats.refuse(DropReason::TooShort),
        None => stats.rx_dropped += 1,
        usable => return usable,
    }
    None
}

fn addressed<'a>(message: &Received<'a>, port: u16) -> Option<(RxPacket<'a>, usize)> {
    let src = address::decode(message.name)?;
    let fields = decode_control(message.control);
    let payload = message.payload;
    let segment = if fields.segment == 0 { payload.len() } else { fields.segment };
    let packet = RxPacket {
        src,
        dst: SocketAddr::new(fields.dst?, port),
        traffic_class: fields.traffic_class,
        hop_limit: fields.hop_limit,
        ip_id: if src.is_ipv4() { IpId::Hidden(0) } else { IpId::NotPresent },
        icrc_checked: false,
        following: None,
        fate: None,
        payload,
    };
    (!payload.is_empty()).then_some((packet, segment))
}
