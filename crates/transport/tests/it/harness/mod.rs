//! Two queue pairs and a wire in virtual time. The clock jumps to the next event, so that minutes
//! of protocol take microseconds.

pub mod forge;

use std::collections::BTreeMap;
use std::net::IpAddr;

use uroce_memory::{Access, MemLimits, MemTable, Mr, PdId, Region, Rkey, Sge};
use uroce_transport::*;
use uroce_wire::{
    Aeth, Bth, DropReason, HeaderWriter, Mtu, Opcode, Operation, Packet, Psn, Qpn, Syndrome,
    crc_register,
};

pub const MR_LEN: usize = 1 << 20;

/// Where each node's region starts for its keys: given, so that two pairs with the same requests send the same bytes.
const MR_VAS: [u64; 2] = [0x5500_0000_0000, 0x6600_0000_0000];
pub const IPS: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
pub const QPNS: [u32; 2] = [0x11, 0x22];
pub const MS: u64 = 1_000_000;
/// Packets that one end sends before the other gets its turn.
pub const PACKETS_PER_TURN: usize = 64;
/// The XRC domain of a target.
pub const XRCD: XrcdId = XrcdId(7);
/// Number of the XRC SRQ of a target, the first SRQ that it has.
pub const XRC_SRQN: u32 = 0x1_0000;

/// One end: a queue pair and the tables of its device.
pub struct Node {
    pub qp: QueuePair,
    pub mem: MemTable,
    pub cqs: CqTable,
    pub srqs: SrqTable,
    pub events: EventQueue,
    pub reorder_buffers: ReorderBuffers,
    pub counters: Counters,
    pub send_cq: CqId,
    pub recv_cq: CqId,
    pub pd: PdId,
    pub region: Region,
    /// Where the region starts for its keys.
    pub mr_va: u64,
    pub mr: Mr,
    pub ip: IpAddr,
    /// The XRC SRQ of a target.
    pub xrc_srq: Option<SrqId>,
    /// The SRQ that an initiator names unless a work request does.
    pub peer_srqn: Option<u32>,
}

macro_rules! cx {
    ($node:expr) => {
        &mut Context {
            mem: &mut $node.mem,
            cqs: &mut $node.cqs,
            srqs: &mut $node.srqs,
            events: &mut $node.events,
            reorder_buffers: &mut $node.reorder_buffers,
            counters: &mut $node.counters,
        }
    };
}
#[allow(unused_imports)]
pub(crate) use cx;

/// How a pair is set up.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Of node 0. The peer of an XRC initiator is a target, and the other way round.
    pub qp_type: QpType,
    pub mtu: Mtu,
    pub psn: [u32; 2],
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub rd_atomic: u8,
    pub access: Access,
    pub mr_access: Access,
    pub caps: QpCaps,
    pub cqe: usize,
    pub srq: Option<SrqAttr>,
    pub signal_all: bool,
    pub qkey: u32,
    /// Which responders keep what comes behind a gap.
    pub keeps: [bool; 2],
    /// Which requesters send only what is missing to a peer that keeps.
    pub repairs: [bool; 2],
    /// Which requesters send tail probes.
    pub probes: [bool; 2],
    /// Which requesters send short WRITEs as WRITE ONLYs.
    pub splits: [bool; 2],
    /// Packets that may follow another one in the same call (`poll_train`).
    pub train: usize,
    /// Packets that may follow another one in the buffer in which they arrive (`handle_train`).
    pub arrives: usize,
    /// Bytes in flight at which no further request begins.
    pub allowance: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            qp_type: QpType::Rc,
            mtu: Mtu::M256,
            psn: [0x100, 0x900],
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            rd_atomic: 4,
            access: all_access(),
            mr_access: all_access(),
            caps: QpCaps {
                max_send_wr: 256,
                max_recv_wr: 256,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline: 256,
            },
            cqe: 4096,
            srq: None,
            signal_all: false,
            qkey: 0x1111,
            keeps: [false; 2],
            repairs: [false; 2],
            probes: [false; 2],
            splits: [false; 2],
            train: 0,
            arrives: 0,
            allowance: u64::MAX,
        }
    }
}

impl Setup {
    /// As a device sets its queue pairs up.
    pub fn as_device() -> Setup {
        let all = [true; 2];
        Setup { keeps: all, repairs: all, probes: all, ..Setup::default() }
    }

    pub fn xrc() -> Setup {
        Setup { qp_type: QpType::XrcIni, ..Setup::default() }
    }

    fn type_of(&self, index: usize) -> QpType {
        match self.qp_type {
            QpType::XrcIni if index == 1 => QpType::XrcTgt,
            QpType::XrcTgt if index == 1 => QpType::XrcIni,
            own => own,
        }
    }

    pub fn xrc_srq(&self, pd: PdId, cq: CqId) -> SharedReceiveQueue {
        let QpCaps { max_recv_wr, max_recv_sge, .. } = self.caps;
        let attr = SrqAttr { max_wr: max_recv_wr, max_sge: max_recv_sge, limit: 0 };
        let xrc = XrcSrq { xrcd: XRCD, cq };
        SharedReceiveQueue::new_xrc(pd, xrc, &self.srq.unwrap_or(attr)).unwrap()
    }
}

pub fn all_access() -> Access {
    Access::LOCAL_WRITE
        | Access::REMOTE_WRITE
        | Access::REMOTE_READ
        | Access::REMOTE_ATOMIC
        | Access::MW_BIND
        | Access::FLUSH_GLOBAL
}

/// What the wire does with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Deliver,
    Drop,
    Duplicate,
    /// A copy follows after so many nanoseconds.
    DuplicateLate(u64),
    Delay(u64),
    Replace(Vec<u8>),
}

/// A packet seen on the wire.
#[derive(Debug, Clone)]
pub struct Seen {
    pub at: Instant,
    pub from: usize,
    pub opcode: Opcode,
    pub psn: u32,
    pub bytes: Vec<u8>,
    pub path: Path,
}

impl Seen {
    pub fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).expect("we emit only what we can parse")
    }

    pub fn name(&self) -> &'static str {
        self.opcode.info().expect("a known opcode").name
    }

    pub fn syndrome(&self) -> Option<u8> {
        self.packet().aeth().map(|aeth| aeth.syndrome.0)
    }
}

struct InFlight {
    to: usize,
    bytes: Vec<u8>,
    traffic_class: u8,
}

/// A link that takes time for each byte, with a queue in front of it: both ways alike.
#[derive(Clone, Copy)]
pub struct Link {
    pub gbits_per_s: u64,
    /// What finds more than so many bytes in the queue is lost.
    pub queue_bytes: u64,
    free_at: [Instant; 2],
}

impl Link {
    pub fn new(gbits_per_s: u64, queue_bytes: u64) -> Link {
        Link { gbits_per_s, queue_bytes, free_at: [Instant::ZERO; 2] }
    }

    /// When a packet has left that is given to the link now; `None`: it is lost.
    fn leave(&mut self, from: usize, now: Instant, bytes: usize) -> Option<Instant> {
        let waits = self.free_at[from].since(now);
        if waits * self.gbits_per_s / 8 > self.queue_bytes {
            return None;
        }
        // Ethernet, IP and UDP headers, FCS, preamble and gap.
        let on_wire = bytes as u64 + 28 + 38;
        self.free_at[from] = now.add_ns(waits + on_wire * 8 / self.gbits_per_s);
        Some(self.free_at[from])
    }
}

type Filter = Box<dyn FnMut(&Seen) -> Fate>;

/// The two ends and the wire between them.
pub struct Pair {
    pub now: Instant,
    pub nodes: [Node; 2],
    pub latency_ns: u64,
    pub trace: Vec<Seen>,
    pub setup: Setup,
    pub traffic_class: u8,
    /// Without one, packets take no time but the latency.
    pub link: Option<Link>,
    /// Packets are noted in `trace`.
    pub traces: bool,
    /// Packets that followed another one in the same call.
    pub in_trains: usize,
    /// Packets that were taken in behind another one in the same call.
    pub arrived_in_trains: usize,
    filter: Filter,
    /// By the time of arrival, and in the order in which they were sent.
    wire: BTreeMap<(Instant, u64), InFlight>,
    seq: u64,
}

impl Node {
    fn new(index: usize, setup: &Setup) -> Node {
        let mut mem = MemTable::new([index as u8 + 1; 32], MemLimits::default());
        let pd = mem.alloc_pd().unwrap();
        let region = Region::alloc(MR_LEN).unwrap();
        let mr = mem.reg_mr(pd, region.clone(), MR_VAS[index], setup.mr_access).unwrap();
        let mut cqs = CqTable::new();
        let send_cq = cqs.insert(CompletionQueue::new(setup.cqe));
        let recv_cq = cqs.insert(CompletionQueue::new(setup.cqe));
        let mut srqs = SrqTable::new();
        let qp_type = setup.type_of(index);
        let target = qp_type == QpType::XrcTgt;
        let xrc_srq = target.then(|| srqs.insert(setup.xrc_srq(pd, recv_cq)));
        let basic = setup.srq.filter(|_| !qp_type.is_xrc());
        let srq = basic.map(|attr| srqs.insert(SharedReceiveQueue::new(pd, &attr).unwrap()));
        // A target has no protection domain and no CQ of its own that anything could reach.
        let pd_of_qp = if target { mem.alloc_pd().unwrap() } else { pd };
        let cq_of_qp = if target { cqs.insert(CompletionQueue::new(1)) } else { recv_cq };
        let init = QpInit {
            qpn: Qpn::new(QPNS[index]),
            qp_type,
            pd: pd_of_qp,
            send_cq,
            recv_cq: cq_of_qp,
            srq,
            xrcd: target.then_some(XRCD),
            caps: setup.caps,
            signal_all: setup.signal_all,
            port_mtu: Mtu::M4096,
        };
        let mut qp = QueuePair::new(&init).unwrap();
        qp.set_features(Features {
            tail_probes: setup.probes[index],
            selective_repeat: setup.repairs[index],
            reorder_buffer: setup.keeps[index],
            split_writes: setup.splits[index],
        });
        Node {
            qp,
            mem,
            cqs,
            srqs,
            events: EventQueue::new(),
            reorder_buffers: ReorderBuffers::new(),
            counters: Counters::new(),
            send_cq,
            recv_cq,
            pd,
            region,
            mr_va: MR_VAS[index],
            mr,
            ip: IpAddr::from(IPS[index]),
            xrc_srq,
            peer_srqn: (qp_type == QpType::XrcIni).then_some(XRC_SRQN),
        }
    }

    /// Runs what is due.
    pub fn serve_timer(&mut self, now: Instant) {
        if self.qp.poll_timeout().is_some_and(|due| due <= now) {
            self.qp.handle_timeout(now, cx!(self));
        }
    }

    /// A piece of this node's region.
    pub fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge { addr: self.va(offset), length, lkey: self.mr.lkey }
    }

    /// An address in this node's region, for the peer.
    pub fn va(&self, offset: usize) -> u64 {
        self.mr_va + offset as u64
    }

    pub fn rkey(&self) -> Rkey {
        self.mr.rkey
    }

    pub fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        self.region.read(offset, &mut out).unwrap();
        out
    }

    pub fn fill(&self, offset: usize, data: &[u8]) {
        self.region.write(offset, data).unwrap();
    }

    pub fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyQpError> {
        self.qp.modify(Instant::ZERO, attr, mask, cx!(self))
    }

    pub fn enter_state(&mut self, state: QpState) -> Result<(), ModifyQpError> {
        self.modify(&QpAttr { state, ..QpAttr::default() }, QpAttrMask::STATE)
    }

    pub fn send(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let wr = SendWr { srqn: wr.srqn.or(self.peer_srqn), ..*wr };
        self.qp.post_send(Instant::ZERO, &wr, cx!(self))
    }

    pub fn recv(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        let wr = RecvWr { wr_id, sges };
        match self.qp.srq().or(self.xrc_srq) {
            Some(id) => self.srqs.get_mut(id).unwrap().post(&wr),
            None => self.qp.post_recv(&wr, cx!(self)),
        }
    }

    /// All completions of sends so far.
    pub fn sends(&mut self) -> Vec<Wc> {
        drain(&mut self.cqs, self.send_cq)
    }

    /// All completions of receives so far.
    pub fn recvs(&mut self) -> Vec<Wc> {
        drain(&mut self.cqs, self.recv_cq)
    }

    pub fn event(&mut self) -> Option<AsyncEvent> {
        self.events.pop()
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.counters.dropped(reason)
    }
}

fn drain(cqs: &mut CqTable, id: CqId) -> Vec<Wc> {
    let mut all = vec![];
    let mut batch = [Wc::default(); 16];
    loop {
        let count = cqs.get_mut(id).unwrap().poll(&mut batch);
        all.extend_from_slice(&batch[..count]);
        if count == 0 {
            return all;
        }
    }
}

/// A signalled work request without payload.
pub fn wr<'a>(wr_id: u64, op: SendOp) -> SendWr<'a> {
    SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
        data: SendData::Sges(&[]),
        ud: None,
        srqn: None,
    }
}

pub fn wr_sges<'a>(wr_id: u64, op: SendOp, sges: &'a [Sge]) -> SendWr<'a> {
    SendWr { data: SendData::Sges(sges), ..wr(wr_id, op) }
}

pub fn wr_inline<'a>(wr_id: u64, op: SendOp, data: &'a [&'a [u8]]) -> SendWr<'a> {
    SendWr { data: SendData::Inline(data), ..wr(wr_id, op) }
}

/// Bytes that differ at every position and per seed.
pub fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

impl Pair {
    /// Two connected queue pairs in RTS.
    pub fn new(setup: Setup) -> Pair {
        let mut pair = Pair::unconnected(setup);
        pair.connect();
        pair
    }

    /// Switches features of a node on or off.
    pub fn set_features(&mut self, node: usize, change: impl FnOnce(&mut Features)) {
        let mut features = self.nodes[node].qp.features();
        change(&mut features);
        self.nodes[node].qp.set_features(features);
    }

    pub fn rc() -> Pair {
        Pair::new(Setup::default())
    }

    pub fn of(qp_type: QpType) -> Pair {
        Pair::new(Setup { qp_type, ..Setup::default() })
    }

    /// Two queue pairs in RESET.
    pub fn unconnected(setup: Setup) -> Pair {
        Pair {
            now: Instant::from_nanos(1_000_000_000),
            nodes: [Node::new(0, &setup), Node::new(1, &setup)],
            latency_ns: 5_000,
            trace: vec![],
            setup,
            traffic_class: 0,
            filter: Box::new(|_| Fate::Deliver),
            link: None,
            traces: true,
            wire: BTreeMap::new(),
            seq: 0,
            in_trains: 0,
            arrived_in_trains: 0,
        }
    }

    pub fn connect(&mut self) {
        for index in 0..2 {
            self.enter_init(index).unwrap();
            self.enter_rtr(index).unwrap();
            self.enter_rts(index).unwrap();
        }
    }

    pub fn enter_init(&mut self, index: usize) -> Result<(), ModifyQpError> {
        let (attr, mask) = self.init_attr(index);
        self.nodes[index].modify(&attr, mask)
    }

    fn required(&self, index: usize, from: QpState, to: QpState) -> QpAttrMask {
        QpAttrMask::required(self.setup.type_of(index), from, to)
    }

    pub fn init_attr(&self, index: usize) -> (QpAttr, QpAttrMask) {
        let attr = QpAttr {
            state: QpState::Init,
            access: self.setup.access,
            qkey: self.setup.qkey,
            ..QpAttr::default()
        };
        (attr, self.required(index, QpState::Reset, QpState::Init))
    }

    pub fn enter_rtr(&mut self, index: usize) -> Result<(), ModifyQpError> {
        let (attr, mask) = self.rtr_attr(index);
        self.nodes[index].modify(&attr, mask)
    }

    pub fn rtr_attr(&self, index: usize) -> (QpAttr, QpAttrMask) {
        let peer = 1 - index;
        let attr = QpAttr {
            state: QpState::Rtr,
            av: Some(AddressVector::new(self.nodes[index].ip, self.nodes[peer].ip)),
            path_mtu: self.setup.mtu,
            dest_qpn: QPNS[peer],
            rq_psn: self.setup.psn[peer],
            max_dest_rd_atomic: self.setup.rd_atomic,
            min_rnr_timer: self.setup.min_rnr_timer,
            ..QpAttr::default()
        };
        (attr, self.required(index, QpState::Init, QpState::Rtr))
    }

    pub fn enter_rts(&mut self, index: usize) -> Result<(), ModifyQpError> {
        let (attr, mask) = self.rts_attr(index);
        self.nodes[index].modify(&attr, mask)
    }

    pub fn rts_attr(&self, index: usize) -> (QpAttr, QpAttrMask) {
        let attr = QpAttr {
            state: QpState::Rts,
            timeout: self.setup.timeout,
            retry_cnt: self.setup.retry_cnt,
            rnr_retry: self.setup.rnr_retry,
            sq_psn: self.setup.psn[index],
            max_rd_atomic: self.setup.rd_atomic,
            ..QpAttr::default()
        };
        (attr, self.required(index, QpState::Rtr, QpState::Rts))
    }

    /// Decides the fate of every packet from now on.
    pub fn filter(&mut self, filter: impl FnMut(&Seen) -> Fate + 'static) {
        self.filter = Box::new(filter);
    }

    pub fn no_filter(&mut self) {
        self.filter(|_| Fate::Deliver);
    }

    /// Loses the `nth` (from 0) packet with this opcode from `from`, once.
    pub fn lose_once(&mut self, from: usize, opcode: Opcode, nth: usize) {
        let mut count = 0;
        self.filter(move |seen| {
            if seen.from != from || seen.opcode != opcode {
                return Fate::Deliver;
            }
            count += 1;
            if count == nth + 1 { Fate::Drop } else { Fate::Deliver }
        });
    }

    /// UD destination of the other node.
    pub fn ud_to(&self, to: usize) -> Option<UdDestination> {
        let av = AddressVector::new(self.nodes[1 - to].ip, self.nodes[to].ip);
        Some(UdDestination { av, qpn: Qpn::new(QPNS[to]), qkey: self.setup.qkey })
    }

    /// Runs until nothing moves any more. Panics if that takes unreasonably long.
    pub fn run(&mut self) {
        for _ in 0..2_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the pair does not come to rest");
    }

    /// Runs until `deadline` of virtual time, at most.
    pub fn run_until(&mut self, deadline: Instant) {
        while self.step_until(deadline) {}
        self.now = self.now.max(deadline);
    }

    pub fn run_for(&mut self, ns: u64) {
        self.run_until(self.now.add_ns(ns));
    }

    /// When the next thing happens; now, if a node has something to send.
    fn next_time(&self) -> Option<Instant> {
        let held =
            |qp: &QueuePair| qp.bytes_in_flight() >= self.setup.allowance && !qp.wants_repair();
        let wants = |qp: &QueuePair| qp.wants_answer() || qp.wants_request() && !held(qp);
        if self.nodes.iter().any(|node| wants(&node.qp)) {
            return Some(self.now);
        }
        let arrivals = self.wire.keys().next().map(|(at, _)| *at).into_iter();
        let timers = self.nodes.iter().filter_map(|node| node.qp.poll_timeout());
        arrivals.chain(timers).min()
    }

    /// One round: send, deliver what is due, fire what is due, or let time pass.
    pub fn step(&mut self) -> bool {
        self.step_until(Instant::from_nanos(u64::MAX))
    }

    /// The same, but time does not pass beyond `limit`.
    fn step_until(&mut self, limit: Instant) -> bool {
        let sent = self.transmit(0) | self.transmit(1);
        if sent {
            return true;
        }
        let Some(next) = self.next_time().filter(|next| *next <= limit) else { return false };
        self.now = self.now.max(next);
        self.deliver();
        for node in &mut self.nodes {
            node.serve_timer(self.now);
        }
        true
    }

    fn transmit(&mut self, from: usize) -> bool {
        let mut out = vec![0u8; (1 + self.setup.train) * limits::MAX_PACKET];
        let (allowance, mut left) = (self.setup.allowance, PACKETS_PER_TURN);
        while left > 0 {
            let (now, node) = (self.now, &mut self.nodes[from]);
            let qp = &mut node.qp;
            // As a device decides.
            let allowed = qp.bytes_in_flight() < allowance || qp.wants_repair() || qp.ask_for_ack();
            let first = match allowed {
                true => qp.poll_transmit(now, &mut out, cx!(node)),
                false => qp.poll_answer(now, true, &mut out, cx!(node)),
            };
            let Some(first) = first else { break };
            let most = if allowed { self.setup.train.min(left - 1) } else { 0 };
            let (_, rest) = out.split_at_mut(first.len);
            let limits = TrainLimits { most, allowance, crcs: true };
            let Train { packets: more, crcs } =
                node.qp.poll_train(now, &first, limits, rest, cx!(node));
            for packet in rest.chunks_exact_mut(first.len).take(more).filter(|_| crcs) {
                let payload = Packet::parse(packet).expect("ours").payload();
                let register = crc_register(payload).to_le_bytes();
                let trailer = packet.last_chunk_mut().expect("an ICRC");
                assert_eq!(std::mem::take(trailer), register);
            }
            left -= 1 + more;
            self.in_trains += more;
            for packet in out.chunks_exact(first.len).take(1 + more) {
                self.put_on_wire(from, packet.to_vec(), first.path);
            }
        }
        left < PACKETS_PER_TURN
    }

    fn put_on_wire(&mut self, from: usize, bytes: Vec<u8>, path: Path) {
        let packet = Packet::parse(&bytes).expect("we emit only what we can parse");
        assert_eq!(packet.bth.tver, 0);
        let seen = Seen {
            at: self.now,
            from,
            opcode: packet.bth.opcode,
            psn: packet.bth.psn.get(),
            bytes: bytes.clone(),
            path,
        };
        assert_eq!(path.src, self.nodes[from].ip);
        let fate = (self.filter)(&seen);
        if self.traces {
            self.trace.push(seen);
        }
        let to = 1 - from;
        let now = self.now;
        let left = match &mut self.link {
            Some(link) => link.leave(from, now, bytes.len()),
            None => Some(now),
        };
        let Some(left) = left else { return };
        let at = left.add_ns(self.latency_ns);
        match fate {
            Fate::Drop => {}
            Fate::Deliver => self.fly(at, to, bytes),
            Fate::Duplicate => {
                self.fly(at, to, bytes.clone());
                self.fly(at, to, bytes);
            }
            Fate::DuplicateLate(ns) => {
                self.fly(at, to, bytes.clone());
                self.fly(at.add_ns(ns), to, bytes);
            }
            Fate::Delay(ns) => self.fly(at.add_ns(ns), to, bytes),
            Fate::Replace(bytes) => self.fly(at, to, bytes),
        }
    }

    fn fly(&mut self, at: Instant, to: usize, bytes: Vec<u8>) {
        self.seq += 1;
        let traffic_class = self.traffic_class;
        self.wire.insert((at, self.seq), InFlight { to, bytes, traffic_class });
    }

    fn deliver(&mut self) {
        let behind = self.wire.split_off(&(self.now.add_ns(1), 0));
        let arrived: Vec<_> = std::mem::replace(&mut self.wire, behind).into_values().collect();
        let mut rest = &arrived[..];
        while let [first, behind @ ..] = rest {
            self.receive(first.to, &first.bytes, first.traffic_class);
            let taken = self.receive_behind(first, behind);
            self.arrived_in_trains += taken;
            rest = &behind[taken..];
        }
    }

    /// Hands over what may have come in one buffer with `first`; returns how many packets were taken in.
    fn receive_behind(&mut self, first: &InFlight, behind: &[InFlight]) -> usize {
        let beside = |flight: &&InFlight| {
            flight.to == first.to
                && flight.bytes.len() == first.bytes.len()
                && flight.traffic_class == first.traffic_class
        };
        let count = behind.iter().take(self.setup.arrives).take_while(beside).count();
        let Ok(head) = Packet::parse(&first.bytes) else { return 0 };
        let alike = behind[..count].first().and_then(|flight| head.parse_alike(&flight.bytes));
        let Some(second) = alike else { return 0 };
        let arrival = self.arrival(first.to, first.bytes.len(), first.traffic_class);
        let (now, node) = (self.now, &mut self.nodes[first.to]);
        let Ok(admitted) = node.qp.admits(&arrival, &second) else { return 0 };
        let train = ArrivedTrain { first: second, admitted, count };
        let mut packets = behind[..count].iter();
        let next = |psn| {
            let next = head.parse_alike(&packets.next()?.bytes)?;
            (next.bth.psn == psn).then_some(next)
        };
        node.qp.handle_train(now, &arrival, &train, next, cx!(node))
    }

    /// Hands bytes to a node as if they had arrived from its peer with a good ICRC.
    pub fn receive(&mut self, to: usize, bytes: &[u8], traffic_class: u8) {
        let arrival = self.arrival(to, bytes.len(), traffic_class);
        self.receive_from(to, &arrival, bytes);
    }

    pub fn arrival(&self, to: usize, length: usize, traffic_class: u8) -> Arrival {
        Arrival {
            src: self.nodes[1 - to].ip,
            dst: self.nodes[to].ip,
            traffic_class,
            hop_limit: 64,
            ip_id: 0,
            udp_len: length as u16 + 8,
        }
    }

    pub fn receive_from(&mut self, to: usize, arrival: &Arrival, bytes: &[u8]) {
        let node = &mut self.nodes[to];
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return node.counters.drop(error.drop_reason()),
        };
        match node.qp.admits(arrival, &packet) {
            Ok(admitted) => {
                node.qp.handle_packet(self.now, arrival, &packet, admitted, cx!(node));
            }
            Err(reason) => node.counters.drop(reason),
        }
    }

    /// A packet as the peer of node `to` would send it; headers by `write`, then payload.
    pub fn forge(
        &self,
        to: usize,
        opcode: Opcode,
        psn: u32,
        write: impl FnOnce(&mut HeaderWriter<'_>, &mut Bth),
        payload: &[u8],
    ) -> Vec<u8> {
        let pad = payload.len().wrapping_neg() & 3;
        let mut bth = Bth::new(opcode, Qpn::new(QPNS[to]), Psn::new(psn));
        bth.pad = pad as u8;
        let mut ext = vec![0u8; 64];
        let mut writer = HeaderWriter::new(&mut ext);
        write(&mut writer, &mut bth);
        let ext_len = writer.len();
        let mut head = [0u8; 12];
        let mut writer = HeaderWriter::new(&mut head);
        writer.put(&bth).unwrap();
        let mut bytes = head.to_vec();
        bytes.extend_from_slice(&ext[..ext_len]);
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len() + pad + 4, 0);
        bytes
    }

    /// Node 0 hears an ACKNOWLEDGE with this syndrome from its peer.
    pub fn answer(&mut self, psn: u32, syndrome: Syndrome) {
        let write = |out: &mut HeaderWriter<'_>, _: &mut Bth| {
            out.put(&Aeth { syndrome, msn: 0 }).unwrap();
        };
        let opcode = Opcode::RC_ACKNOWLEDGE.of_service(self.setup.qp_type.service());
        let bytes = self.forge(0, opcode, psn, write, &[]);
        self.receive(0, &bytes, 0);
    }

    /// Node 0 hears a sequence NAK with a list of gaps from its peer.
    pub fn nak_with_list(&mut self, psn: u32, list: &[u8]) {
        let syndrome = Syndrome::nak(uroce_wire::NakCode::PsnSequence);
        let write = |out: &mut HeaderWriter<'_>, _: &mut Bth| {
            out.put(&Aeth { syndrome, msn: 0 }).unwrap();
        };
        let bytes = self.forge(0, Opcode::RC_ACKNOWLEDGE, psn, write, list);
        self.receive(0, &bytes, 0);
    }

    /// SEND with immediate data, WRITE and READ of `length` bytes by node 0; the data has arrived.
    pub fn move_bytes(&mut self, length: usize) {
        let data = pattern(7, length);
        self.nodes[0].fill(100, &data);
        let target = self.nodes[1].sge(5000, 65536);
        self.nodes[1].recv(77, &[target]).unwrap();
        let source = self.nodes[0].sge(100, length as u32);
        self.nodes[0].send(&wr_sges(1, SendOp::SendWithImm(0xabcd), &[source])).unwrap();
        let (va, rkey) = (self.nodes[1].va(200_000), self.nodes[1].rkey());
        self.nodes[0].send(&wr_sges(2, SendOp::Write { va, rkey }, &[source])).unwrap();
        let back = self.nodes[0].sge(300_000, length as u32);
        self.nodes[0].send(&wr_sges(3, SendOp::Read { va, rkey }, &[back])).unwrap();
        self.run();
        let done = self.nodes[0].sends();
        assert!(done.iter().map(|wc| (wc.wr_id, wc.is_ok())).eq([(1, true), (2, true), (3, true)]));
        let got = self.nodes[1].recvs();
        assert_eq!(got.len(), 1);
        assert_eq!((got[0].wr_id, got[0].byte_len, got[0].imm), (77, length as u32, Some(0xabcd)));
        assert_eq!(self.nodes[1].bytes(5000, length), data);
        assert_eq!(self.nodes[1].bytes(200_000, length), data);
        assert_eq!(self.nodes[0].bytes(300_000, length), data);
    }

    /// Packets from `from` whose opcode name contains `name`.
    pub fn seen(&self, from: usize, name: &str) -> Vec<&Seen> {
        self.trace.iter().filter(|seen| seen.from == from && seen.name().contains(name)).collect()
    }

    /// AETH syndromes in ACKNOWLEDGE packets from `from`.
    pub fn syndromes(&self, from: usize) -> Vec<(u32, u8)> {
        let is_ack = |seen: &&Seen| {
            seen.from == from && seen.packet().info.operation == Operation::Acknowledge
        };
        let acks = self.trace.iter().filter(is_ack);
        acks.filter_map(|seen| Some((seen.psn, seen.syndrome()?))).collect()
    }
}

/// Numbers from a seed (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
