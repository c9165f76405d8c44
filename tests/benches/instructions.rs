//! The work per 1 KiB packet of a WRITE or READ, and per 64 B SEND or 8 B WRITE with its work requests and
//! completions, of requester and responder, for counting instructions.
//!
//! Run it by `cargo xtask bench instructions`, which starts it under callgrind and collects only
//! inside the functions named `requester_*` or `responder_*`. Run alone, with `write`, `read`, `send` or `write8`,
//! it prints packets per second.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant as Clock;

use uroce_memory::{Access, MemLimits, MemTable, Mr, Region, Rkey, Sge, multiplied_crc};
use uroce_transport::*;
use uroce_wire::{Flow, FlowIcrc, Mtu, PacketParser, Qpn};

const MESSAGE: u32 = 32 * 1024;
const MESSAGES: u64 = 200;
const MTU: Mtu = Mtu::M1024;
/// SENDs: their length, how many are posted at a time, and how often.
const SMALL: u32 = 64;
const LIST: u64 = 32;
const LISTS: u64 = 200;
/// Packets of a queue pair that a device lets leave at a time.
const TRAIN: usize = 64;
const ACCESS: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);

struct End {
    qp: QueuePair,
    mem: MemTable,
    cqs: CqTable,
    srqs: SrqTable,
    events: EventQueue,
    reorder_buffers: ReorderBuffers,
    counters: Counters,
    region: Region,
    mr: Mr,
    cq: CqId,
    ip: IpAddr,
    /// Two, as a device has for each queue pair.
    tx_icrc: FlowIcrc,
    rx_icrc: FlowIcrc,
    parser: PacketParser,
}

/// Packets of one burst behind each other, as a datapath has them.
#[derive(Default)]
struct Burst {
    bytes: Vec<u8>,
    /// Packets that left in one call: their length and number.
    trains: Vec<(usize, usize)>,
}

impl Burst {
    fn packets(&self) -> usize {
        self.trains.iter().map(|(_, count)| count).sum()
    }
}

fn end(index: u8) -> End {
    let mut mem = MemTable::new([index; 32], MemLimits::default());
    let pd = mem.alloc_pd().expect("the first");
    let region = Region::alloc(1 << 20).expect("memory");
    let mr = mem.reg_mr(pd, region.clone(), region.addr(), ACCESS).expect("a region");
    let mut cqs = CqTable::new();
    let cq = cqs.insert(CompletionQueue::new(1024));
    let caps = QpCaps {
        max_send_wr: LIST as u32,
        max_send_sge: 1,
        max_recv_wr: LIST as u32,
        max_recv_sge: 1,
        ..QpCaps::default()
    };
    let init = QpInit {
        qpn: Qpn::new(u32::from(index)),
        qp_type: QpType::Rc,
        pd,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        xrcd: None,
        caps,
        signal_all: false,
        port_mtu: MTU,
    };
    End {
        qp: QueuePair::new(&init).expect("within limits"),
        mem,
        cqs,
        srqs: SrqTable::new(),
        events: EventQueue::new(),
        reorder_buffers: ReorderBuffers::new(),
        counters: Counters::new(),
        region,
        mr,
        cq,
        ip: IpAddr::from([10, 0, 0, index]),
        tx_icrc: FlowIcrc::with_payload_crc(multiplied_crc),
        rx_icrc: FlowIcrc::with_payload_crc(multiplied_crc),
        parser: PacketParser::default(),
    }
}

macro_rules! cx {
    ($end:expr) => {
        &mut Context {
            mem: &mut $end.mem,
            cqs: &mut $end.cqs,
            srqs: &mut $end.srqs,
            events: &mut $end.events,
            reorder_buffers: &mut $end.reorder_buffers,
            counters: &mut $end.counters,
        }
    };
}

fn connect(end: &mut End, peer: u8) {
    use QpAttrMask as M;
    let attr = QpAttr {
        access: ACCESS,
        av: Some(AddressVector::new(end.ip, IpAddr::from([10, 0, 0, peer]))),
        path_mtu: MTU,
        dest_qpn: u32::from(peer),
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        ..QpAttr::default()
    };
    let steps = [
        (QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS),
        (
            QpState::Rtr,
            M::AV
                | M::PATH_MTU
                | M::DEST_QPN
                | M::RQ_PSN
                | M::MAX_DEST_RD_ATOMIC
                | M::MIN_RNR_TIMER,
        ),
        (QpState::Rts, M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC),
    ];
    for (state, mask) in steps {
        let attr = QpAttr { state, ..attr };
        end.qp.modify(Instant::ZERO, &attr, mask | M::STATE, cx!(end)).expect("a valid step");
    }
}

/// Makes all packets that may go out now, ICRC included, as a device does on a datapath with room for trains.
fn emit(end: &mut End, flow: &Flow, burst: &mut Burst) {
    burst.trains.clear();
    let mut at = 0;
    while let Some(room) = burst.bytes.get_mut(at..) {
        let Some(first) = end.qp.poll_transmit(Instant::ZERO, room, cx!(end)) else { break };
        let behind = &mut room[first.len..];
        let limits = TrainLimits { most: TRAIN - 1, allowance: u64::MAX, crcs: true };
        let train = end.qp.poll_train(Instant::ZERO, &first, limits, behind, cx!(end));
        let (packet, behind) = room.split_at_mut(first.len);
        seal(&mut end.tx_icrc, flow, packet, false);
        for packet in behind.chunks_exact_mut(first.len).take(train.packets) {
            seal(&mut end.tx_icrc, flow, packet, train.crcs);
        }
        burst.trains.push((first.len, 1 + train.packets));
        at += (1 + train.packets) * first.len;
    }
}

#[inline(always)]
fn seal(icrc: &mut FlowIcrc, flow: &Flow, packet: &mut [u8], knows_payload: bool) {
    let Some((covered, trailer)) = packet.split_last_chunk_mut() else { return };
    let icrc = match knows_payload {
        true => icrc.icrc_around(flow, 0, covered, u32::from_le_bytes(*trailer)),
        false => icrc.icrc(flow, 0, covered),
    };
    *trailer = icrc.to_le_bytes();
}

/// Takes in all packets of a burst, each train as a datapath hands over what arrived in one buffer.
fn take(end: &mut End, flow: &Flow, burst: &Burst) {
    let mut at = 0;
    for &(length, count) in &burst.trains {
        let train_end = at + count * length;
        while at < train_end {
            at += length * receive(end, flow, &burst.bytes[at..train_end], length);
        }
    }
}

/// Takes in the first packet of the buffer, and what may be taken in with it; returns how many.
fn receive(end: &mut End, flow: &Flow, buffer: &[u8], length: usize) -> usize {
    let arrival = Arrival {
        src: flow.src,
        dst: flow.dst,
        traffic_class: 0,
        hop_limit: 64,
        ip_id: 0,
        udp_len: length as u16 + 8,
    };
    let (bytes, behind) = buffer.split_at(length);
    let packet = end.parser.parse(bytes).expect("our own packet");
    let admitted = end.qp.admits(&arrival, &packet).expect("from our own peer");
    assert!(end.rx_icrc.verify(flow, 0, bytes));
    end.qp.handle_packet(Instant::ZERO, &arrival, &packet, admitted, cx!(end));
    if behind.is_empty() {
        return 1;
    }
    let mut following = behind.chunks_exact(length);
    let first = following.clone().next().and_then(|bytes| packet.parse_alike(bytes));
    let Some(first) = first else { return 1 };
    let admitted = end.qp.admits(&arrival, &first).expect("from our own peer");
    let train = ArrivedTrain { first, admitted, count: following.len() };
    let next = |psn| {
        let next = packet.parse_alike(following.next()?).filter(|next| next.bth.psn == psn)?;
        end.rx_icrc.verify(flow, 0, next.bytes()).then_some(next)
    };
    1 + end.qp.handle_train(Instant::ZERO, &arrival, &train, next, cx!(end))
}

// The different numbers keep the compiler from merging functions that are alike.
#[inline(never)]
fn requester_emit(end: &mut End, flow: &Flow, burst: &mut Burst) {
    black_box(1);
    emit(end, flow, burst);
}

#[inline(never)]
fn requester_take(end: &mut End, flow: &Flow, burst: &Burst) {
    black_box(2);
    take(end, flow, burst);
}

#[inline(never)]
fn responder_emit(end: &mut End, flow: &Flow, burst: &mut Burst) {
    black_box(3);
    emit(end, flow, burst);
}

#[inline(never)]
fn responder_take(end: &mut End, flow: &Flow, burst: &Burst) {
    black_box(4);
    take(end, flow, burst);
}

#[inline(never)]
fn requester_post(end: &mut End) {
    let sge = Sge { addr: end.region.addr(), length: SMALL, lkey: end.mr.lkey };
    let data = SendData::Sges(std::slice::from_ref(&sge));
    let context = cx!(end);
    for wr_id in 0..LIST {
        let last = wr_id + 1 == LIST;
        let flags = if last { SendFlags::SIGNALED } else { SendFlags::empty() };
        let wr = SendWr { wr_id, op: SendOp::Send, flags, data, ud: None, srqn: None };
        end.qp.post_send(Instant::ZERO, &wr, context).expect("room for all");
    }
}

#[inline(never)]
fn requester_post_write(end: &mut End, va: u64, rkey: Rkey) {
    let sge = Sge { addr: end.region.addr(), length: 8, lkey: end.mr.lkey };
    let (op, flags) = (SendOp::Write { va, rkey }, SendFlags::SIGNALED);
    let data = SendData::Sges(std::slice::from_ref(&sge));
    let wr = SendWr { wr_id: 0, op, flags, data, ud: None, srqn: None };
    end.qp.post_send(Instant::ZERO, &wr, cx!(end)).expect("room for one");
}

#[inline(never)]
fn responder_post(end: &mut End) {
    let sge = Sge { addr: end.region.addr(), length: SMALL, lkey: end.mr.lkey };
    let context = cx!(end);
    for wr_id in 0..LIST {
        let wr = RecvWr::new(wr_id, std::slice::from_ref(&sge));
        end.qp.post_recv(&wr, context).expect("room for all");
    }
}

#[inline(never)]
fn requester_poll(end: &mut End, out: &mut [Wc]) -> usize {
    black_box(5);
    end.cqs.get_mut(end.cq).map_or(0, |cq| cq.poll(out))
}

#[inline(never)]
fn responder_poll(end: &mut End, out: &mut [Wc]) -> usize {
    black_box(6);
    end.cqs.get_mut(end.cq).map_or(0, |cq| cq.poll(out))
}

/// Two connected ends, and the packets between them.
struct Pair {
    requester: End,
    responder: End,
    there: Flow,
    back: Flow,
    forward: Burst,
    answers: Burst,
}

impl Pair {
    fn new() -> Self {
        let (mut requester, mut responder) = (end(1), end(2));
        connect(&mut requester, 2);
        connect(&mut responder, 1);
        let there = Flow { src: requester.ip, dst: responder.ip, src_port: 0xc000, dst_port: 4791 };
        let back = Flow { src: responder.ip, dst: requester.ip, ..there };
        let room = || Burst { bytes: vec![0; 512 * 1024], trains: Vec::with_capacity(1024) };
        Pair { requester, responder, there, back, forward: room(), answers: room() }
    }

    /// Lets both ends send what they have; false when the requester had nothing.
    fn exchange(&mut self) -> bool {
        requester_emit(&mut self.requester, &self.there, &mut self.forward);
        responder_take(&mut self.responder, &self.there, &self.forward);
        responder_emit(&mut self.responder, &self.back, &mut self.answers);
        requester_take(&mut self.requester, &self.back, &self.answers);
        !self.forward.trains.is_empty()
    }
}

/// WRITEs or READs of 32 KiB; the packets that carried data.
fn move_large(pair: &mut Pair, read: bool) -> usize {
    let mut packets = 0;
    for wr_id in 0..MESSAGES {
        post(&mut pair.requester, &pair.responder, wr_id, read);
        loop {
            let more = pair.exchange();
            packets += if read { &pair.answers } else { &pair.forward }.packets();
            if !more {
                break;
            }
        }
        let requester = &mut pair.requester;
        let done =
            requester.cqs.get_mut(requester.cq).map_or(0, |cq| cq.poll(&mut [Wc::default()]));
        assert_eq!(black_box(done), 1, "each message completes once");
    }
    assert_eq!(packets as u64, MESSAGES * u64::from(MESSAGE) / MTU.bytes() as u64);
    packets
}

/// SENDs of 64 B, of which the last of each list is signalled; the packets that carried data.
fn move_small(pair: &mut Pair) -> usize {
    let mut packets = 0;
    let mut done = [Wc::default(); LIST as usize];
    for _ in 0..LISTS {
        responder_post(&mut pair.responder);
        requester_post(&mut pair.requester);
        while pair.exchange() {
            packets += pair.forward.packets();
        }
        assert_eq!(requester_poll(&mut pair.requester, &mut done), 1, "the signalled one");
        assert_eq!(responder_poll(&mut pair.responder, &mut done) as u64, LIST);
        black_box(&done);
    }
    assert_eq!(packets as u64, LISTS * LIST);
    packets
}

/// WRITEs of 8 B, one after the other, each with its ACK and its completion.
fn move_single(pair: &mut Pair) -> usize {
    let mut done = [Wc::default()];
    let (va, rkey) = (pair.responder.region.addr(), pair.responder.mr.rkey);
    for _ in 0..LIST * LISTS {
        requester_post_write(&mut pair.requester, va, rkey);
        assert!(pair.exchange(), "it goes out");
        assert_eq!(requester_poll(&mut pair.requester, &mut done), 1, "its completion");
        black_box(&done);
    }
    (LIST * LISTS) as usize
}

fn main() {
    let verb = std::env::args().nth(1).unwrap_or_default();
    let mut pair = Pair::new();
    let start = Clock::now();
    let packets = match verb.as_str() {
        "send" => move_small(&mut pair),
        "write8" => move_single(&mut pair),
        verb => move_large(&mut pair, verb == "read"),
    };
    let rate = packets as f64 / start.elapsed().as_secs_f64();
    println!("{packets} packets, {:.2} million packets/s, both ends on one core", rate / 1e6);
}

fn post(requester: &mut End, responder: &End, wr_id: u64, read: bool) {
    let sge = Sge { addr: requester.region.addr(), length: MESSAGE, lkey: requester.mr.lkey };
    let (va, rkey) = (responder.region.addr(), responder.mr.rkey);
    let op = if read { SendOp::Read { va, rkey } } else { SendOp::Write { va, rkey } };
    let data = SendData::Sges(std::slice::from_ref(&sge));
    let wr = SendWr { wr_id, op, flags: SendFlags::SIGNALED, data, ud: None, srqn: None };
    requester.qp.post_send(Instant::ZERO, &wr, cx!(requester)).expect("room for one");
}
