//! The datapath of a client.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use uroce_datapath::{
    Caps, Datapath, DatapathStats, Flush, IcrcTx, PACKET_ROOM, Route, RxPacket, SharedPort,
    check_group,
};
use uroce_wire::Slot;

use super::attachment::{AttachRefused, Attachment, await_message, request};
use crate::control::ControlSocket;
use crate::head::{ArrivedHead, MIN_PAYLOAD, SentHead};
use crate::message::{ClientMessage, ServiceMessage, Token};
use crate::ring::{CLIENT_SLEEPS, DROPPED, SERVICE_SLEEPS};
use crate::socket_path;

/// Time to wait for the outcome of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for which a service that has gone is waited for: it may be restarted.
const RETURN_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between two attempts to find it.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Receive calls without a packet after which the connection is looked at. A datapath that sleeps is woken.
const LOOK_INTERVAL: u32 = 512;

/// The service as the client sees it.
#[derive(Debug)]
enum Service {
    /// It has our rings.
    Up(Box<Attachment>),
    /// It has gone, and perhaps come back.
    Gone { since: Instant, next_try: Instant, asked: Option<ControlSocket> },
}

/// A share of an address whose port a service holds, for processes of any user.
///
/// When the service goes, packets are lost until it has come back, at most 30 s; then the client has the same slot
/// again.
#[derive(Debug)]
pub struct ServedDatapath {
    socket: PathBuf,
    local: SocketAddr,
    caps: Caps,
    service: Service,
    slot: Slot,
    token: Token,
    /// Readable when the service has something to say.
    epoll: OwnedFd,
    /// The packet that is being written, and the one that is being read.
    tx_buffer: Box<[u8]>,
    rx_buffer: Box<[u8]>,
    starts_batch: bool,
    committed: usize,
    services: HashSet<u64>,
    groups: HashSet<IpAddr>,
    /// Number of the last request.
    requests: u32,
    calls_without_packet: u32,
    /// Packets that earlier attachments have dropped.
    dropped_before: u64,
    stats: DatapathStats,
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
        watch(&epoll, &attachment.control).map_err(no_descriptor)?;
        let tx = if seals { IcrcTx::Seal } else { IcrcTx::Skip };
        Ok(Self {
            socket: socket.to_owned(),
            local,
            caps: attachment.served.caps(tx),
            slot: attachment.slot,
            token: attachment.token,
            service: Service::Up(Box::new(attachment)),
            epoll,
            tx_buffer: vec![0; PACKET_ROOM].into_boxed_slice(),
            rx_buffer: vec![0; PACKET_ROOM].into_boxed_slice(),
            starts_batch: false,
            committed: 0,
            services: HashSet::new(),
            groups: HashSet::new(),
            requests: 0,
            calls_without_packet: 0,
            dropped_before: 0,
            stats: DatapathStats::default(),
        })
    }

    /// Reads what the service has said; finds out that it has gone.
    fn look(&mut self) {
        let Service::Up(attachment) = &self.service else { return };
        loop {
            match attachment.control.receive() {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => return self.lose(&error),
            }
        }
    }

    #[cold]
    fn lose(&mut self, error: &io::Error) {
        if let Service::Up(attachment) = &self.service {
            tracing::warn!(%error, socket = %self.socket.display(), "the service that holds the port has gone");
            self.dropped_before += u64::from(attachment.memory.load(DROPPED));
        }
        let now = Instant::now();
        self.service = Service::Gone { since: now, next_try: now, asked: None };
    }

    /// Asks the service for our place if it is back, and takes it when it is given.
    #[cold]
    fn find_service(&mut self) -> io::Result<()> {
        let Service::Gone { since, next_try, asked } = &mut self.service else { return Ok(()) };
        let now = Instant::now();
        if now.duration_since(*since) > RETURN_TIMEOUT {
            return Err(self.never_back("it did not come back within 30 s"));
        }
        let Some(control) = asked else {
            if now >= *next_try {
                *next_try = now + RETRY_INTERVAL;
                *asked = request(&self.socket, self.local, Some((self.slot, self.token))).ok();
                if let Some(control) = asked {
                    watch(&self.epoll, control)?;
                }
            }
            return Ok(());
        };
        match control.receive() {
            Ok(None) => Ok(()),
            Ok(Some(answer)) => {
                let Some(control) = asked.take() else { return Ok(()) };
                match Attachment::complete(control, answer) {
                    Ok(Ok(attachment)) => self.take_place(attachment),
                    Ok(Err(why)) => return Err(self.never_back(&why)),
                    Err(error) => tracing::debug!(%error, "the service gave no place"),
                }
                Ok(())
            }
            Err(_) => {
                *asked = None;
                Ok(())
            }
        }
    }

    /// Our place is ours again: the service learns what we had.
    fn take_place(&mut self, attachment: Attachment) {
        for service in &self.services {
            attachment.control.send(&ClientMessage::Claim(0, *service).encode()).ok();
        }
        for group in &self.groups {
            attachment.control.send(&ClientMessage::Join(0, *group).encode()).ok();
        }
        tracing::info!(slot = %self.slot, "the service that holds the port is back");
        self.token = attachment.token;
        self.service = Service::Up(Box::new(attachment));
    }

    /// The error that ends the device.
    fn never_back(&self, why: &str) -> io::Error {
        let text = format!(
            "the service at {}, which holds UDP port {} of {}, has gone: {why}; start it, and open the device again",
            self.socket.display(),
            self.local.port(),
            self.local.ip()
        );
        io::Error::new(io::ErrorKind::NotConnected, text)
    }

    /// Sends a request and waits for its outcome.
    fn ask(&mut self, message: impl Fn(u32) -> ClientMessage) -> io::Result<()> {
        self.requests = self.requests.wrapping_add(1).max(1);
        let number = self.requests;
        let Service::Up(attachment) = &self.service else {
            return Err(self.never_back("it is not back yet"));
        };
        let sent = attachment.control.send(&message(number).encode());
        let end = Instant::now() + REQUEST_TIMEOUT;
        let outcome = sent.map_err(io::Error::from).and_then(|()| {
            loop {
                let Some(answer) = await_message(&attachment.control, end)? else {
                    return Ok(Errno::TIMEDOUT.raw_os_error());
                };
                match ServiceMessage::decode(answer.bytes()) {
                    Some(ServiceMessage::Done(done, errno)) if done == number => return Ok(errno),
                    _ => {}
                }
            }
        });
        match outcome {
            Ok(0) => Ok(()),
            Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
            Err(error) => {
                self.lose(&error);
                Err(error)
            }
        }
    }

    fn tell(&self, message: &ClientMessage) {
        if let Service::Up(attachment) = &self.service {
            attachment.control.send(&message.encode()).ok();
        }
    }

    /// Hands over packets from the ring; returns how many.
    #[inline]
    fn read_ring(
        &mut self,
        limit: usize,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> Result<usize, io::Error> {
        let Service::Up(attachment) = &mut self.service else { return Ok(0) };
        let Attachment { memory, arrived, .. } = &mut **attachment;
        let bad = || io::Error::other("the service wrote what is no packet");
        let mut count = 0;
        while count < limit {
            let Some(head) = arrived.next(memory).map_err(|_| bad())? else { break };
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
                fate: None,
                payload,
            });
        }
        arrived.release(memory);
        Ok(count)
    }
}

fn watch(epoll: &OwnedFd, socket: impl AsFd) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, EventData::new_u64(0), EventFlags::IN)?)
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
            Service::Up(attachment) => !attachment.sent.has_room(&attachment.memory),
            Service::Gone { .. } => false,
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
        let pushed = match &mut self.service {
            Service::Up(attachment) if len >= MIN_PAYLOAD => {
                attachment.sent.push(&attachment.memory, &head.encode(), packet)
            }
            _ => false,
        };
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
        let Service::Up(attachment) = &mut self.service else { return Ok(Flush::default()) };
        let Attachment { memory, sent: ring, control, .. } = &mut **attachment;
        if ring.publish(memory) {
            // The service writes the word and then looks at the ring; here it is the other way round. The fence
            // keeps this order, so one of the two sees the other.
            fence(Ordering::SeqCst);
            if memory.load(SERVICE_SLEEPS) != 0 && memory.swap(SERVICE_SLEEPS, 0) != 0 {
                self.stats.syscalls += 1;
                control.send(&ClientMessage::Wake.encode()).ok();
            }
        }
        let blocked = !ring.has_room(memory);
        self.stats.blocked += u64::from(blocked);
        Ok(Flush { sent, dropped: 0, blocked })
    }

    #[inline]
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        match self.read_ring(limit, sink) {
            Ok(0) => {}
            Ok(count) => {
                self.calls_without_packet = 0;
                return Ok(count);
            }
            Err(error) => self.lose(&error),
        }
        self.calls_without_packet += 1;
        if self.calls_without_packet >= LOOK_INTERVAL {
            self.calls_without_packet = 0;
            self.stats.syscalls += 1;
            self.look();
        }
        if matches!(self.service, Service::Gone { .. }) {
            self.find_service()?;
        }
        Ok(0)
    }

    fn arm(&mut self) -> bool {
        self.stats.syscalls += 1;
        self.look();
        let Service::Up(attachment) = &self.service else { return false };
        attachment.memory.store(CLIENT_SLEEPS, 1);
        // As in `flush`.
        fence(Ordering::SeqCst);
        let there = !attachment.arrived.is_empty(&attachment.memory);
        if there {
            attachment.memory.store(CLIENT_SLEEPS, 0);
        }
        there
    }

    fn disarm(&mut self) {
        if let Service::Up(attachment) = &self.service {
            attachment.memory.store(CLIENT_SLEEPS, 0);
        }
    }

    fn poll_timeout(&self) -> Option<u64> {
        let Service::Gone { next_try, .. } = &self.service else { return None };
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
        let Service::Gone { since, .. } = &self.service else { return None };
        let seconds = since.elapsed().as_secs();
        Some(format!("the service at {} has gone {seconds} s ago", self.socket.display()))
    }

    fn stats(&self) -> DatapathStats {
        let dropped = match &self.service {
            Service::Up(attachment) => u64::from(attachment.memory.load(DROPPED)),
            Service::Gone { .. } => 0,
        };
        DatapathStats { rx_dropped: self.dropped_before + dropped, ..self.stats }
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
