//! Devices, endpoints and short ways to use them.
#![allow(dead_code)] // each test file uses its own part

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use uroce_device::datapath::LoopbackFabric;
use uroce_device::memory::{Access, Lkey, Mr, PdId, Region, Sge};
use uroce_device::transport::{
    AddressVector, CqId, QpAttr, QpAttrMask as M, QpCaps, QpState, QpType, RecvWr, SendData,
    SendFlags, SendOp, SendWr, UdDestination, Wc,
};
use uroce_device::wire::{Mtu, Qpn};
use uroce_device::{Device, DeviceConfig, QpRequest, VirtualClock};
use uroce_testkit::wait_until;

pub const QKEY: u32 = 0x1122_3344;
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(20);

pub fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

/// A device with one PD and one CQ.
pub struct Node {
    pub device: Device,
    pub pd: PdId,
    pub cq: CqId,
}

/// A registered buffer.
pub struct Buffer {
    pub region: Region,
    pub mr: Mr,
}

impl Buffer {
    pub fn addr(&self) -> u64 {
        self.region.addr()
    }

    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { addr: self.addr() + offset, length, lkey: Lkey(self.mr.lkey.0) }
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.region.read(offset, &mut out).expect("inside the buffer");
        out
    }

    pub fn write(&self, offset: usize, data: &[u8]) {
        self.region.write(offset, data).expect("inside the buffer");
    }
}

impl Node {
    pub fn open(config: DeviceConfig) -> Node {
        let device = Device::open(config).expect("the device opens");
        let pd = device.memory().alloc_pd().expect("a PD");
        let cq = device.create_cq(8192, None, 0).expect("a CQ");
        Node { device, pd, cq }
    }

    /// A device on the fabric without a progress thread.
    pub fn inline(fabric: &LoopbackFabric, last: u8) -> Node {
        Node::open(DeviceConfig {
            progress_thread: false,
            ..DeviceConfig::loopback(ip(last), fabric)
        })
    }

    /// [`inline`](Self::inline) with a clock that the test moves.
    pub fn on_clock(fabric: &LoopbackFabric, last: u8, clock: &VirtualClock) -> Node {
        Node::open(DeviceConfig {
            progress_thread: false,
            clock: Some(clock.clone()),
            ..DeviceConfig::loopback(ip(last), fabric)
        })
    }

    pub fn threaded(fabric: &LoopbackFabric, last: u8) -> Node {
        Node::open(DeviceConfig::loopback(ip(last), fabric))
    }

    pub fn buffer(&self, len: usize) -> Buffer {
        let region = Region::alloc(len).expect("memory");
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let addr = region.addr();
        let mr = self.device.memory().reg_mr(self.pd, region.clone(), addr, all).expect("an MR");
        Buffer { region, mr }
    }

    pub fn request(&self, qp_type: QpType) -> QpRequest {
        let caps = QpCaps {
            max_send_wr: 256,
            max_recv_wr: 256,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline: 64,
        };
        QpRequest {
            qp_type,
            pd: self.pd,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            caps,
            signal_all: false,
        }
    }

    pub fn qp(&self, qp_type: QpType) -> Qpn {
        self.device.create_qp(&self.request(qp_type)).expect("a QP")
    }

    /// RESET to RTS towards `peer`.
    pub fn connect(&self, qpn: Qpn, remote: IpAddr, peer: Qpn) {
        self.connect_with(qpn, remote, peer, Mtu::M1024, 14);
    }

    pub fn connect_with(&self, qpn: Qpn, remote: IpAddr, peer: Qpn, mtu: Mtu, timeout: u8) {
        let attr = QpAttr {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            av: Some(AddressVector::new(self.device.address(), remote)),
            path_mtu: mtu,
            timeout,
            retry_cnt: 7,
            rnr_retry: 7,
            rq_psn: 0x1000,
            sq_psn: 0x1000,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            min_rnr_timer: 1,
            dest_qpn: peer.get(),
            ..QpAttr::default()
        };
        let rtr = M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER;
        let rts = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC;
        self.step(qpn, &attr, QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS);
        self.step(qpn, &attr, QpState::Rtr, rtr);
        self.step(qpn, &attr, QpState::Rts, rts);
    }

    /// The same of UC.
    pub fn connect_uc(&self, qpn: Qpn, remote: IpAddr, peer: Qpn) {
        let attr = QpAttr {
            access: Access::REMOTE_WRITE,
            av: Some(AddressVector::new(self.device.address(), remote)),
            path_mtu: Mtu::M1024,
            rq_psn: 0x1000,
            sq_psn: 0x1000,
            dest_qpn: peer.get(),
            ..QpAttr::default()
        };
        self.step(qpn, &attr, QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS);
        self.step(qpn, &attr, QpState::Rtr, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN);
        self.step(qpn, &attr, QpState::Rts, M::SQ_PSN);
    }

    pub fn activate_ud(&self, qpn: Qpn) {
        let attr = QpAttr { qkey: QKEY, ..QpAttr::default() };
        self.step(qpn, &attr, QpState::Init, M::PKEY_INDEX | M::PORT | M::QKEY);
        self.step(qpn, &attr, QpState::Rtr, M::empty());
        self.step(qpn, &attr, QpState::Rts, M::SQ_PSN);
    }

    pub fn step(&self, qpn: Qpn, attr: &QpAttr, state: QpState, mask: M) {
        let attr = QpAttr { state, ..*attr };
        self.device.modify_qp(qpn, &attr, mask | M::STATE).expect("a legal transition");
    }

    pub fn state(&self, qpn: Qpn) -> QpState {
        self.device.query_qp(qpn).expect("the QP exists").0.state
    }

    pub fn send(&self, qpn: Qpn, wr_id: u64, op: SendOp, sges: &[Sge]) {
        let wr = SendWr {
            wr_id,
            op,
            flags: SendFlags::SIGNALED,
            data: SendData::Sges(sges),
            ud: None,
            srqn: None,
        };
        self.device.post_send(qpn, &[wr]).expect("posted");
    }

    pub fn send_ud(&self, qpn: Qpn, wr_id: u64, to: (IpAddr, Qpn, u32), sges: &[Sge]) {
        let av = AddressVector::new(self.device.address(), to.0);
        let wr = SendWr {
            wr_id,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: SendData::Sges(sges),
            ud: Some(UdDestination { av, qpn: to.1, qkey: to.2 }),
            srqn: None,
        };
        self.device.post_send(qpn, &[wr]).expect("posted");
    }

    pub fn recv(&self, qpn: Qpn, wr_id: u64, sges: &[Sge]) {
        self.device.post_recv(qpn, &[RecvWr { wr_id, sges }]).expect("posted");
    }

    pub fn poll(&self) -> Vec<Wc> {
        let mut out = [Wc::default(); 64];
        let count = self.device.poll_cq(self.cq, &mut out).expect("the CQ exists");
        out[..count].to_vec()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let all = self.device.counters();
        all.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

/// Two connected RC queue pairs on `a` and `b`.
pub fn rc_pair(a: &Node, b: &Node) -> (Qpn, Qpn) {
    rc_pair_with(a, b, Mtu::M1024)
}

/// With this path MTU.
pub fn rc_pair_with(a: &Node, b: &Node, mtu: Mtu) -> (Qpn, Qpn) {
    let (qa, qb) = (a.qp(QpType::Rc), b.qp(QpType::Rc));
    a.connect_with(qa, b.device.address(), qb, mtu, 14);
    b.connect_with(qb, a.device.address(), qa, mtu, 14);
    (qa, qb)
}

/// Posts so many requests and polls for them in turns, up to `window` at a time, with pauses: the device is at
/// times its own, and at times open for others that work for it.
pub fn keep_busy(
    node: &Node,
    qpn: Qpn,
    (rounds, window): (u64, u64),
    request: impl Fn(u64) -> (SendOp, Sge),
) {
    let start = Instant::now();
    let mut done = 0;
    for id in 0..rounds {
        let (op, sge) = request(id);
        node.send(qpn, id, op, &[sge]);
        if id % 64 == 17 {
            std::thread::sleep(Duration::from_micros(1500));
        }
        let drain = id % 128 == 127 || id + 1 == rounds;
        while id + 1 - done > window || drain && done <= id {
            let completions = node.poll();
            assert_ok(&completions);
            done += completions.len() as u64;
            assert!(start.elapsed() < Duration::from_secs(60), "stuck at {done} of {id}");
        }
    }
}

/// Waits until the progress threads of all `nodes` sleep.
pub fn fall_asleep(nodes: &[&Node]) {
    wait_until("asleep", || nodes.iter().all(|node| node.device.is_asleep()));
}

/// Polls all `nodes` until each has the number of completions asked for.
pub fn collect(nodes: &[(&Node, usize)]) -> Vec<Vec<Wc>> {
    let start = Instant::now();
    let mut found: Vec<Vec<Wc>> = nodes.iter().map(|_| Vec::new()).collect();
    while nodes.iter().zip(&found).any(|((_, want), got)| got.len() < *want) {
        for ((node, _), got) in nodes.iter().zip(&mut found) {
            got.extend(node.poll());
        }
        assert!(start.elapsed() < COMPLETION_TIMEOUT, "completions are missing: {found:?}");
    }
    found
}

/// Drives both devices until nothing happens any more.
pub fn settle(nodes: &[&Node]) {
    let mut quiet = 0;
    while quiet < 3 {
        let worked = nodes.iter().filter(|node| node.device.drive()).count();
        quiet = if worked > 0 { 0 } else { quiet + 1 };
    }
}

pub fn assert_ok(wcs: &[Wc]) {
    for wc in wcs {
        assert!(wc.is_ok(), "{wc}");
    }
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8).collect()
}
