//! A switch inside the process: packets pass between threads without the kernel.

mod inbox;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::inbox::{BATCH, Inbox, new_burst};
use crate::burst::{Burst, Cursor, Train};
use crate::caps::{Caps, DatapathStats, IcrcCaps, IcrcRx, IcrcTx};
use crate::packet::{IpId, RxPacket};
use crate::route::Route;
use crate::{Datapath, Flush};

/// Link MTU of a fabric unless told otherwise, as that of Linux's `lo`.
const DEFAULT_MTU: usize = 65_536;

/// Why an address could not be attached to a fabric.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The fabric has an endpoint with that address.
    #[error(
        "{0} is already attached to this in-process fabric: give each device an address of its own"
    )]
    AddressInUse(SocketAddr),
    /// The wake-up descriptor could not be made.
    #[error("no descriptor for the in-process fabric: {0} (raise the limit with `ulimit -n`)")]
    Descriptor(#[from] io::Error),
}

/// Who is where.
#[derive(Debug, Default)]
struct Directory {
    endpoints: HashMap<SocketAddr, Arc<Inbox>>,
    groups: HashMap<IpAddr, Vec<SocketAddr>>,
}

/// An in-process switch. Clones are the same switch.
#[derive(Debug, Clone)]
pub struct LoopbackFabric {
    directory: Arc<RwLock<Directory>>,
    mtu: usize,
}

impl Default for LoopbackFabric {
    fn default() -> Self {
        Self::new()
    }
}

impl LoopbackFabric {
    /// A switch without endpoints, with an MTU of 65,536 bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_mtu(DEFAULT_MTU)
    }

    /// A switch whose links have an MTU of `mtu` bytes, IP header included.
    #[must_use]
    pub fn with_mtu(mtu: usize) -> Self {
        Self { directory: Arc::default(), mtu }
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    ///
    /// [`AttachError`] when the address is taken or the process has no free descriptor.
    pub fn attach(&self, addr: SocketAddr) -> Result<LoopbackDatapath, AttachError> {
        let inbox = Arc::new(Inbox::new()?);
        let mut directory = self.write();
        if directory.endpoints.contains_key(&addr) {
            return Err(AttachError::AddressInUse(addr));
        }
        directory.endpoints.insert(addr, Arc::clone(&inbox));
        drop(directory);
        Ok(LoopbackDatapath::new(self.clone(), addr, inbox))
    }

    fn find(&self, addr: &SocketAddr) -> Option<Arc<Inbox>> {
        self.read().endpoints.get(addr).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Directory> {
        self.directory.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way out of an endpoint.
#[derive(Debug)]
struct Exit {
    fabric: LoopbackFabric,
    /// The endpoint of the last unicast send; most traffic has one peer.
    last: Option<(SocketAddr, Arc<Inbox>)>,
    wakes: u64,
}

impl Exit {
    /// The endpoint at `dst`, from the memory of the last send when possible.
    fn peer(&mut self, dst: &SocketAddr) -> Option<&Inbox> {
        let known = matches!(&self.last, Some((addr, inbox)) if addr == dst && !inbox.is_closed());
        if !known {
            self.last = self.fabric.find(dst).map(|inbox| (*dst, inbox));
        }
        self.last.as_ref().map(|(_, inbox)| &**inbox)
    }

    /// Sends the whole burst to its one destination; returns the packets nobody was there for.
    fn whole(&mut self, burst: &mut Burst, dst: &SocketAddr) -> usize {
        let Some(inbox) = self.peer(dst) else {
            let lost = burst.packets();
            burst.clear();
            return lost;
        };
        let woke = inbox.give(burst);
        self.wakes += u64::from(woke);
        0
    }

    /// Sends train by train; returns the packets nobody was there for.
    fn by_train(&mut self, burst: &mut Burst) -> usize {
        let mut lost = 0;
        for train in burst.trains() {
            let dst = train.route.dst;
            if dst.ip().is_multicast() {
                self.group(burst, train);
            } else if let Some(inbox) = self.peer(&dst) {
                let woke = inbox.give_copy(burst, train);
                self.wakes += u64::from(woke);
            } else {
                lost += train.packets;
            }
        }
        burst.clear();
        lost
    }

    /// Sends a train to every member of its group, ourselves included.
    fn group(&mut self, burst: &Burst, train: &Train) {
        let directory = self.fabric.read();
        let Some(members) = directory.groups.get(&train.route.dst.ip()) else {
            return;
        };
        let here = members.iter().filter(|addr| addr.port() == train.route.dst.port());
        for inbox in here.filter_map(|addr| directory.endpoints.get(addr)) {
            self.wakes += u64::from(inbox.give_copy(burst, train));
        }
    }
}

/// One endpoint of a [`LoopbackFabric`]. Dropping it detaches it.
#[derive(Debug)]
pub struct LoopbackDatapath {
    local: SocketAddr,
    caps: Caps,
    inbox: Arc<Inbox>,
    exit: Exit,
    outgoing: Burst,
    incoming: Burst,
    cursor: Cursor,
    /// Packets larger than the MTU since the last flush.
    oversize: usize,
    stats: DatapathStats,
}

impl LoopbackDatapath {
    fn new(fabric: LoopbackFabric, local: SocketAddr, inbox: Arc<Inbox>) -> Self {
        Self {
            local,
            caps: caps(fabric.mtu),
            inbox,
            exit: Exit { fabric, last: None, wakes: 0 },
            outgoing: new_burst(),
            incoming: new_burst(),
            cursor: Cursor::default(),
            oversize: 0,
            stats: DatapathStats::default(),
        }
    }
}

impl Datapath for LoopbackDatapath {
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
        if self.outgoing.packets() == BATCH {
            return None;
        }
        self.outgoing.space()
    }

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        if route.header_bytes() + len > self.caps.mtu {
            self.oversize += 1;
            return;
        }
        let (_, packet) = self.outgoing.commit(route, len);
        seal(0, packet);
    }

    fn flush(&mut self) -> io::Result<Flush> {
        let oversize = std::mem::take(&mut self.oversize);
        let (packets, bytes) = (self.outgoing.packets(), self.outgoing.bytes());
        let lost = match sole_destination(&self.outgoing) {
            Some(dst) => self.exit.whole(&mut self.outgoing, &dst),
            None => self.exit.by_train(&mut self.outgoing),
        };
        let flush = Flush { sent: packets - lost, dropped: lost + oversize, blocked: false };
        self.stats.tx_packets += flush.sent as u64;
        self.stats.tx_dropped += flush.dropped as u64;
        self.stats.tx_bytes += if lost == 0 { bytes as u64 } else { 0 };
        Ok(flush)
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let mut count = 0;
        while count < limit {
            if let Some((route, payload)) = self.incoming.next(&mut self.cursor) {
                self.stats.rx_bytes += payload.len() as u64;
                count += 1;
                sink(arrived(route, payload));
            } else if self.inbox.take(&mut self.incoming) {
                self.cursor = Cursor::default();
            } else {
                break;
            }
        }
        self.stats.rx_packets += count as u64;
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.incoming.next(&mut self.cursor.clone()).is_some() || self.inbox.arm()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.inbox.event()
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        check_group(&self.local, &group)?;
        let mut directory = self.exit.fabric.write();
        let members = directory.groups.entry(group).or_default();
        if !members.contains(&self.local) {
            members.push(self.local);
        }
        Ok(())
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        let mut directory = self.exit.fabric.write();
        if let Some(members) = directory.groups.get_mut(&group) {
            members.retain(|addr| *addr != self.local);
        }
        Ok(())
    }

    fn stats(&self) -> DatapathStats {
        DatapathStats {
            rx_dropped: self.inbox.dropped() as u64,
            syscalls: self.exit.wakes,
            ..self.stats
        }
    }
}

impl Drop for LoopbackDatapath {
    fn drop(&mut self) {
        self.inbox.close();
        let mut directory = self.exit.fabric.write();
        directory.endpoints.remove(&self.local);
        for members in directory.groups.values_mut() {
            members.retain(|addr| *addr != self.local);
        }
    }
}

/// The unicast destination of all packets, when there is just one.
fn sole_destination(burst: &Burst) -> Option<SocketAddr> {
    let (first, rest) = burst.trains().split_first()?;
    let dst = first.route.dst;
    let sole = !dst.ip().is_multicast() && rest.iter().all(|train| train.route.dst == dst);
    sole.then_some(dst)
}

/// What the receiver sees of a packet sent along `route`.
fn arrived<'a>(route: &Route, payload: &'a [u8]) -> RxPacket<'a> {
    RxPacket {
        src: route.src,
        dst: route.dst,
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit.max(1),
        ip_id: if route.dst.is_ipv4() { IpId::Known(0) } else { IpId::NotPresent },
        payload,
    }
}

/// Refuses what is no multicast group of the IP version of `local`.
pub(crate) fn check_group(local: &SocketAddr, group: &IpAddr) -> io::Result<()> {
    if group.is_multicast() && group.is_ipv4() == local.is_ipv4() {
        return Ok(());
    }
    let text = format!("{group} is not a multicast group that {} can join", local.ip());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

fn caps(mtu: usize) -> Caps {
    Caps {
        name: "loopback",
        mtu,
        tx_batch: BATCH,
        rx_batch: BATCH,
        icrc: IcrcCaps { rx: IcrcRx::Verify, tx: IcrcTx::Seal },
        segments: 1,
        zero_copy: true,
        headers_visible: true,
        needs: "nothing: both ends are in this process",
    }
}

#[cfg(test)]
mod tests;
