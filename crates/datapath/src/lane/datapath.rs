//! The share of one engine.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use uroce_wire::Slot;

use super::audience::Set;
use super::bell::Bell;
use super::parcel::Parcel;
use super::post::{Post, door};
use super::sorter::{Common, Sorter};
use crate::packet::RxPacket;
use crate::slot::GsiAddressee;
use crate::{Datapath, DatapathStats, Middleware};

/// One of up to 64 engines of a process, which has the address for itself.
///
/// Engine `n`, counted from 0, has slot `n + 1`. The datapath inside brings what the kernel gave this
/// engine; what belongs to another one is handed over in memory. A packet for a slot of none stays where it
/// arrived. The datapaths inside bring every packet to a group that any of them has joined, and one of them
/// may join what another one leaves.
#[derive(Debug)]
pub struct LaneDatapath<D> {
    inner: D,
    slot: Slot,
    sorter: Sorter,
    inlet: Receiver<Box<Parcel>>,
    /// A parcel that was not read to its end.
    open: Option<Box<Parcel>>,
    bells: Arc<[Bell]>,
    /// Readable when the datapath inside has packets, or another engine has brought some.
    epoll: OwnedFd,
    /// That of the datapath inside, which the epoll watches.
    _waiter: OwnedFd,
    adopted: DatapathStats,
}

impl<D: Datapath> LaneDatapath<D> {
    /// Most engines of one process.
    pub const MOST: usize = Set::BITS as usize;

    /// Shares for these datapaths, in the order of their engines.
    ///
    /// # Errors
    ///
    /// When the process has no free descriptor. EINVAL for more than [`MOST`](Self::MOST).
    pub fn gather(inners: Vec<D>, gsi: GsiAddressee) -> io::Result<Vec<Self>> {
        let count = inners.len();
        if count > Self::MOST {
            return Err(Errno::INVAL.into());
        }
        let bells: Arc<[Bell]> = (0..count).map(|_| Bell::new()).collect::<io::Result<_>>()?;
        let (doors, mail): (Vec<_>, Vec<_>) = (0..count).map(|_| door(count)).unzip();
        let doors: Arc<[_]> = doors.into();
        let common = Arc::new(Common::new(gsi));
        let each = inners.into_iter().zip(mail).enumerate();
        let share = |(own, (inner, mail))| {
            let (post, inlet) = Post::new(own, Arc::clone(&doors), Arc::clone(&bells), mail);
            let sorter = Sorter::new(own, count, Arc::clone(&common), post);
            Self::new(inner, sorter, inlet, Arc::clone(&bells))
        };
        each.map(share).collect()
    }

    fn new(
        inner: D,
        sorter: Sorter,
        inlet: Receiver<Box<Parcel>>,
        bells: Arc<[Bell]>,
    ) -> io::Result<Self> {
        let slot = u8::try_from(sorter.own + 1).ok().and_then(Slot::new).ok_or(Errno::INVAL)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waiter = inner.waiter()?;
        epoll::add(&epoll, &waiter, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&epoll, bells[sorter.own].as_fd(), EventData::new_u64(1), EventFlags::IN)?;
        let (open, adopted) = (None, DatapathStats::default());
        Ok(Self { inner, slot, sorter, inlet, open, bells, epoll, _waiter: waiter, adopted })
    }

    fn bell(&self) -> &Bell {
        &self.bells[self.sorter.own]
    }

    /// The parcel that came first.
    fn next_parcel(&self) -> Option<Box<Parcel>> {
        let parcel = self.inlet.try_recv().ok()?;
        self.bell().strike_off();
        Some(parcel)
    }

    /// Hands over what other engines had for us; returns how many packets.
    fn read_parcels(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while count < limit {
            let Some(mut parcel) = self.open.take().or_else(|| self.next_parcel()) else { break };
            let adopted = &mut self.adopted;
            count += parcel.packets.take(limit - count, &mut |rx| {
                adopted.rx_packets += 1;
                adopted.rx_bytes += rx.payload.len() as u64;
                sink(rx);
            });
            if parcel.packets.is_empty() {
                self.sorter.post.give_back(parcel);
            } else {
                self.open = Some(parcel);
            }
        }
        count
    }
}

impl<D: Datapath> Middleware for LaneDatapath<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn slot(&self) -> Option<Slot> {
        Some(self.slot)
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        // What others bring was received before what has not been read yet. But they leave us a share.
        let brought = self.open.is_some() || !self.bell().is_silent();
        let mut count = if brought { self.read_parcels(limit.div_ceil(2), sink) } else { 0 };
        let (own, sorter) = (self.slot.get(), &mut self.sorter);
        count += self.inner.recv(limit - count, &mut |rx| {
            if rx.payload.get(Slot::OFFSET) == Some(&own) || !sorter.pass_on(&rx) {
                sink(rx);
            }
        })?;
        self.sorter.post.settle(false);
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.sorter.post.settle(true);
        self.open.is_some() || self.bell().arm() || self.inner.arm()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        let Sorter { own, common, .. } = &self.sorter;
        common.audiences.join(group, *own, || self.inner.join(group))
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        let Sorter { own, common, .. } = &self.sorter;
        common.audiences.leave(group, *own, || self.inner.leave(group))
    }

    fn claim_service(&mut self, service: u64) -> io::Result<()> {
        let Sorter { own, common, .. } = &self.sorter;
        if *common.services().entry(service).or_insert(*own) == *own {
            return Ok(());
        }
        Err(Errno::ADDRINUSE.into())
    }

    fn release_service(&mut self, service: u64) {
        let Sorter { own, common, .. } = &self.sorter;
        let mut services = common.services();
        if services.get(&service) == Some(own) {
            services.remove(&service);
        }
    }

    fn stats(&self) -> DatapathStats {
        let Sorter { gone, unheard, post, .. } = &self.sorter;
        let stats = self.inner.stats();
        DatapathStats {
            rx_packets: stats.rx_packets + self.adopted.rx_packets - gone.rx_packets,
            rx_bytes: stats.rx_bytes + self.adopted.rx_bytes - gone.rx_bytes,
            rx_dropped: stats.rx_dropped + unheard,
            rx_adopted: self.adopted.rx_packets,
            rx_forwarded: post.counts.handed,
            rx_unforwarded: post.counts.lost,
            ..stats
        }
    }
}
