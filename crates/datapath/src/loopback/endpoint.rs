//! The datapath of one address of a fabric.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use super::LoopbackFabric;
use super::inbox::{BATCH, BATCH_BYTES, new_burst};
use super::sender::Sender;
use super::unwoken::LoopbackEndpoint;
use crate::burst::{Burst, Cursor};
use crate::caps::{Caps, DatapathStats, IcrcCaps, IcrcRx, IcrcTx};
use crate::group::check_group;
use crate::packet::{IpId, RxPacket};
use crate::route::Route;
use crate::{Datapath, Flush};

/// One endpoint of a [`LoopbackFabric`]. Dropping it detaches it.
#[derive(Debug)]
pub struct LoopbackDatapath {
    local: SocketAddr,
    caps: Caps,
    endpoint: LoopbackEndpoint,
    sender: Sender,
    outgoing: Burst,
    incoming: Burst,
    cursor: Cursor,
    /// Packets larger than the MTU since the last flush.
    oversize: usize,
    stats: DatapathStats,
}

impl LoopbackDatapath {
    pub(super) fn new(
        fabric: LoopbackFabric,
        local: SocketAddr,
        endpoint: LoopbackEndpoint,
    ) -> Self {
        Self {
            local,
            caps: caps(fabric.mtu, fabric.sealed),
            endpoint,
            sender: Sender::new(fabric),
            outgoing: new_burst(),
            incoming: new_burst(),
            cursor: Cursor::default(),
            oversize: 0,
            stats: DatapathStats::default(),
        }
    }

    /// The handle of this endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &LoopbackEndpoint {
        &self.endpoint
    }

    /// From now on the caller sees to [assisted](LoopbackEndpoint::set_assisted) receivers that got
    /// packets: it takes them with [`next_unwoken`](Self::next_unwoken) after each flush, and polls
    /// their datapaths or [wakes](LoopbackEndpoint::wake) them.
    pub fn defer_wakeups(&mut self) {
        self.sender.unwoken.is_used = true;
    }

    /// The oldest assisted receiver that got packets and was not woken.
    #[inline]
    pub fn next_unwoken(&mut self) -> Option<LoopbackEndpoint> {
        self.sender.unwoken.pop()
    }

    /// The endpoint at `dst`.
    pub fn find(&mut self, dst: &SocketAddr) -> Option<&LoopbackEndpoint> {
        self.sender.find(dst)
    }

    /// Notifies the receiver at `dst` as if it had got packets.
    pub fn notify(&mut self, dst: &SocketAddr) {
        self.sender.notify(dst);
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
        if self.outgoing.packets() == BATCH || self.outgoing.bytes() >= BATCH_BYTES {
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
        let lost = self.sender.send(&mut self.outgoing);
        let (sent, dropped) = (packets - lost.packets, lost.packets + oversize);
        let flush = Flush { sent, dropped, blocked: false };
        self.stats.tx_packets += flush.sent as u64;
        self.stats.tx_dropped += flush.dropped as u64;
        self.stats.tx_bytes += (bytes - lost.bytes) as u64;
        Ok(flush)
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let mut count = 0;
        while count < limit {
            if let Some((route, payload)) = self.incoming.next(&mut self.cursor) {
                self.stats.rx_bytes += payload.len() as u64;
                count += 1;
                sink(arrived(route, payload));
            } else if self.endpoint.0.pop(&mut self.incoming) {
                self.cursor = Cursor::default();
            } else {
                break;
            }
        }
        self.stats.rx_packets += count as u64;
        Ok(count)
    }

    fn arm(&mut self) -> bool {
        self.incoming.next(&mut self.cursor.clone()).is_some() || self.endpoint.0.arm()
    }

    fn waiter(&self) -> io::Result<OwnedFd> {
        self.endpoint.0.event()
    }

    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        check_group(&self.local, &group)?;
        let mut directory = self.sender.fabric.write();
        let members = directory.groups.entry(group).or_default();
        if !members.contains(&self.local) {
            members.push(self.local);
        }
        Ok(())
    }

    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        let mut directory = self.sender.fabric.write();
        if let Some(members) = directory.groups.get_mut(&group) {
            members.retain(|addr| *addr != self.local);
        }
        Ok(())
    }

    fn stats(&self) -> DatapathStats {
        DatapathStats {
            rx_dropped: self.endpoint.0.dropped() as u64,
            syscalls: self.sender.wakes,
            ..self.stats
        }
    }
}

impl Drop for LoopbackDatapath {
    fn drop(&mut self) {
        self.endpoint.0.close();
        let mut directory = self.sender.fabric.write();
        directory.endpoints.remove(&self.local);
        for members in directory.groups.values_mut() {
            members.retain(|addr| *addr != self.local);
        }
    }
}

/// What the receiver sees of a packet sent along `route`.
fn arrived<'a>(route: &Route, payload: &'a [u8]) -> RxPacket<'a> {
    RxPacket {
        src: route.src,
        dst: route.dst,
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit.max(1),
        ip_id: if route.dst.is_ipv4() { IpId::Known(0) } else { IpId::NotPresent },
        icrc_checked: false,
        following: None,
        fate: None,
        payload,
    }
}

fn caps(mtu: usize, sealed: bool) -> Caps {
    let icrc = if sealed {
        IcrcCaps { rx: IcrcRx::Verify, tx: IcrcTx::Seal }
    } else {
        IcrcCaps { rx: IcrcRx::Skip, tx: IcrcTx::Skip }
    };
    Caps {
        name: "loopback",
        mtu,
        tx_batch: BATCH,
        rx_batch: BATCH,
        icrc,
        segments: 1,
        in_place: 0,
        zero_copy: true,
        headers_visible: true,
        needs: "nothing: both ends are in this process",
    }
}
