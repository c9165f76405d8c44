//! The datapath itself.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;
use uroce_datapath::{
    Caps, Datapath, DatapathStats, Flush, IcrcCaps, IcrcRx, IcrcTx, Route, RxPacket,
};
use uroce_link::{FrameReader, Neighbours, PortSocket, Router, StackTraffic};

use crate::config::XdpConfig;
use crate::error::XdpError;
use crate::mode::XdpMode;
use crate::open::{self, Link};
use crate::problem::Problem;
use crate::queue::{Pushed, Queue};
use crate::retry::Alarm;
use crate::rx_filters::RxFilters;
use crate::rx_queue::RxQueue;
use crate::tx_queue::{Tally, TxQueue};

/// Frames that one look at a ring can bring.
const RX_BATCH: usize = 64;

/// RoCEv2 over AF_XDP: the packets of one address bypass the kernel's network stack, both ways.
///
/// Everything else on the interface is left to the kernel. The redirect program is attached by a
/// link of this process: it vanishes with the datapath, and with the process however that ends.
#[derive(Debug)]
pub struct XdpDatapath {
    // Dropped first, so that packets are the kernel's again before the sockets close.
    rx_filters: Arc<RxFilters>,
    pub(crate) queues: Vec<Queue>,
    local: SocketAddr,
    caps: Caps,
    mode: XdpMode,
    /// Index of the queue that is read first next time, so that no queue starves.
    turn: usize,
    pub(crate) tx_queue: TxQueue,
    /// Packets committed since the last flush.
    committed: usize,
    rx_queue: RxQueue,
    /// Other engines have the address as well.
    shared: bool,
    /// Readable when any queue or the alarm is.
    epoll: OwnedFd,
    /// It watches the queues.
    watching: bool,
    alarm: Alarm,
    stats: DatapathStats,
}

/// What the datapaths of all engines begin with.
struct Common<'a> {
    config: &'a XdpConfig,
    link: &'a Link,
    local: SocketAddr,
    mode: XdpMode,
    engines: NonZeroU8,
}

impl Common<'_> {
    /// The datapath of the engine that has these queues.
    fn build(
        &self,
        queues: Vec<Queue>,
        neighbours: Neighbours,
        rx_filters: &Arc<RxFilters>,
    ) -> Result<XdpDatapath, XdpError> {
        let &Common { config, link, local, mode, engines } = self;
        let failed = |what| move |source| XdpError::explain(what, source);
        let alarm = Alarm::new().map_err(failed("making a timer"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(io::Error::from)
            .and_then(|epoll| watch(&epoll, &alarm).map(|()| epoll))
            .map_err(failed("opening an epoll descriptor"))?;
        let slots = config.transmit_slots.max(2) as usize;
        let batch = config.batch.clamp(1, slots / 2);
        let router = Router::new(neighbours, config.vlan);
        let shared = engines > NonZeroU8::MIN;
        let reader = if shared { FrameReader::of_several(local) } else { FrameReader::new(local) };
        Ok(XdpDatapath {
            rx_filters: Arc::clone(rx_filters),
            queues,
            local,
            caps: caps(link.home.mtu, batch, mode),
            mode,
            turn: 0,
            tx_queue: TxQueue::new(router, [link.home.index, link.index], slots / 2),
            committed: 0,
            rx_queue: RxQueue::new(reader, mode == XdpMode::Generic),
            shared,
            epoll,
            watching: false,
            alarm,
            stats: DatapathStats::default(),
        })
    }
}

impl XdpDatapath {
    /// Takes the receive queues of the interface and attaches the redirect program.
    ///
    /// # Errors
    ///
    /// [`XdpError`], which says what to do about it; nothing stays behind.
    pub fn open(config: &XdpConfig) -> Result<Self, XdpError> {
        let mut opened = Self::open_several(config, NonZeroU8::MIN)?;
        Ok(opened.remove(0))
    }

    /// Takes the queues for as many engines of this process: queue `q` is served by engine `q` modulo their
    /// number, and each sends by the first of its queues. The interface spreads packets as it does for any
    /// program, so that an engine also gets packets of others: see [`ChannelDatapath`](uroce_datapath::ChannelDatapath).
    ///
    /// # Errors
    ///
    /// [`XdpError`], which says what to do about it; nothing stays behind.
    pub fn open_several(config: &XdpConfig, engines: NonZeroU8) -> Result<Vec<Self>, XdpError> {
        let link = Link::find(config)?;
        let (port_socket, port) =
            PortSocket::open(config.local, link.home.index, StackTraffic::Rest).map_err(
                |error| match Errno::from_io_error(&error.source) {
                    Some(Errno::ADDRINUSE) => XdpError::PortBusy(config.local),
                    _ => XdpError::explain(error.what, error.source),
                },
            )?;
        let local = SocketAddr::new(config.local.ip(), port);
        // Asked first: what is missing is better said before the interface is touched.
        let neighbours = (0..engines.get())
            .map(|_| Neighbours::open(local.ip(), link.home))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|source| {
                XdpError::explain("asking for the neighbours of the interface", source)
            })?;
        let taken = open::take(config, &link, local, engines)?;
        tracing::debug!(
            interface = link.name,
            mode = taken.mode.name(),
            queues = link.queues,
            engines,
            multi_buffer = taken.queues[0][0].flags().multi_buffer,
            "AF_XDP"
        );
        let rx_filters = Arc::new(RxFilters::new(taken.steering, port_socket, local));
        let one = Common { config, link: &link, local, mode: taken.mode, engines };
        let each = taken.queues.into_iter().zip(neighbours);
        each.map(|(queues, neighbours)| one.build(queues, neighbours, &rx_filters)).collect()
    }

    /// The mode in which the interface works: never [`XdpMode::Auto`].
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Whether packets to `dst` are ours to receive too.
    #[inline]
    fn hears(&self, dst: &IpAddr) -> bool {
        let Self { shared, rx_filters, rx_queue, .. } = self;
        *dst == self.local.ip()
            || dst.is_multicast()
                && (*shared && rx_filters.hears_groups() || rx_queue.reader.groups.contains(dst))
    }

    /// Hands everything that can go to the kernel, packets that waited for an address first.
    fn push(&mut self) -> io::Result<(Tally, Pushed)> {
        let queue = &mut self.queues[0];
        let tally = self.tx_queue.settle(queue);
        self.stats.tx_packets += tally.sent as u64;
        self.stats.tx_bytes += tally.bytes;
        self.stats.tx_dropped += tally.dropped as u64;
        let pushed = queue.flush()?;
        self.stats.syscalls += pushed.calls;
        self.stats.tx_dropped += pushed.dropped;
        if pushed.dropped > 0 {
            self.tx_queue.problem = Some(Problem::Congested);
        }
        Ok((tally, pushed))
    }

    /// Lets the waiter watch the queues, or no more. A socket that is watched costs its sender a walk through
    /// the watchers for each packet.
    fn watch(&mut self, wanted: bool) {
        if self.watching == wanted {
            return;
        }
        self.watching = wanted;
        for queue in &self.queues {
            let done = match wanted {
                true => watch(&self.epoll, queue),
                false => epoll::delete(&self.epoll, queue).map_err(Into::into),
            };
            if let Err(error) = done {
                tracing::warn!(%error, "packets of a queue do not end the sleep");
            }
        }
    }

    /// Keeps a copy of the packet that is being committed, for ourselves.
    fn echo(&mut self, route: &Route, len: usize) {
        let payload = self.tx_queue.payload(&mut self.queues[0], len);
        let queued = self.rx_queue.echo(route, payload);
        if !queued {
            self.tx_queue.problem = Some(Problem::EchoFull);
        }
        if !route.dst.ip().is_multicast() {
            self.tx_queue.discard(&mut self.queues[0]);
            self.tx_queue.count(queued, len);
        }
    }
}

impl Datapath for XdpDatapath {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn source_port(&mut self, wanted: u16) -> u16 {
        wanted
    }

    #[inline]
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        if self.committed == self.caps.tx_batch {
            return None;
        }
        self.tx_queue.space(&mut self.queues[0])
    }

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        seal(0, self.tx_queue.payload(&mut self.queues[0], len));
        self.committed += 1;
        if self.hears(&route.dst.ip()) {
            self.echo(route, len);
        }
        if route.dst.ip() != self.local.ip() {
            self.tx_queue.send(&mut self.queues[0], route, len);
        }
    }

    fn flush(&mut self) -> io::Result<Flush> {
        self.committed = 0;
        let (tally, pushed) = self.push()?;
        let blocked = pushed.blocked || !self.queues[0].has_slot();
        self.stats.blocked += u64::from(blocked);
        let lost = usize::try_from(pushed.dropped).unwrap_or(usize::MAX);
        Ok(Flush {
            sent: tally.sent.saturating_sub(lost),
            dropped: tally.dropped.saturating_add(lost),
            blocked,
        })
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        if self.tx_queue.has_parked() {
            self.push()?;
        }
        self.turn = (self.turn + 1) % self.queues.len();
        let (later, first) = self.queues.split_at_mut(self.turn);
        let mut call = self.rx_queue.hand_over(limit, &mut self.stats, sink);
        for queue in first.iter_mut().chain(later) {
            if call.wants_more() {
                queue.receive(&mut |frame| call.unload(frame));
            }
        }
        let count = call.count();
        for queue in &mut self.queues {
            self.stats.syscalls += queue.wake_receiver();
        }
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.alarm.set(self.tx_queue.has_parked());
        // Watched first: what comes between the two is seen by one of them.
        self.watch(true);
        self.queues.iter_mut().for_each(Queue::prepare_sleep);
        let busy = self.rx_queue.has_packet() || self.queues.iter_mut().any(Queue::has_frame);
        if busy {
            self.watch(false);
        }
        busy
    }

    fn disarm(&mut self) {
        self.watch(false);
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        self.rx_filters.join(group)?;
        self.rx_queue.reader.groups.insert(group);
        Ok(())
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        self.rx_queue.reader.groups.remove(&group);
        self.rx_filters.leave(group)
    }

    fn last_problem(&self) -> Option<String> {
        self.tx_queue.problem.map(|problem| problem.to_string())
    }

    fn stats(&self) -> DatapathStats {
        let lost: u64 = self.queues.iter().map(Queue::lost).sum();
        let oversized = self.queues.iter().map(Queue::oversized).sum();
        let rx_dropped = self.stats.rx_dropped.saturating_add(lost);
        DatapathStats { rx_dropped, rx_truncated: oversized, ..self.stats }
    }
}

/// Makes `epoll` readable whenever `source` is.
fn watch(epoll: &OwnedFd, source: &impl AsFd) -> io::Result<()> {
    Ok(epoll::add(epoll, source, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
}

fn caps(mtu: usize, batch: usize, mode: XdpMode) -> Caps {
    Caps {
        name: "xdp",
        mtu,
        tx_batch: batch,
        rx_batch: RX_BATCH,
        icrc: IcrcCaps { rx: IcrcRx::Verify, tx: IcrcTx::Seal },
        segments: 1,
        in_place: 0,
        zero_copy: mode == XdpMode::ZeroCopy,
        headers_visible: true,
        needs: "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, and the interface to itself as far as XDP \
                goes",
    }
}
