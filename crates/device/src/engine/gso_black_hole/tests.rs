//! A way through the network that swallows GSO batches.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use uroce_datapath::{
    Caps, Datapath, DatapathStats, Flush, LoopbackDatapath, LoopbackFabric, Route, RxPacket,
};
use uroce_memory::{Access, Lkey, PdId, Region, Rkey, Sge};
use uroce_transport::{
    AddressVector, CompletionQueue, CqId, Features, QpAttr, QpAttrMask as M, QpCaps, QpInit,
    QpState, QpType, QueuePair, SendData, SendFlags, SendOp, SendWr, Wc,
};
use uroce_wire::{Mtu, Qpn};

use super::*;
use crate::clock::{Clock, VirtualClock};
use crate::engine::{Engine, EngineBuilder};
use crate::limits::DeviceLimits;
use crate::local::EngineDatapath;

/// A packet that waits for the flush.
struct Waiting {
    route: Route,
    bytes: Vec<u8>,
    /// It rides behind the one before it.
    rides: bool,
}

/// Passes packets that travel alone, and no GSO batch.
struct Swallower {
    inner: LoopbackDatapath,
    caps: Caps,
    space: Vec<u8>,
    waiting: Vec<Waiting>,
    parted: bool,
    swallowed: u64,
    /// Packets whose route was called into question; told as soft errors.
    distrusted: u64,
}

impl Swallower {
    fn new(inner: LoopbackDatapath) -> Self {
        let caps = Caps { segments: 64, ..*inner.caps() };
        let space = vec![0; 4096 + 128];
        let waiting = Vec::new();
        Self { inner, caps, space, waiting, parted: false, swallowed: 0, distrusted: 0 }
    }
}

impl Datapath for Swallower {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn local(&self) -> SocketAddr {
        self.inner.local()
    }
    fn source_port(&mut self, wanted: u16) -> u16 {
        self.inner.source_port(wanted)
    }
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        (self.waiting.len() < 512).then_some(&mut self.space)
    }
    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        let mut bytes = self.space[..len].to_vec();
        seal(0, &mut bytes);
        let parted = std::mem::take(&mut self.parted);
        let last = self.waiting.last();
        let rides = !parted && last.is_some_and(|l| l.route == *route && l.bytes.len() >= len);
        self.waiting.push(Waiting { route: *route, bytes, rides });
    }
    fn tx_break(&mut self) {
        self.parted = true;
    }
    fn tx_distrust(&mut self) {
        self.distrusted += 1;
    }
    fn flush(&mut self) -> io::Result<Flush> {
        let waiting = std::mem::take(&mut self.waiting);
        for (index, packet) in waiting.iter().enumerate() {
            if packet.rides || waiting.get(index + 1).is_some_and(|next| next.rides) {
                self.swallowed += 1;
                continue;
            }
            if self.inner.tx_space().is_none() {
                self.inner.flush()?;
            }
            let len = packet.bytes.len();
            self.inner.tx_space().expect("flushed")[..len].copy_from_slice(&packet.bytes);
            self.inner.tx_commit(&packet.route, len, &mut |_, _| {});
        }
        self.inner.flush()
    }
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        self.inner.recv(limit, sink)
    }
    fn waiter(&self) -> io::Result<OwnedFd> {
        self.inner.waiter()
    }
    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        self.inner.join(group)
    }
    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        self.inner.leave(group)
    }
    fn stats(&self) -> DatapathStats {
        let (tx_dropped, soft_errors) = (self.swallowed, self.distrusted);
        DatapathStats { tx_dropped, soft_errors, ..self.inner.stats() }
    }
}

/// One end of a connection.
struct End {
    engine: Engine,
    time: VirtualClock,
    pd: PdId,
    cq: CqId,
    region: Region,
    rkey: Rkey,
    lkey: Lkey,
}

const QPN: Qpn = Qpn::new(0x77);
const BYTES: usize = 300_000;

fn addr(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, last]), 4791)
}

impl End {
    fn new(fabric: &LoopbackFabric, own: u8, peer: u8, time: &VirtualClock) -> End {
        let datapath = Swallower::new(fabric.attach(addr(own)).expect("free"));
        let limits = DeviceLimits::default();
        let (clock, time) = (Clock::new(Some(time.clone())), time.clone());
        let builder = EngineBuilder::new(addr(own), (Mtu::M1024, 1), [own; 32], limits, clock);
        let mut engine = builder.build(EngineDatapath::Other(Box::new(datapath)), 0);
        let tables = &mut engine.nic.tables;
        let pd = tables.mem.alloc_pd().expect("a PD");
        let cq = tables.cqs.insert(CompletionQueue::new(64));
        let region = Region::alloc(BYTES).expect("memory");
        let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let mr = tables.mem.reg_mr(pd, region.clone(), region.addr(), all).expect("an MR");
        let mut end = End { engine, time, pd, cq, region, rkey: mr.rkey, lkey: mr.lkey };
        end.connect(own, peer);
        end
    }

    fn connect(&mut self, own: u8, peer: u8) {
        let caps = QpCaps { max_send_wr: 8, max_send_sge: 1, ..QpCaps::default() };
        let init = QpInit {
            qpn: QPN,
            qp_type: QpType::Rc,
            pd: self.pd,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            xrcd: None,
            caps,
            signal_all: true,
            port_mtu: Mtu::M1024,
        };
        let mut qp = QueuePair::new(&init).expect("a QP");
        qp.set_features(Features { tail_probes: true, ..Features::default() });
        self.engine.nic.qps.insert(qp, init);
        let attr = QpAttr {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
            av: Some(AddressVector::new(addr(own).ip(), addr(peer).ip())),
            path_mtu: Mtu::M1024,
            timeout: 12,
            retry_cnt: 7,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            dest_qpn: QPN.get(),
            ..QpAttr::default()
        };
        let rtr = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let steps = [
            (QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS),
            (QpState::Rtr, rtr | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER),
            (
                QpState::Rts,
                M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC,
            ),
        ];
        for (state, mask) in steps {
            let attr = QpAttr { state, ..attr };
            let now = self.engine.clock.now();
            let Engine { nic, datapath, .. } = &mut self.engine;
            let done = nic.modify_qp(now, QPN, &attr, mask | M::STATE, &mut **datapath);
            done.expect("a legal transition");
        }
    }

    fn post(&mut self, op: SendOp, length: usize) {
        let sge = Sge { addr: self.region.addr(), length: length as u32, lkey: self.lkey };
        let sges = [sge];
        let data = SendData::Sges(&sges);
        let wr = SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, data, ud: None, srqn: None };
        let now = self.engine.clock.now();
        let nic = &mut self.engine.nic;
        let entry = nic.qps.get_mut(QPN).expect("inserted");
        entry.qp.post_send(now, &wr, &mut nic.tables.context()).expect("posted");
        self.engine.nic.reschedule(QPN);
    }

    fn done(&mut self) -> Option<Wc> {
        let mut out = [Wc::default()];
        let count = self.engine.nic.tables.cqs.get_mut(self.cq)?.poll(&mut out);
        (count > 0).then_some(out[0])
    }
}

/// Drives both ends until `a` has a completion; each poll iteration takes some time.
fn complete(a: &mut End, b: &mut End) {
    let done = (0..200_000).find_map(|_| {
        a.engine.poll_once();
        b.engine.poll_once();
        a.time.advance(Duration::from_micros(50));
        a.done()
    });
    let done = done.expect("something gets through");
    assert!(done.is_ok(), "{done}");
}

/// Two ends with one clock.
fn ends() -> (End, End) {
    let fabric = LoopbackFabric::without_icrc();
    let time = VirtualClock::new();
    (End::new(&fabric, 1, 2, &time), End::new(&fabric, 2, 1, &time))
}

fn bytes(end: &End) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    end.region.read(0, &mut bytes).expect("inside");
    bytes
}

#[test]
fn a_write_arrives_where_trains_are_swallowed_and_the_next_one_without_delay() {
    let (mut a, mut b) = ends();
    let data: Vec<u8> = (0..BYTES).map(|i| (i / 7) as u8).collect();
    a.region.write(0, &data).expect("inside");
    let op = SendOp::Write { va: b.region.addr(), rkey: b.rkey };
    a.post(op, BYTES);
    complete(&mut a, &mut b);
    assert_eq!(bytes(&b), data);
    let swallowed = a.engine.datapath.stats().tx_dropped;
    let distrusted = a.engine.datapath.stats().soft_errors;
    assert!(swallowed > 0 && distrusted > 0, "{swallowed}, {distrusted}");
    assert_eq!(a.engine.nic.gso_black_holes.detected, 1);
    a.post(op, BYTES);
    complete(&mut a, &mut b);
    let stats = a.engine.datapath.stats();
    assert_eq!(stats.tx_dropped, swallowed, "no train was tried");
    assert_eq!(stats.soft_errors, distrusted, "single packets arrive");
}

#[test]
fn a_read_arrives_where_the_responder_s_trains_are_swallowed() {
    let (mut a, mut b) = ends();
    let data: Vec<u8> = (0..BYTES).map(|i| (i / 3) as u8).collect();
    b.region.write(0, &data).expect("inside");
    a.post(SendOp::Read { va: b.region.addr(), rkey: b.rkey }, BYTES);
    complete(&mut a, &mut b);
    assert_eq!(bytes(&a), data);
    assert_eq!(b.engine.nic.gso_black_holes.detected, 1);
}

#[test]
fn trains_are_tried_again_after_a_time_that_doubles() {
    let mut gso_black_holes = GsoBlackHoles::new(true);
    let destination = addr(2).ip();
    let mut now = Instant::from_nanos(5);
    for lasts in [1, 2, 4, 8, 16, 32, 64, 64] {
        gso_black_holes.record(destination, now);
        gso_black_holes.record(destination, now.add_ns(10));
        let before = now.add_ns(lasts * FIRST_NS - 1);
        assert!(gso_black_holes.needs_break(destination, false, before), "{lasts}");
        assert!(
            gso_black_holes.needs_break(addr(3).ip(), false, before),
            "it may not ride behind a single one"
        );
        assert!(!gso_black_holes.needs_break(addr(3).ip(), false, before), "another destination");
        now = now.add_ns(lasts * FIRST_NS);
        assert!(!gso_black_holes.needs_break(destination, false, now));
    }
    gso_black_holes.record(destination, now.add_ns(2 * MEMORY_NS));
    assert!(!gso_black_holes.needs_break(destination, false, now.add_ns(2 * MEMORY_NS + FIRST_NS)));
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut gso_black_holes = GsoBlackHoles::new(true);
    for last in 0..=255 {
        gso_black_holes.record(addr(last).ip(), Instant::from_nanos(1));
    }
    assert_eq!(gso_black_holes.black_holes.len(), MAX_BLACK_HOLES);
    assert!(gso_black_holes.needs_break(addr(255).ip(), false, Instant::from_nanos(2)));
}

#[test]
fn a_datapath_without_trains_loses_none() {
    let mut gso_black_holes = GsoBlackHoles::new(false);
    gso_black_holes.record(addr(2).ip(), Instant::from_nanos(1));
    assert!(
        !gso_black_holes.needs_break(addr(2).ip(), false, Instant::from_nanos(2))
            && gso_black_holes.detected == 0
    );
}
