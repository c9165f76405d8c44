//! What an operation costs beside many others: regions in a table, queue pairs of a device, and peers of a device.
//!
//! `cargo bench --package uroce-tests --bench many`, and a name behind `--` for one of them. Each cost should be the same for one
//! and for many, but for what no longer fits into the caches.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::{Device, DeviceConfig, QpRequest};
use uroce_memory::{Access, MemLimits, MemTable, Mr, PdId, Region, Requirer, Sge};
use uroce_transport::{
    AddressVector, CqId, QpAttr, QpAttrMask as M, QpCaps, QpState, QpType, SendData, SendFlags,
    SendOp, SendWr, Wc,
};
use uroce_wire::{Mtu, Qpn};

const REGIONS: [usize; 3] = [1, 1_000, 100_000];
const PEERS: [usize; 3] = [1, 100, 1_000];
const QUEUE_PAIRS: [usize; 3] = [1, 1_000, 10_000];
/// Bytes of an access.
const BYTES: usize = 64;
const ACCESS: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);

/// Numbers below `count` in an order that no cache foresees: a full cycle of a linear congruence modulo a power of two, less what
/// is too large.
struct Anywhere {
    state: u64,
    count: u64,
}

impl Anywhere {
    fn below(count: usize) -> Self {
        Self { state: 1, count: count as u64 }
    }

    fn next(&mut self) -> usize {
        let modulus = self.count.next_power_of_two().max(2);
        loop {
            self.state = (self.state * 5 + 3) % modulus;
            if self.state < self.count {
                return self.state as usize;
            }
        }
    }
}

fn regions(c: &mut Criterion) {
    let mut group = c.benchmark_group("regions");
    for count in REGIONS {
        let mut table = MemTable::new([1; 32], MemLimits::default());
        let pd = table.alloc_pd().expect("the first");
        let memory = Region::alloc(BYTES).expect("memory");
        let va = memory.addr();
        let register =
            |table: &mut MemTable| table.reg_mr(pd, memory.clone(), va, ACCESS).expect("a region");
        let all: Vec<Mr> = (0..count).map(|_| register(&mut table)).collect();
        let (mut anywhere, payload) = (Anywhere::below(count), [7; BYTES]);
        let by = Requirer { pd, qpn: 17 };
        group.bench_function(BenchmarkId::new("check and copy 64 B into one of", count), |b| {
            b.iter(|| {
                let rkey = all[anywhere.next()].rkey.0;
                let found = table.check(rkey, by, Access::REMOTE_WRITE, va, BYTES as u64);
                found.map(|slice| slice.copy_in(0, black_box(&payload)))
            });
        });
        group.bench_function(BenchmarkId::new("register and deregister beside", count), |b| {
            b.iter(|| {
                let mr = register(&mut table);
                table.dereg_mr(mr.id).expect("it is there");
            });
        });
    }
    group.finish();
}

/// A device that is polled by who posts, with all that a queue pair needs.
struct Node {
    device: Device,
    pd: PdId,
    cq: CqId,
    region: Region,
    mr: Mr,
}

impl Node {
    fn new(fabric: &LoopbackFabric, number: usize) -> Self {
        let [_, _, high, low] = (number as u32).to_be_bytes();
        let address = IpAddr::V4(Ipv4Addr::new(10, 1, high, low));
        let config = DeviceConfig {
            progress_thread: false,
            report: false,
            ..DeviceConfig::loopback(address, fabric)
        };
        let device = Device::open(config).expect("the device opens");
        let pd = device.memory().alloc_pd().expect("a domain");
        let cq = device.create_cq(16, None, 0).expect("a completion queue");
        let region = Region::alloc(4096).expect("memory");
        let addr = region.addr();
        let mr = device.memory().reg_mr(pd, region.clone(), addr, ACCESS).expect("a region");
        Self { device, pd, cq, region, mr }
    }

    fn qp(&self) -> Qpn {
        let caps = QpCaps { max_send_wr: 4, max_send_sge: 1, max_recv_wr: 1, ..QpCaps::default() };
        let (send_cq, recv_cq) = (self.cq, self.cq);
        let request = QpRequest {
            qp_type: QpType::Rc,
            pd: self.pd,
            send_cq,
            recv_cq,
            srq: None,
            caps,
            signal_all: true,
        };
        self.device.create_qp(&request).expect("a queue pair")
    }

    /// RESET to RTS.
    fn connect(&self, qpn: Qpn, peer: &Node, peer_qpn: Qpn) {
        let attr = QpAttr {
            access: ACCESS,
            av: Some(AddressVector::new(self.device.address(), peer.device.address())),
            path_mtu: Mtu::M1024,
            dest_qpn: peer_qpn.get(),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            ..QpAttr::default()
        };
        let rtr = M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER;
        let rts = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC;
        let init = M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            let attr = QpAttr { state, ..attr };
            self.device.modify_qp(qpn, &attr, mask | M::STATE).expect("a step");
        }
    }

    /// A WRITE of 64 B, and its completion.
    fn write(&self, qpn: Qpn, peer: &Node) {
        let (addr, length) = (self.region.addr(), BYTES as u32);
        let sges = [Sge { addr, length, lkey: self.mr.lkey }];
        let op = SendOp::Write { va: peer.region.addr(), rkey: peer.mr.rkey };
        let (data, flags) = (SendData::Sges(&sges), SendFlags::empty());
        let request = SendWr { wr_id: 0, op, flags, data, ud: None, srqn: None };
        self.device.post_send(qpn, &[request]).expect("posted");
        let mut done = [Wc::default()];
        while self.device.poll_cq(self.cq, &mut done).expect("a completion queue") == 0 {
            peer.device.poll_cq(peer.cq, &mut [Wc::default()]).expect("a completion queue");
        }
        assert!(done[0].is_ok(), "{:?}", done[0]);
    }
}

/// Queue pairs between `peers` devices and one, the same number with each.
fn pairs(peers: usize, with_each: usize) -> (Node, Vec<Node>, Vec<(Qpn, usize)>) {
    let fabric = LoopbackFabric::new();
    let one = Node::new(&fabric, 1);
    let others: Vec<Node> = (0..peers).map(|at| Node::new(&fabric, 2 + at)).collect();
    let connect = |at: usize| {
        let other = &others[at];
        let (ours, theirs) = (one.qp(), other.qp());
        one.connect(ours, other, theirs);
        other.connect(theirs, &one, ours);
        (ours, at)
    };
    let all = (0..with_each).flat_map(|_| 0..peers).map(connect).collect();
    (one, others, all)
}

fn writes(c: &mut Criterion) {
    let mut group = c.benchmark_group("write 64 B");
    let peers = PEERS.map(|count| ("to one peer of", count, count, 1));
    let queue_pairs = QUEUE_PAIRS.map(|count| ("on one queue pair of", count, 1, count));
    for (name, count, peers, with_each) in peers.into_iter().chain(queue_pairs) {
        let (one, others, all) = pairs(peers, with_each);
        let mut anywhere = Anywhere::below(all.len());
        group.bench_function(BenchmarkId::new(name, count), |b| {
            b.iter(|| {
                let (qpn, at) = all[anywhere.next()];
                one.write(qpn, &others[at]);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, regions, writes);
criterion_main!(benches);
