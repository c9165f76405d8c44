//! A datapath on an address that several processes share.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use socket2::Socket;
use uroce_datapath::{
    Datapath, DatapathStats, GsiTarget, JointWaiter, Middleware, Recipient, RxPacket, SharedPort,
};
use uroce_host::fork::keep_from_children;
use uroce_host::{BindError, check_local};
use uroce_wire::Slot;

use super::demux::Demux;
use super::inbox::{Inbox, Received};
use super::lease::{JoinLock, SlotLease};
use super::message;
use super::namespace::{PortNamespace, listen};
use super::redirect_thread::RedirectThread;
use super::steer::{SocketIndices, steer};
use super::steering_prober::SteeringProber;
use crate::udp::{UdpConfig, UdpDatapath};
use crate::uring::{UringDatapath, UringError};

/// One of up to 254 processes of one user that have devices on one address at the same time.
///
/// Each has a [`Slot`], the upper 8 bits of its queue pair numbers, until it ends. The kernel
/// steers a packet to the process whose slot its QPN names. The steering may be wrong when
/// processes have come and gone; a process redirects misrouted packets to their owner.
#[derive(Debug)]
pub struct SlotDatapath<D> {
    inner: D,
    slot: Slot,
    namespace: PortNamespace,
    demux: Demux,
    inbox: Arc<Inbox>,
    /// A message, and the bytes of its packets that are delivered already.
    open: Option<(Received, usize)>,
    /// Receive calls in a row after which the socket had more packets, and messages waited.
    deferrals: usize,
    redirect_thread: RedirectThread,
    /// Readable when the inner datapath has packets, or the inbox has messages.
    waiter: JointWaiter,
    adopted: DatapathStats,
}

impl SlotDatapath<UdpDatapath> {
    /// A shared port on UDP sockets.
    ///
    /// # Errors
    ///
    /// [`BindError`], which says what to do about it.
    pub fn udp(config: &UdpConfig, gsi: GsiTarget) -> Result<Self, BindError> {
        join(config, gsi, UdpDatapath::bind, UdpDatapath::receive_socket)
    }
}

impl SlotDatapath<UringDatapath> {
    /// A shared port on UDP sockets that are used by io_uring.
    ///
    /// # Errors
    ///
    /// [`UringError`], which says what to do about it.
    pub fn uring(config: &UdpConfig, gsi: GsiTarget) -> Result<Self, UringError> {
        join(config, gsi, UringDatapath::bind, UringDatapath::receive_socket)
    }
}

/// Misrouted packets after which the steering is probed.
const MISROUTED_BEFORE_PROBING: usize = 64;

/// Most receive calls that messages wait.
const MAX_DEFERRALS: usize = 16;

/// Takes a slot, binds the port, and configures the steering.
fn join<D, E>(
    config: &UdpConfig,
    gsi: GsiTarget,
    bind: impl FnOnce(&UdpConfig) -> Result<D, E>,
    socket: impl FnOnce(&D) -> &Socket,
) -> Result<SlotDatapath<D>, E>
where
    D: Datapath,
    E: From<BindError>,
{
    check_local(&config.local)?;
    let local = config.local;
    let failed = |what| move |error| BindError::explain(what, local, error);
    let namespace = PortNamespace::of(local).map_err(failed("opening a UDP socket"))?;
    let join_lock = JoinLock::enter(namespace).map_err(failed("waiting for other processes"))?;
    let lease = SlotLease::take(namespace).map_err(failed("taking a slot"))?;
    let lease = lease.ok_or_else(|| BindError::no_slot(local, namespace.foreign_peers()))?;
    let inner = bind(&UdpConfig { shared: true, ..*config })?;
    let member = socket(&inner).try_clone().map_err(failed("copying a descriptor"))?;
    keep_from_children(&member);
    let others = namespace.slots_taken().map_or(0, |slots| slots.len().saturating_sub(1));
    if others == 0 {
        steer(&member, &SocketIndices::new()).map_err(failed("steering packets"))?;
    }
    drop(join_lock);
    let in_order = others + 1 == usize::from(lease.slot.get());
    let steering_prober = SteeringProber::new(lease.slot, namespace, member.into());
    let datapath = SlotDatapath::new(inner, lease, (namespace, gsi), steering_prober)
        .map_err(failed("opening descriptors"))?;
    if !in_order {
        datapath.redirect_thread.probe();
    }
    Ok(datapath)
}

impl<D: Datapath> SlotDatapath<D> {
    fn new(
        inner: D,
        lease: SlotLease,
        (namespace, gsi): (PortNamespace, GsiTarget),
        steering_prober: SteeringProber,
    ) -> io::Result<Self> {
        let SlotLease { slot, socket } = lease;
        let inbox = Arc::new(Inbox::new()?);
        let waiter = JointWaiter::new(&inner, inbox.as_fd())?;
        Ok(Self {
            inner,
            slot,
            namespace,
            demux: Demux::new(slot, namespace, gsi),
            redirect_thread: RedirectThread::start(
                Arc::clone(&inbox),
                socket,
                (namespace, steering_prober),
            )?,
            inbox,
            open: None,
            deferrals: 0,
            waiter,
            adopted: DatapathStats::default(),
        })
    }

    /// Delivers packets that other processes have redirected; returns their number. They are never
    /// redirected again.
    fn read_messages(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while count < limit {
            let next = self.open.take().or_else(|| Some((self.inbox.take()?, 0)));
            let Some((message, mut offset)) = next else { break };
            let Some((whole, size)) = message::read(&message.bytes[..message.len]) else {
                self.adopted.rx_dropped += 1;
                self.inbox.recycle(message.bytes);
                continue;
            };
            count += whole.hand_over(size, &mut offset, limit - count, &mut self.adopted, sink);
            if offset < whole.payload.len() {
                self.open = Some((message, offset));
            } else {
                self.inbox.recycle(message.bytes);
            }
        }
        count
    }
}

impl<D: Datapath> Middleware for SlotDatapath<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn tx_packets(&self) -> usize {
        self.inner.tx_packets()
    }

    fn tx_only_to(&mut self, recipient: Option<Recipient>) {
        self.inner.tx_only_to(recipient);
    }

    fn tx_in_place(&mut self, packets: usize) {
        self.inner.tx_in_place(packets);
    }

    fn shared_port(&mut self) -> Option<&mut dyn SharedPort> {
        Some(self)
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        // Redirected packets were sent after those that the socket had before packets were
        // misrouted: they are read when the socket is empty, unless that takes too long.
        let messages = self.open.is_some() || !self.inbox.is_empty();
        let late = messages && self.deferrals >= MAX_DEFERRALS;
        let share = if late { limit / 2 } else { limit };
        let (own, demux) = (self.slot.get(), &mut self.demux);
        let mut count = 0;
        loop {
            let got = self.inner.recv(share - count, &mut |rx| {
                if rx.payload.get(Slot::OFFSET) == Some(&own) || !demux.redirect(&rx) {
                    sink(rx);
                }
            })?;
            count += got;
            // Only 0 says that the socket is empty.
            if got == 0 || count == share || !messages {
                break;
            }
        }
        demux.send_message();
        if demux.misrouted >= MISROUTED_BEFORE_PROBING {
            demux.misrouted = 0;
            self.redirect_thread.probe();
        }
        if messages && (late || count < share) {
            self.deferrals = 0;
            count += self.read_messages(limit - count, sink);
        } else if messages {
            self.deferrals += 1;
        }
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.inner.arm() | self.inbox.arm() || self.open.is_some()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.waiter.waiter()
    }

    fn stats(&self) -> DatapathStats {
        let (stats, forwarded) = (self.inner.stats(), self.demux.counts);
        DatapathStats {
            rx_packets: (stats.rx_packets + self.adopted.rx_packets)
                .saturating_sub(forwarded.packets - forwarded.copies),
            rx_bytes: (stats.rx_bytes + self.adopted.rx_bytes)
                .saturating_sub(forwarded.bytes - forwarded.copied_bytes),
            rx_dropped: stats.rx_dropped + self.adopted.rx_dropped,
            rx_adopted: self.adopted.rx_packets,
            rx_forwarded: forwarded.packets - forwarded.lost - forwarded.probes,
            rx_unforwarded: forwarded.lost,
            ..stats
        }
    }
}

impl<D: Datapath> SharedPort for SlotDatapath<D> {
    fn slot(&self) -> Slot {
        self.slot
    }

    fn claim_service(&mut self, service: u64) -> io::Result<()> {
        if self.demux.services.contains_key(&service) {
            return Ok(());
        }
        let listener = listen(&self.namespace.service(service)?)?;
        let number = self.redirect_thread.open(listener)?;
        self.demux.services.insert(service, number);
        Ok(())
    }

    fn release_service(&mut self, service: u64) {
        if let Some(number) = self.demux.services.remove(&service) {
            self.redirect_thread.close(number);
        }
    }
}
