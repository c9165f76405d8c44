//! The engine on a datapath that says no.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use uroce_datapath::{
    Datapath as _, Flush, LoopbackDatapath, LoopbackFabric, Middleware, RxPacket,
};
use uroce_memory::{Access, PdId, Rkey};
use uroce_transport::{
    AddressVector, CompletionQueue, QpCaps, QpInit, QpType, QueuePair, SendData, SendFlags, SendOp,
    SendWr, UdDestination,
};
use uroce_wire::Opcode;

use super::*;
use crate::clock::VirtualClock;
use crate::limits::{IN_FLIGHT_BYTES, TX_RETRY_NS};

mod following;

const PORT: u16 = 4791;

/// Wraps a loopback endpoint; its flushes can be blocked from outside.
struct Sluggish {
    inner: LoopbackDatapath,
    blocked: Arc<AtomicBool>,
    flushes: Arc<AtomicUsize>,
}

impl Middleware for Sluggish {
    type Inner = LoopbackDatapath;

    fn inner(&self) -> &LoopbackDatapath {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut LoopbackDatapath {
        &mut self.inner
    }

    fn flush(&mut self) -> io::Result<Flush> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        if self.blocked.load(Ordering::Relaxed) {
            return Ok(Flush { blocked: true, ..Flush::default() });
        }
        self.inner.flush()
    }
}

struct Bench {
    engine: Engine,
    time: VirtualClock,
    blocked: Arc<AtomicBool>,
    flushes: Arc<AtomicUsize>,
    far: LoopbackDatapath,
    pd: PdId,
    cq: CqId,
}

fn addr(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, last]), PORT)
}

fn bench() -> Bench {
    let fabric = LoopbackFabric::new();
    let blocked = Arc::new(AtomicBool::new(false));
    let flushes = Arc::new(AtomicUsize::new(0));
    let datapath = Sluggish {
        inner: fabric.attach(addr(1)).expect("free"),
        blocked: Arc::clone(&blocked),
        flushes: Arc::clone(&flushes),
    };
    let far = fabric.attach(addr(2)).expect("free");
    let limits = DeviceLimits::default();
    let time = VirtualClock::new();
    let clock = Clock::new(Some(time.clone()));
    let builder = EngineBuilder::new(addr(1), (Mtu::M1024, 1), [3; 32], limits, clock);
    let mut engine = builder.build(EngineDatapath::Other(Box::new(datapath)), 0);
    let pd = engine.nic.tables.mem.alloc_pd().expect("a PD");
    let cq = engine.nic.tables.cqs.insert(CompletionQueue::new(4096));
    Bench { engine, time, blocked, flushes, far, pd, cq }
}

fn datagram() -> SendWr<'static> {
    let av = AddressVector::new(addr(1).ip(), addr(2).ip());
    SendWr {
        wr_id: 0,
        op: SendOp::Send,
        flags: SendFlags::empty(),
        data: SendData::Sges(&[]),
        ud: Some(UdDestination { av, qpn: Qpn::new(0x99), qkey: 1 }),
        srqn: None,
    }
}

impl Bench {
    /// A UD queue pair in RTS with `count` datagrams to send.
    fn sender(&mut self, qpn: u32, count: usize) {
        self.insert(qpn, QpType::Ud);
        (0..count).for_each(|_| self.post(qpn));
        self.engine.nic.reschedule(Qpn::new(qpn));
    }

    /// A UC queue pair in RTS with `count` WRITEs of two packets to send.
    fn writer(&mut self, qpn: u32, count: usize) {
        self.insert(qpn, QpType::Uc);
        let wr = SendWr {
            op: SendOp::Write { va: 0, rkey: Rkey(0) },
            data: SendData::Inline(&[&[0; 2 * 256]]),
            ud: None,
            ..datagram()
        };
        (0..count).for_each(|_| self.post_one(qpn, &wr));
        self.engine.nic.reschedule(Qpn::new(qpn));
    }

    /// A queue pair in RTS.
    fn insert(&mut self, qpn: u32, qp_type: QpType) {
        let caps = QpCaps {
            max_send_wr: 512,
            max_inline: 512,
            max_recv_wr: 64,
            max_recv_sge: 1,
            ..QpCaps::default()
        };
        let init = QpInit {
            qpn: Qpn::new(qpn),
            qp_type,
            pd: self.pd,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            xrcd: None,
            caps,
            signal_all: false,
            port_mtu: Mtu::M1024,
        };
        let qp = QueuePair::new(&init).expect("a QP");
        self.engine.nic.qps.insert(qp, init);
        self.raise_to_rts(qpn);
    }

    fn raise_to_rts(&mut self, qpn: u32) {
        use uroce_transport::{QpAttr, QpAttrMask as M, QpState as S};
        let av = Some(AddressVector::new(addr(1).ip(), addr(2).ip()));
        let qp_type = self.engine.nic.qps.get(Qpn::new(qpn)).expect("inserted").init.qp_type;
        for (from, state) in [(S::Reset, S::Init), (S::Init, S::Rtr), (S::Rtr, S::Rts)] {
            let mask = M::required(qp_type, from, state);
            let access = Access::REMOTE_WRITE;
            let path_mtu = Mtu::M256;
            let attr = QpAttr { state, av, path_mtu, access, dest_qpn: 0x99, ..QpAttr::default() };
            let nic = &mut self.engine.nic;
            let entry = nic.qps.get_mut(Qpn::new(qpn)).expect("inserted");
            let mut context = nic.tables.context();
            entry.qp.modify(Instant::ZERO, &attr, mask | M::STATE, &mut context).expect("legal");
        }
    }

    fn post(&mut self, qpn: u32) {
        self.post_one(qpn, &datagram());
    }

    fn post_one(&mut self, qpn: u32, wr: &SendWr<'_>) {
        let nic = &mut self.engine.nic;
        let entry = nic.qps.get_mut(Qpn::new(qpn)).expect("inserted");
        entry.qp.post_send(Instant::ZERO, wr, &mut nic.tables.context()).expect("posted");
    }

    /// Opcodes and PSNs of the packets that arrived at the far end, in order.
    fn headers(&mut self) -> Vec<(Opcode, u32)> {
        let mut seen = Vec::new();
        let mut note = |rx: RxPacket<'_>| {
            let packet = uroce_wire::Packet::parse(rx.payload).expect("well formed");
            seen.push((packet.bth.opcode, packet.bth.psn.get()));
        };
        while self.far.recv(64, &mut note).expect("works") > 0 {}
        seen
    }

    /// The sending QPNs of the packets that arrived at the far end, in order.
    fn arrived(&mut self) -> Vec<u32> {
        let mut seen = Vec::new();
        let mut note = |rx: RxPacket<'_>| {
            let packet = uroce_wire::Packet::parse(rx.payload).expect("well formed");
            seen.extend(packet.deth().map(|deth| deth.src_qpn.get()));
        };
        while self.far.recv(64, &mut note).expect("works") > 0 {}
        seen
    }
}

#[test]
fn a_refused_flush_is_tried_again_and_loses_nothing() {
    let mut bench = bench();
    bench.sender(0x55, 10);
    bench.blocked.store(true, Ordering::Relaxed);
    bench.engine.poll_once();
    assert!(bench.arrived().is_empty());
    let retry = bench.engine.retry_at.expect("blocked");
    assert_eq!(retry, TX_RETRY_NS);
    assert_eq!(bench.engine.next_deadline(), Some(retry), "a poll is due then");
    bench.blocked.store(false, Ordering::Relaxed);
    let flushes = bench.flushes.load(Ordering::Relaxed);
    bench.time.advance(Duration::from_nanos(retry - 1));
    bench.engine.poll_once();
    assert_eq!(bench.flushes.load(Ordering::Relaxed), flushes, "not before its time");
    bench.time.advance(Duration::from_nanos(1));
    bench.engine.poll_once();
    assert_eq!(bench.engine.retry_at, None);
    assert_eq!(bench.arrived().len(), 10);
    assert_eq!(bench.engine.next_deadline(), None, "idle again");
}

#[test]
fn a_full_and_blocked_datapath_keeps_the_sender_in_line() {
    let mut bench = bench();
    bench.sender(0x55, 200);
    bench.blocked.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        bench.engine.poll_once();
    }
    bench.blocked.store(false, Ordering::Relaxed);
    let mut arrived = 0;
    while bench.engine.retry_at.is_some() || bench.engine.nic.schedule.has_senders() {
        bench.time.advance(Duration::from_nanos(TX_RETRY_NS));
        bench.engine.poll_once();
        arrived += bench.arrived().len();
    }
    assert_eq!(arrived, 200);
}

#[test]
fn senders_take_turns() {
    let mut bench = bench();
    bench.sender(0x51, 200);
    bench.sender(0x52, 200);
    bench.sender(0x53, 3);
    bench.engine.poll_once();
    let order = bench.arrived();
    let first = |qpn: u32| order.iter().position(|&q| q == qpn).expect("it had its turn");
    let share = crate::limits::TX_QP_BUDGET;
    assert_eq!([first(0x51), first(0x52), first(0x53)], [0, share, 2 * share]);
    assert_eq!(order.len(), TX_BUDGET, "a turn is bounded");
}

#[test]
fn first_packets_of_writes_leave_side_by_side_and_the_rest_behind_them() {
    let (first, last) = (Opcode::UC_WRITE_FIRST, Opcode::UC_WRITE_LAST);
    let mut bench = bench();
    bench.engine.nic.schedule = Schedule::new(true, IN_FLIGHT_BYTES);
    (0x51..0x54).for_each(|qpn| bench.writer(qpn, 2));
    bench.engine.poll_once();
    let rounds = [[(first, 0); 3], [(last, 1); 3], [(first, 2); 3], [(last, 3); 3]];
    assert_eq!(bench.headers(), rounds.concat());
    bench.writer(0x55, 2);
    bench.engine.poll_once();
    let alone = [(first, 0), (last, 1), (first, 2), (last, 3)];
    assert_eq!(bench.headers(), alone);
}

#[test]
fn a_sender_that_was_destroyed_is_skipped() {
    let mut bench = bench();
    bench.sender(0x51, 4);
    bench.sender(0x52, 4);
    bench.engine.nic.qps.remove(Qpn::new(0x51));
    bench.engine.poll_once();
    assert_eq!(bench.arrived(), [0x52; 4]);
    assert!(!bench.engine.nic.schedule.has_senders());
}
