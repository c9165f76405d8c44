//! A datapath on an address that several processes share.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use socket2::{Domain, Socket, Type};
use uroce_wire::Slot;

use super::claim::{Claim, Door};
use super::inbox::{Arrived, Inbox};
use super::letter;
use super::place::{Place, listen};
use super::porter::Porter;
use super::sorter::{GsiAddressee, Sorter};
use super::steer::{Places, steer};
use super::survey::Surveyor;
use crate::fork::keep_from_children;
use crate::packet::RxPacket;
use crate::udp::link::{Link, scoped};
use crate::udp::{BindError, UdpConfig, UdpDatapath, check_local};
use crate::uring::{UringDatapath, UringError};
use crate::{Datapath, DatapathStats, Middleware};

/// One of up to 254 processes of one user that have devices on one address at the same time.
///
/// Each has a [`Slot`], the upper 8 bits of its queue pair numbers, until it ends. The kernel is told to
/// give a packet to the process whose slot it names. It may be wrong about that when processes have
/// come and gone; whoever gets a packet of another process hands it over.
#[derive(Debug)]
pub struct SlotDatapath<D> {
    inner: D,
    slot: Slot,
    place: Place,
    sorter: Sorter,
    inbox: Arc<Inbox>,
    /// A letter, and how many bytes of its packets are handed over already.
    open: Option<(Arrived, usize)>,
    /// Turns in which the socket had more than was asked for, and letters waited.
    waited: usize,
    porter: Porter,
    /// Readable when the datapath inside has packets, or the inbox.
    epoll: OwnedFd,
    /// That of the datapath inside, which the epoll watches.
    _waiter: OwnedFd,
    adopted: DatapathStats,
}

impl SlotDatapath<UdpDatapath> {
    /// A share of UDP sockets.
    ///
    /// # Errors
    ///
    /// [`BindError`], which says what to do about it.
    pub fn udp(config: &UdpConfig, gsi: GsiAddressee) -> Result<Self, BindError> {
        join(config, gsi, UdpDatapath::bind, UdpDatapath::receive_socket)
    }
}

impl SlotDatapath<UringDatapath> {
    /// A share of UDP sockets that are used by io_uring.
    ///
    /// # Errors
    ///
    /// [`UringError`], which says what to do about it.
    pub fn uring(config: &UdpConfig, gsi: GsiAddressee) -> Result<Self, UringError> {
        join(config, gsi, UringDatapath::bind, UringDatapath::receive_socket)
    }
}

/// Packets that go astray before something is done about it.
const MANY: usize = 64;

/// Turns that letters wait for at most.
const MAX_WAIT: usize = 16;

/// Takes a slot, binds, and tells the kernel whose packets are whose.
fn join<D, E>(
    config: &UdpConfig,
    gsi: GsiAddressee,
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
    let place = place(local).map_err(failed("opening a UDP socket"))?;
    let door = Door::enter(place).map_err(failed("waiting for other processes"))?;
    let claim = Claim::take(place).map_err(failed("taking a slot"))?;
    let claim = claim.ok_or_else(|| BindError::no_slot(local, place.foreigners()))?;
    let inner = bind(&UdpConfig { shared: true, ..*config })?;
    let member = socket(&inner).try_clone().map_err(failed("copying a descriptor"))?;
    keep_from_children(&member);
    let others = place.slots_taken().map_or(0, |slots| slots.len().saturating_sub(1));
    if others == 0 {
        steer(&member, &Places::new()).map_err(failed("steering packets"))?;
    }
    drop(door);
    let in_order = others + 1 == usize::from(claim.slot.get());
    let surveyor = Surveyor::new(claim.slot, local, place, member.into());
    let datapath = SlotDatapath::new(inner, claim, (place, gsi), surveyor)
        .map_err(failed("opening descriptors"))?;
    if !in_order {
        datapath.porter.survey();
    }
    Ok(datapath)
}

/// The place of the address, of which every process must have the same idea.
pub(super) fn place(local: SocketAddr) -> io::Result<Place> {
    let asker = Socket::new(Domain::for_address(local), Type::DGRAM.cloexec(), None)?;
    Ok(Place::new(scoped(local, Link::of(local.ip(), &asker).index)))
}

impl<D: Datapath> SlotDatapath<D> {
    fn new(
        inner: D,
        claim: Claim,
        (place, gsi): (Place, GsiAddressee),
        surveyor: Surveyor,
    ) -> io::Result<Self> {
        let Claim { slot, socket } = claim;
        let inbox = Arc::new(Inbox::new()?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waiter = inner.waiter()?;
        epoll::add(&epoll, &waiter, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&epoll, inbox.as_fd(), EventData::new_u64(1), EventFlags::IN)?;
        Ok(Self {
            inner,
            slot,
            place,
            sorter: Sorter::new(slot, place, gsi),
            porter: Porter::start(Arc::clone(&inbox), socket, (place, surveyor))?,
            inbox,
            open: None,
            waited: 0,
            epoll,
            _waiter: waiter,
            adopted: DatapathStats::default(),
        })
    }

    /// Hands over what other processes had for us; returns how many packets. They are never handed
    /// on again.
    fn read_letters(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while count < limit {
            let next = self.open.take().or_else(|| Some((self.inbox.take()?, 0)));
            let Some((letter, mut offset)) = next else { break };
            let Some((whole, size)) = letter::read(&letter.bytes[..letter.len]) else {
                self.adopted.rx_dropped += 1;
                self.inbox.recycle(letter.bytes);
                continue;
            };
            count += whole.hand_over(size, &mut offset, limit - count, &mut self.adopted, sink);
            if offset < whole.payload.len() {
                self.open = Some((letter, offset));
            } else {
                self.inbox.recycle(letter.bytes);
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

    fn slot(&self) -> Option<Slot> {
        Some(self.slot)
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        // What a letter brings was sent after what the socket had before the packets went astray: it is
        // read when the socket is empty, unless that takes too long.
        let letters = self.open.is_some() || !self.inbox.is_empty();
        let late = letters && self.waited >= MAX_WAIT;
        let share = if late { limit / 2 } else { limit };
        let (own, sorter) = (self.slot.get(), &mut self.sorter);
        let mut count = 0;
        loop {
            let got = self.inner.recv(share - count, &mut |rx| {
                if rx.payload.get(Slot::OFFSET) == Some(&own) || !sorter.pass_on(&rx) {
                    sink(rx);
                }
            })?;
            count += got;
            // Only 0 says that the socket is empty.
            if got == 0 || count == share || !letters {
                break;
            }
        }
        sorter.send_letter();
        if sorter.astray >= MANY {
            sorter.astray = 0;
            self.porter.survey();
        }
        if letters && (late || count < share) {
            self.waited = 0;
            count += self.read_letters(limit - count, sink);
        } else if letters {
            self.waited += 1;
        }
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.inner.arm() | self.inbox.arm() || self.open.is_some()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    fn claim_service(&mut self, service: u64) -> io::Result<()> {
        if self.sorter.services.contains_key(&service) {
            return Ok(());
        }
        let entrance = listen(&self.place.service(service)?)?;
        let number = self.porter.open(entrance)?;
        self.sorter.services.insert(service, number);
        Ok(())
    }

    fn release_service(&mut self, service: u64) {
        if let Some(number) = self.sorter.services.remove(&service) {
            self.porter.close(number);
        }
    }

    fn stats(&self) -> DatapathStats {
        let (stats, sorted) = (self.inner.stats(), self.sorter.counts);
        DatapathStats {
            rx_packets: (stats.rx_packets + self.adopted.rx_packets).saturating_sub(sorted.packets),
            rx_bytes: (stats.rx_bytes + self.adopted.rx_bytes).saturating_sub(sorted.bytes),
            rx_dropped: stats.rx_dropped + self.adopted.rx_dropped,
            rx_adopted: self.adopted.rx_packets,
            rx_forwarded: sorted.packets - sorted.lost - sorted.probes,
            rx_unforwarded: sorted.lost,
            ..stats
        }
    }
}
