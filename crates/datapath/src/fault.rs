//! Faults on purpose: packets are lost, late, doubled, damaged or answered by rules.

mod comments;
mod counters;
mod reseal;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use uroce_fault::{Direction, FaultInjector, Origin, PacketMeta, Plan, Release, Verdict};
use uroce_wire::{DropReason, Flow, FlowIcrc, IcrcVerdict};

use self::comments::HeldComments;
pub use self::counters::{FaultCounters, FaultTally, RuleCount};
use self::reseal::reseal;
use crate::burst::PACKET_ROOM;
use crate::{
    Caps, Datapath, DatapathStats, Fate, Flush, IpId, Middleware, PcapWriter, Route, RxPacket,
};

/// When to try again what the datapath had no room for.
const RETRY_NS: u64 = 100_000;

/// A datapath around another that does to packets what the rules of a [`Plan`] say, both ways.
///
/// Rules see packets as they are on the wire, with their ICRC. What they do is a function of the seed and of the
/// order and times of the packets. While a rule looks at what is sent, every packet leaves alone.
pub struct FaultDatapath<D> {
    inner: D,
    injector: FaultInjector,
    caps: Caps,
    /// A rule looks at what is sent.
    watches_tx: bool,
    /// The start of the injector's time on CLOCK_MONOTONIC, in nanoseconds.
    origin: u64,
    /// The packet that is being written.
    outgoing: Box<[u8]>,
    /// About it.
    comments: Vec<String>,
    /// About packets that rules hold.
    held: HeldComments,
    identify: Identify,
    recorder: Option<PcapWriter>,
    tally: FaultTally,
    rx_dropped: u64,
    /// When to send again what the datapath had no room for.
    retry_at: Option<u64>,
}

impl<D: Datapath> std::fmt::Debug for FaultDatapath<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultDatapath").field("local", &self.inner.local()).finish_non_exhaustive()
    }
}

impl<D: Datapath> FaultDatapath<D> {
    /// Does what the rules of `plan` say, and counts it in `counters`, which is of the same plan.
    pub fn new(inner: D, plan: &Plan, seed: u64, counters: Arc<FaultCounters>) -> Self {
        let watches_tx = plan.watches(Direction::Tx);
        let caps = inner.caps().clone();
        let segments = if watches_tx { 1 } else { caps.segments };
        Self {
            injector: FaultInjector::new(plan, seed),
            caps: Caps { segments, ..caps },
            watches_tx,
            origin: monotonic(),
            outgoing: vec![0; PACKET_ROOM].into_boxed_slice(),
            comments: Vec::new(),
            held: HeldComments::default(),
            identify: Identify::new(!plan.only_drops(Direction::Rx)),
            recorder: None,
            tally: FaultTally::new(counters),
            rx_dropped: 0,
            retry_at: None,
            inner,
        }
    }

    /// Records packets that never leave to the interface of the capture that `recorder` writes to.
    #[must_use]
    pub fn recording(self, recorder: PcapWriter) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(monotonic().saturating_sub(self.origin))
    }

    /// Commits what is due and goes out, as far as the inner datapath has room. True if something was committed.
    fn release_sent(&mut self) -> bool {
        let now = self.now();
        let mut some = false;
        while self.inner.tx_space().is_some() {
            let Some(release) = self.injector.poll_packet_of(Direction::Tx, now) else {
                return some;
            };
            leave(&mut self.inner, &release, &self.held);
            some = true;
        }
        self.retry_at.get_or_insert_with(|| monotonic().saturating_add(RETRY_NS));
        some
    }

    /// Sends what packets that arrived have brought about, and what was late.
    fn send_released(&mut self) -> io::Result<()> {
        let late = self.retry_at.is_some_and(|at| at <= monotonic());
        if late {
            self.retry_at = None;
        }
        if self.release_sent() || late {
            self.flush_inner()?;
        }
        Ok(())
    }

    fn flush_inner(&mut self) -> io::Result<Flush> {
        let flush = self.inner.flush();
        let blocked = flush.as_ref().map_or(true, |flush| flush.blocked);
        self.retry_at = blocked.then(|| monotonic().saturating_add(RETRY_NS));
        flush
    }

    /// Shows the packet to the rules; it leaves if they let it pass.
    fn judge(&mut self, route: &Route, len: usize) {
        let meta = PacketMeta {
            direction: Direction::Tx,
            flow: flow(route.src, route.dst),
            ip_id: 0,
            traffic_class: route.traffic_class,
            tag: self.held.tag(route.hop_limit, &self.comments),
        };
        let (now, packet) = (self.now(), &self.outgoing[..len]);
        match self.injector.handle_packet(now, &meta, packet) {
            Verdict::Pass => {
                self.comments.iter().for_each(|comment| self.inner.tx_comment(comment));
                // A copy was made, say, or a rule let it pass by name.
                if let Some(faults) = said(self.injector.faults()) {
                    self.inner.tx_comment(faults);
                }
                commit(&mut self.inner, route, &meta, packet);
            }
            Verdict::Taken => self.held.keep(meta.tag, std::mem::take(&mut self.comments)),
            Verdict::Dropped => {
                if let Some(recorder) = &self.recorder {
                    let comments = self.comments.iter().map(String::as_str);
                    let said: Vec<&str> = comments.chain(said(self.injector.faults())).collect();
                    recorder.sent(route, 0, packet, &said);
                }
            }
        }
        self.comments.clear();
    }
}

impl<D: Datapath> Middleware for FaultDatapath<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn tx_space(&mut self) -> Option<&mut [u8]> {
        if !self.watches_tx {
            return self.inner.tx_space();
        }
        self.inner.tx_space()?;
        Some(&mut self.outgoing)
    }

    fn tx_comment(&mut self, comment: &str) {
        if !self.watches_tx {
            self.inner.tx_comment(comment);
        } else if self.recorder.is_some() {
            self.comments.push(comment.to_owned());
        }
    }

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        if !self.watches_tx {
            return self.inner.tx_commit(route, len, seal);
        }
        seal(0, &mut self.outgoing[..len]);
        self.judge(route, len);
        self.release_sent();
    }

    fn flush(&mut self) -> io::Result<Flush> {
        let mut flush = self.flush_inner()?;
        while !flush.blocked && self.release_sent() {
            let more = self.flush_inner()?;
            flush = Flush {
                sent: flush.sent + more.sent,
                dropped: flush.dropped + more.dropped,
                blocked: more.blocked,
            };
        }
        self.tally.update(&self.injector);
        Ok(flush)
    }

    /// Returns how many packets came, those that were dropped included: 0 still means that nothing is left.
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let now = self.now();
        let Self { inner, injector, identify, rx_dropped, .. } = self;
        let mut arrivals = Arrivals { injector, now };
        let late = arrivals.release(sink);
        let received = inner.recv(limit, &mut |packet| {
            *rx_dropped += u64::from(arrivals.handle(&identify.meta(&packet), &packet, sink));
        })?;
        self.send_released()?;
        self.tally.update(&self.injector);
        Ok(received + late)
    }

    fn arm(&mut self) -> bool {
        Middleware::poll_timeout(self).is_some_and(|at| at <= monotonic()) || self.inner.arm()
    }

    fn poll_timeout(&self) -> Option<u64> {
        let [sent, received] = [Direction::Tx, Direction::Rx].map(|direction| {
            let due = self.injector.poll_timeout_of(direction);
            due.map(|at| self.origin.saturating_add(nanoseconds(at)))
        });
        // What has no room waits for it, however long it has been due.
        let sent = self.retry_at.or(sent);
        [sent, received, self.inner.poll_timeout()].into_iter().flatten().min()
    }

    /// Those of the inner datapath, with what rules dropped among the dropped.
    fn stats(&self) -> DatapathStats {
        let inner = self.inner.stats();
        DatapathStats { rx_dropped: inner.rx_dropped + self.rx_dropped, ..inner }
    }
}

/// What deals with packets while the datapath receives.
struct Arrivals<'a> {
    injector: &'a mut FaultInjector,
    now: Duration,
}

impl Arrivals<'_> {
    /// Shows a packet to the rules, and hands to `sink` what goes on now. True if it was dropped.
    fn handle(
        &mut self,
        meta: &PacketMeta,
        packet: &RxPacket<'_>,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> bool {
        let verdict = self.injector.handle_packet(self.now, meta, packet.payload);
        if verdict == Verdict::Pass {
            sink(RxPacket { following: None, ..*packet });
        }
        match packet.fate {
            Some(fate) => {
                let what = said(self.injector.faults()).map(Box::from);
                let drop = self.release_recorded(meta, sink);
                fate.replace_with(|told| fate_of(what, told, drop));
            }
            None => _ = self.release(sink),
        }
        verdict == Verdict::Dropped
    }

    /// Hands what is due and comes in to `sink`; returns how many.
    fn release(&mut self, sink: &mut dyn FnMut(RxPacket<'_>)) -> usize {
        let mut count = 0;
        while let Some(release) = self.injector.poll_packet_of(Direction::Rx, self.now) {
            sink(received(&release));
            count += 1;
        }
        count
    }

    /// The same; returns why the packet itself, which `meta` is of, had no effect. Its copies, and packets that were
    /// held before it, have fates of their own.
    fn release_recorded(
        &mut self,
        meta: &PacketMeta,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> Option<DropReason> {
        let mut own = None;
        while let Some(release) = self.injector.poll_packet_of(Direction::Rx, self.now) {
            let is_own = release.origin == Origin::Packet
                && (release.meta.flow, release.meta.ip_id) == (meta.flow, meta.ip_id);
            let fate = RefCell::default();
            sink(RxPacket { fate: Some(&fate), ..received(&release) });
            if let (true, Fate::Dropped(reason)) = (is_own, fate.into_inner()) {
                own = Some(reason);
            }
        }
        own
    }
}

/// What became of a packet: what a rule did to it, and why it had no effect, which the device told at once, or about what
/// reached it in its place.
fn fate_of(what: Option<Box<str>>, told: &Fate, released: Option<DropReason>) -> Fate {
    let drop = match told {
        Fate::Dropped(reason) => Some(*reason),
        _ => released,
    };
    match (what, drop) {
        (Some(what), drop) => Fate::Faulted { what, drop },
        (None, Some(reason)) => Fate::Dropped(reason),
        (None, None) => Fate::Taken,
    }
}

/// A comment, if there is one.
fn said(faults: &str) -> Option<&str> {
    Some(faults).filter(|faults| !faults.is_empty())
}

/// What the device sees of a packet that rules let go on.
fn received<'a>(release: &Release<'a>) -> RxPacket<'a> {
    let PacketMeta { flow, ip_id, traffic_class, tag, .. } = release.meta;
    RxPacket {
        src: SocketAddr::new(flow.src, flow.src_port),
        dst: SocketAddr::new(flow.dst, flow.dst_port),
        traffic_class,
        hop_limit: tag as u8,
        ip_id: if flow.is_ipv4() { IpId::Known(ip_id) } else { IpId::NotPresent },
        icrc_checked: false,
        following: None,
        fate: None,
        payload: release.packet,
    }
}

/// Hands a packet that rules let go on to the datapath, which has room.
fn leave(inner: &mut impl Datapath, release: &Release<'_>, held: &HeldComments) {
    let PacketMeta { flow, traffic_class, tag, .. } = release.meta;
    // An answer in our place leaves by a source port that the datapath has.
    let port = match release.origin {
        Origin::Answer => inner.source_port(flow.src_port),
        _ => flow.src_port,
    };
    let route = Route {
        src: SocketAddr::new(flow.src, port),
        dst: SocketAddr::new(flow.dst, flow.dst_port),
        hop_limit: tag as u8,
        traffic_class,
    };
    if release.origin == Origin::Packet {
        held.of(tag).iter().for_each(|comment| inner.tx_comment(comment));
    }
    if let Some(faults) = said(release.faults) {
        inner.tx_comment(faults);
    }
    commit(inner, &route, &release.meta, release.packet);
}

/// Commits a packet that was sealed as `meta` says, alone. The datapath has room.
fn commit(inner: &mut impl Datapath, route: &Route, meta: &PacketMeta, packet: &[u8]) {
    inner.tx_break();
    let Some(room) = inner.tx_space().and_then(|space| space.get_mut(..packet.len())) else {
        return;
    };
    room.copy_from_slice(packet);
    let sealed = (meta.flow, meta.ip_id);
    inner.tx_commit(route, packet.len(), &mut |ip_id, bytes| {
        reseal(sealed, (flow(route.src, route.dst), ip_id), bytes);
    });
}

fn flow(src: SocketAddr, dst: SocketAddr) -> Flow {
    Flow { src: src.ip(), dst: dst.ip(), src_port: src.port(), dst_port: dst.port() }
}

/// Finds the IPv4 identifications that a datapath does not see, which takes an ICRC of each packet.
#[derive(Debug, Default)]
struct Identify {
    /// A packet may be handed on later, or with another ICRC.
    is_needed: bool,
    icrc: FlowIcrc,
    last: u16,
}

impl Identify {
    fn new(is_needed: bool) -> Self {
        Self { is_needed, ..Self::default() }
    }

    fn meta(&mut self, packet: &RxPacket<'_>) -> PacketMeta {
        let flow = flow(packet.src, packet.dst);
        let ip_id = match packet.ip_id {
            IpId::Hidden(_) if !self.is_needed => 0,
            IpId::Hidden(place) => self.recover(&flow, place, packet.payload),
            known => known.known_or_zero(),
        };
        PacketMeta {
            direction: Direction::Rx,
            flow,
            ip_id,
            traffic_class: packet.traffic_class,
            tag: packet.hop_limit.into(),
        }
    }

    /// With a wrong ICRC any number will do.
    fn recover(&mut self, flow: &Flow, place: u16, payload: &[u8]) -> u16 {
        let likely = if place == 0 { self.last } else { self.last.wrapping_add(1) };
        match self.icrc.recover(flow, &[likely], payload) {
            IcrcVerdict::Predicted(id) | IcrcVerdict::Solved(id) => {
                self.last = id;
                id
            }
            IcrcVerdict::Valid | IcrcVerdict::Bad => 0,
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// CLOCK_MONOTONIC in nanoseconds.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, ns] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

#[cfg(test)]
mod tests;
