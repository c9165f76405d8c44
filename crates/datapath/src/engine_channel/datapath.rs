//! The datapath of one engine.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rustix::io::Errno;
use uroce_wire::Slot;

use super::demux::{Demux, Shared};
use super::membership::Set;
use super::packet_batch::PacketBatch;
use super::sender::{Sender, channel};
use super::wakeup::Wakeup;
use crate::joint_waiter::JointWaiter;
use crate::packet::RxPacket;
use crate::shared_port::GsiTarget;
use crate::{Datapath, DatapathStats, Middleware, Recipient, SharedPort};

/// One of up to 64 engines of a process, which has the address for itself.
///
/// Engine `n`, counted from 0, has slot `n + 1`. The inner datapath receives what the kernel steers
/// to this engine; packets of another engine are redirected in memory. A packet for an unknown slot
/// stays where it arrived. The inner datapaths receive every packet to a group that any of them has
/// joined, and one of them may join what another one leaves.
#[derive(Debug)]
pub struct ChannelDatapath<D> {
    inner: D,
    slot: Slot,
    demux: Demux,
    inlet: Receiver<Box<PacketBatch>>,
    /// A batch that is partly read.
    open: Option<Box<PacketBatch>>,
    wakeups: Arc<[Wakeup]>,
    /// Readable when the inner datapath has packets, or another engine has sent some.
    waiter: JointWaiter,
    adopted: DatapathStats,
}

impl<D: Datapath> ChannelDatapath<D> {
    /// Most engines of one process.
    pub const MAX_ENGINES: usize = Set::BITS as usize;

    /// The datapaths of all engines around these inner ones, in the order of the engines.
    ///
    /// # Errors
    ///
    /// When the process has no free descriptor. EINVAL for more than [`MAX_ENGINES`](Self::MAX_ENGINES).
    pub fn connect(inners: Vec<D>, gsi: GsiTarget) -> io::Result<Vec<Self>> {
        let count = inners.len();
        if count > Self::MAX_ENGINES {
            return Err(Errno::INVAL.into());
        }
        let wakeups: Arc<[Wakeup]> =
            (0..count).map(|_| Wakeup::new()).collect::<io::Result<_>>()?;
        let (channels, ends): (Vec<_>, Vec<_>) = (0..count).map(|_| channel(count)).unzip();
        let channels: Arc<[_]> = channels.into();
        let shared = Arc::new(Shared::new(gsi));
        let each = inners.into_iter().zip(ends).enumerate();
        let share = |(own, (inner, ends))| {
            let (sender, inlet) =
                Sender::new(own, Arc::clone(&channels), Arc::clone(&wakeups), ends);
            let demux = Demux::new(own, count, Arc::clone(&shared), sender);
            Self::new(inner, demux, inlet, Arc::clone(&wakeups))
        };
        each.map(share).collect()
    }

    fn new(
        inner: D,
        demux: Demux,
        inlet: Receiver<Box<PacketBatch>>,
        wakeups: Arc<[Wakeup]>,
    ) -> io::Result<Self> {
        let slot = u8::try_from(demux.own + 1).ok().and_then(Slot::new).ok_or(Errno::INVAL)?;
        let waiter = JointWaiter::new(&inner, wakeups[demux.own].as_fd())?;
        let (open, adopted) = (None, DatapathStats::default());
        Ok(Self { inner, slot, demux, inlet, open, wakeups, waiter, adopted })
    }

    fn wakeup(&self) -> &Wakeup {
        &self.wakeups[self.demux.own]
    }

    /// The oldest batch in the channel.
    fn next_batch(&self) -> Option<Box<PacketBatch>> {
        let batch = self.inlet.try_recv().ok()?;
        self.wakeup().cancel();
        Some(batch)
    }

    /// Delivers packets that other engines have redirected; returns their number.
    fn read_batches(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while count < limit {
            let Some(mut batch) = self.open.take().or_else(|| self.next_batch()) else { break };
            let adopted = &mut self.adopted;
            count += batch.packets.take(limit - count, &mut |rx| {
                adopted.count_received(rx.payload.len());
                sink(rx);
            });
            if batch.packets.is_empty() {
                self.demux.sender.give_back(batch);
            } else {
                self.open = Some(batch);
            }
        }
        count
    }
}

impl<D: Datapath> Middleware for ChannelDatapath<D> {
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
        // Redirected packets were received before those that are still in the socket. Half of the
        // limit is left for the latter.
        let brought = self.open.is_some() || !self.wakeup().is_empty();
        let mut count = if brought { self.read_batches(limit.div_ceil(2), sink) } else { 0 };
        let (own, demux) = (self.slot.get(), &mut self.demux);
        count += self.inner.recv(limit - count, &mut |rx| {
            if rx.payload.get(Slot::OFFSET) == Some(&own) || !demux.redirect(&rx) {
                sink(rx);
            }
        })?;
        self.demux.sender.send_filled(false);
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.demux.sender.send_filled(true);
        self.open.is_some() || self.wakeup().arm() || self.inner.arm()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.waiter.waiter()
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        let Demux { own, shared, .. } = &self.demux;
        shared.membership.join(group, *own, || self.inner.join(group))
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        let Demux { own, shared, .. } = &self.demux;
        shared.membership.leave(group, *own, || self.inner.leave(group))
    }

    fn stats(&self) -> DatapathStats {
        let Demux { redirected, without_member, sender, .. } = &self.demux;
        let stats = self.inner.stats();
        DatapathStats {
            rx_packets: stats.rx_packets + self.adopted.rx_packets - redirected.rx_packets,
            rx_bytes: stats.rx_bytes + self.adopted.rx_bytes - redirected.rx_bytes,
            rx_dropped: stats.rx_dropped + without_member,
            rx_adopted: self.adopted.rx_packets,
            rx_forwarded: sender.counts.handed,
            rx_unforwarded: sender.counts.lost,
            ..stats
        }
    }
}

impl<D: Datapath> SharedPort for ChannelDatapath<D> {
    fn slot(&self) -> Slot {
        self.slot
    }

    fn claim_service(&mut self, service: u64) -> io::Result<()> {
        let Demux { own, shared, .. } = &self.demux;
        if *shared.services().entry(service).or_insert(*own) == *own {
            return Ok(());
        }
        Err(Errno::ADDRINUSE.into())
    }

    fn release_service(&mut self, service: u64) {
        let Demux { own, shared, .. } = &self.demux;
        let mut services = shared.services();
        if services.get(&service) == Some(own) {
            services.remove(&service);
        }
    }
}
