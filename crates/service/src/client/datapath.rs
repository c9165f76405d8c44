//! The datapath of a client.

use std::collections::HashSet;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use uroce_datapath::{
    Caps, Datapath, DatapathStats, Flush, IcrcTx, PACKET_ROOM, Route, RxPacket, SharedPort,
    check_group,
};
use uroce_wire::Slot;

use super::attachment::{
    AttachRefused, Attachment, CONTROL, RETRY_INTERVAL, REWAKE, ServiceState, watch,
};
use super::peer_links::PeerLinks;
use crate::head::{self, ArrivedHead, MIN_PAYLOAD, SentHead};
use crate::message::{ClientMessage, SlotToken};
use crate::ring::{CLIENT_SLEEPS, DROPPED, SERVICE_SLEEPS};
use crate::socket_path;

/// Receive calls after which the connection is looked at; one without a packet counts as [`IDLE_CALL`]. A datapath that
/// sleeps is woken.
const LOOK_INTERVAL: u32 = 8192;
const IDLE_CALL: u32 = 16;

/// Most events that are looked at before a sleep; with more of them it is no sleep.
const EVENTS: usize = 32;

/// A share of an address whose port a service holds, for processes of any user.
///
/// When the service goes, packets are lost until it has come back, at most 30 s; then the client has the same slot
/// again.
#[derive(Debug)]
pub struct ServedDatapath {
    pub(super) socket: PathBuf,
    pub(super) local: SocketAddr,
    caps: Caps,
    pub(super) service: ServiceState,
    pub(super) slot: Slot,
    pub(super) token: SlotToken,
    /// Readable when the service has something to say.
    pub(super) epoll: OwnedFd,
    /// Readable when a wake-up was read by a thread that it was not for.
    pub(super) rewake: OwnedFd,
    /// The packet that is being written, and the one that is being read.
    tx_buffer: Box<[u8]>,
    pub(super) rx_buffer: Box<[u8]>,
    starts_batch: bool,
    committed: usize,
    pub(super) services: HashSet<u64>,
    pub(super) groups: HashSet<IpAddr>,
    /// Number of the last request.
    pub(super) requests: u32,
    calls: u32,
    /// Direct ways to other clients.
    pub(super) links: PeerLinks,
    /// The source of packets that is read first: the service, and then links.
    turn: usize,
    /// Packets that earlier attachments have dropped.
    pub(super) dropped_before: u64,
    pub(super) stats: DatapathStats,
}

impl ServedDatapath {
    /// A share of the address, from the service whose socket [`socket_path`] names.
    ///
    /// With `seals` the client writes the ICRC of its packets, for captures and faults; otherwise the service does.
    ///
    /// # Errors
    ///
    /// [`AttachRefused`], which says what to do about it.
    pub fn open(local: SocketAddr, seals: bool) -> Result<Self, AttachRefused> {
        Self::open_at(&socket_path(), local, seals)
    }

    /// [`open`](Self::open) with the service at `socket`.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn open_at(socket: &Path, local: SocketAddr, seals: bool) -> Result<Self, AttachRefused> {
        let attachment = Attachment::open(socket, local)?;
        let no_descriptor = |source| {
            let (socket, address) = (socket.to_owned(), local.ip());
            AttachRefused::NoService { socket, address, source }
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|errno| no_descriptor(errno.into()))?;
        watch(&epoll, &attachment.control, CONTROL).map_err(no_descriptor)?;
        let rewake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let rewake = rewake.map_err(|errno| no_descriptor(errno.into()))?;
        watch(&epoll, &rewake, REWAKE).map_err(no_descriptor)?;
        let tx = if seals { IcrcTx::Seal } else { IcrcTx::Skip };
        Ok(Self {
            socket: socket.to_owned(),
            local,
            caps: attachment.served.caps(tx),
            slot: attachment.slot,
            token: attachment.token,
            service: ServiceState::Up(Box::new(attachment)),
            epoll,
            rewake,
            tx_buffer: vec![0; PACKET_ROOM].into_boxed_slice(),
            rx_buffer: vec![0; PACKET_ROOM].into_boxed_slice(),
            starts_batch: false,
            committed: 0,
            services: HashSet::new(),
            groups: HashSet::new(),
            requests: 0,
            calls: 0,
            links: PeerLinks::new(),
            turn: 0,
            dropped_before: 0,
            stats: DatapathStats::default(),
        })
    }

    /// Hands over packets from the service; returns how many, and the link that is to be opened before more are read.
    #[inline]
    fn read_ring(
        &mut self,
        limit: usize,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> Result<(usize, Option<u32>), io::Error> {
        let ServiceState::Up(attachment) = &mut self.service else { return Ok((0, None)) };
        let Attachment { memory, arrived, .. } = &mut **attachment;
        let bad = || io::Error::other("the service wrote what is no packet");
        let (mut count, mut mark) = (0, None);
        while count < limit {
            let Some(head) = arrived.next(memory).map_err(|_| bad())? else { break };
            mark = head::switched(&head);
            if mark.is_some() {
                arrived.take(memory, &mut [0; MIN_PAYLOAD]);
                break;
            }
            let head = ArrivedHead::decode(&head).ok_or_else(bad)?;
            let payload = &mut self.rx_buffer[..head.len];
            arrived.take(memory, payload);
            self.stats.count_received(payload.len());
            count += 1;
            sink(RxPacket {
                src: head.src,
                dst: SocketAddr::new(head.dst, self.local.port()),
                traffic_class: head.traffic_class,
                hop_limit: head.hop_limit,
                ip_id: head.ip_id,
                icrc_checked: head.icrc_checked,
                following: None,
                fate: None,
                payload,
            });
        }
        arrived.release(memory);
        Ok((count, mark))
    }

    /// [`read_ring`](Self::read_ring), and what is behind marks.
    #[inline]
    fn read_service(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        loop {
            match self.read_ring(limit - count, sink) {
                Ok((more, None)) => return count + more,
                Ok((more, Some(number))) => {
                    count += more;
                    self.open_link(number);
                }
                Err(error) => {
                    self.lose(&error);
                    return count;
                }
            }
        }
    }

    /// Hands over packets from the service and links. Each call begins with another one of them.
    #[inline]
    fn read_all(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let links = self.links.len();
        if links == 0 {
            return self.read_service(limit, sink);
        }
        self.turn = if self.turn < links { self.turn + 1 } else { 0 };
        let mut count = 0;
        for n in (self.turn..=links).chain(0..self.turn) {
            if count >= limit {
                break;
            }
            count += match n.checked_sub(1) {
                None => self.read_service(limit - count, sink),
                Some(link) => self.read_link(link, limit - count, sink),
            };
        }
        count
    }

    /// Shows the service what was written, and wakes it if it sleeps.
    #[inline]
    pub(super) fn publish(&mut self) {
        let ServiceState::Up(attachment) = &mut self.service else { return };
        let Attachment { memory, sent: ring, control, .. } = &mut **attachment;
        if !ring.publish(memory) {
            return;
        }
        // The service writes the word and then looks at the ring; here it is the other way round. The fence
        // keeps this order, so one of the two sees the other.
        fence(Ordering::SeqCst);
        if memory.load(SERVICE_SLEEPS) != 0 && memory.swap(SERVICE_SLEEPS, 0) != 0 {
            self.stats.syscalls += 1;
            control.send(&ClientMessage::Wake.encode()).ok();
        }
    }

    /// Reads what made the waiter readable.
    fn hear(&mut self) {
        self.stats.syscalls += 1;
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&now)) else { return };
        for event in events {
            match event.data.u64() {
                CONTROL => {
                    self.look();
                }
                REWAKE => {
                    rustix::io::read(&self.rewake, &mut [0; 8]).ok();
                }
                link => self.hear_link(link),
            }
        }
    }

    /// Writes the packet in the buffer to a link or to the service; false if it is lost.
    #[inline]
    fn push(&mut self, route: &Route, head: &SentHead) -> bool {
        let Self { links, local, tx_buffer, service, stats, .. } = self;
        let packet = &tx_buffer[..head.len];
        if links.len() > 0
            && route.dst.ip() == local.ip()
            && let Some(link) = links.to(packet[Slot::OFFSET])
        {
            return link.push(head, packet, &mut stats.syscalls);
        }
        match service {
            ServiceState::Up(attachment) => {
                attachment.sent.push(&attachment.memory, &head.encode(), packet)
            }
            ServiceState::Gone { .. } => false,
        }
    }
}

impl Datapath for ServedDatapath {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    /// The service finds the nearest port that its datapath can have.
    fn source_port(&mut self, wanted: u16) -> u16 {
        wanted
    }

    #[inline]
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        let full = match &mut self.service {
            ServiceState::Up(attachment) => !attachment.sent.has_room(&attachment.memory),
            ServiceState::Gone { .. } => false,
        };
        (!full).then_some(&mut self.tx_buffer)
    }

    #[inline]
    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        assert!(len <= PACKET_ROOM, "commit without tx_space");
        let packet = &mut self.tx_buffer[..len];
        seal(0, packet);
        let head = SentHead {
            dst: route.dst.ip(),
            src_port: route.src.port(),
            hop_limit: route.hop_limit.max(1),
            traffic_class: route.traffic_class,
            starts_batch: std::mem::take(&mut self.starts_batch),
            sealed: self.caps.icrc.tx == IcrcTx::Seal,
            len,
        };
        let pushed = len >= MIN_PAYLOAD && self.push(route, &head);
        if pushed {
            self.committed += 1;
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += len as u64;
        } else {
            self.stats.tx_dropped += 1;
        }
    }

    fn tx_break(&mut self) {
        self.starts_batch = true;
    }

    fn flush(&mut self) -> io::Result<Flush> {
        let sent = std::mem::take(&mut self.committed);
        self.links.publish(&mut self.stats.syscalls);
        self.publish();
        let ServiceState::Up(attachment) = &mut self.service else { return Ok(Flush::default()) };
        let blocked = !attachment.sent.has_room(&attachment.memory);
        self.stats.blocked += u64::from(blocked);
        Ok(Flush { sent, dropped: 0, blocked })
    }

    #[inline]
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        self.hear_of_links();
        let count = self.read_all(limit, sink);
        self.calls += if count == 0 { IDLE_CALL } else { 1 };
        if self.calls >= LOOK_INTERVAL {
            self.calls = 0;
            self.stats.syscalls += 1;
            self.notice_hang_up();
            self.switch_links();
        }
        if count == 0 && matches!(self.service, ServiceState::Gone { .. }) {
            self.find_service()?;
        }
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.hear();
        self.switch_links();
        let ServiceState::Up(attachment) = &self.service else { return false };
        attachment.memory.store(CLIENT_SLEEPS, 1);
        self.links.announce_sleep(true);
        // As in `flush`.
        fence(Ordering::SeqCst);
        let there = !attachment.arrived.is_empty(&attachment.memory) || self.links.have_packets();
        if there {
            self.disarm();
        }
        there
    }

    fn disarm(&mut self) {
        if let ServiceState::Up(attachment) = &self.service {
            attachment.memory.store(CLIENT_SLEEPS, 0);
        }
        self.links.announce_sleep(false);
    }

    fn poll_timeout(&self) -> Option<u64> {
        let ServiceState::Gone { next_try, .. } = &self.service else { return None };
        let left = next_try.saturating_duration_since(Instant::now()).max(RETRY_INTERVAL / 20);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now =
            u64::try_from(now.tv_sec).ok()? * 1_000_000_000 + u64::try_from(now.tv_nsec).ok()?;
        Some(now.saturating_add(u64::try_from(left.as_nanos()).ok()?))
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        check_group(&self.local, &group)?;
        self.ask(|number| ClientMessage::Join(number, group))?;
        self.groups.insert(group);
        Ok(())
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        if self.groups.remove(&group) {
            self.tell(&ClientMessage::Leave(group));
        }
        Ok(())
    }

    fn shared_port(&mut self) -> Option<&mut dyn SharedPort> {
        Some(self)
    }

    fn last_problem(&self) -> Option<String> {
        let ServiceState::Gone { since, .. } = &self.service else { return None };
        let seconds = since.elapsed().as_secs();
        Some(format!("the service at {} has gone {seconds} s ago", self.socket.display()))
    }

    fn stats(&self) -> DatapathStats {
        let dropped = match &self.service {
            ServiceState::Up(attachment) => u64::from(attachment.memory.load(DROPPED)),
            ServiceState::Gone { .. } => 0,
        };
        let rx_dropped = self.stats.rx_dropped + self.dropped_before + dropped;
        DatapathStats { rx_dropped, ..self.stats }
    }
}

impl SharedPort for ServedDatapath {
    fn slot(&self) -> Slot {
        self.slot
    }

    fn claim_service(&mut self, service: u64) -> io::Result<()> {
        if !self.services.contains(&service) {
            self.ask(|number| ClientMessage::Claim(number, service))?;
            self.services.insert(service);
        }
        Ok(())
    }

    fn release_service(&mut self, service: u64) {
        if self.services.remove(&service) {
            self.tell(&ClientMessage::Release(service));
        }
    }
}
