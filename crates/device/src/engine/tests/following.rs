//! Packets that arrived in one buffer do what they would do one by one, whoever sent them.

use proptest::prelude::*;
use uroce_datapath::{DatapathStats, IpId};
use uroce_memory::{Mr, Region, Sge};
use uroce_transport::{RecvWr, Wc};
use uroce_wire::{Bth, Flow, Header, Psn, Reth, icrc};

use super::*;

const QPN: u32 = 0x55;
const MTU: usize = 256;
const SPACE: usize = 16 * 1024;
const ACCESS: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);

/// What a peer sends next.
#[derive(Debug, Clone)]
enum Message {
    Send(usize),
    Write(usize),
}

/// What is wrong with a packet.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    Icrc,
    Missing,
    Doubled,
    /// A bit of its first bytes is another, and its ICRC is right.
    Altered(usize),
}

/// A responder with registered memory and receives.
fn responder() -> (Bench, Region, Mr) {
    let mut bench = bench();
    bench.insert(QPN, QpType::Rc);
    let region = Region::alloc(SPACE).expect("memory");
    let (pd, addr) = (bench.pd, region.addr());
    let nic = &mut bench.engine.nic;
    let mr = nic.tables.mem.reg_mr(pd, region.clone(), addr, ACCESS).expect("a region");
    let entry = nic.qps.get_mut(Qpn::new(QPN)).expect("inserted");
    for wr_id in 0..40 {
        let sge = Sge { addr: addr + 37 * wr_id, length: 6 * MTU as u32, lkey: mr.lkey };
        let wr = RecvWr::new(wr_id, std::slice::from_ref(&sge));
        entry.qp.post_recv(&wr, &mut nic.tables.context()).expect("room");
    }
    (bench, region, mr)
}

/// The packets of a message from PSN `psn` on, without ICRC.
fn packets(message: &Message, psn: u32, mr: &Mr, va: u64) -> Vec<Vec<u8>> {
    let &(Message::Send(length) | Message::Write(length)) = message;
    let write = matches!(message, Message::Write(_));
    let count = length.div_ceil(MTU).max(1);
    let packet = |index: usize| {
        let opcode = match (write, index, index + 1 == count) {
            (false, 0, true) => Opcode::RC_SEND_ONLY,
            (false, 0, false) => Opcode::RC_SEND_FIRST,
            (false, _, false) => Opcode::RC_SEND_MIDDLE,
            (false, _, true) => Opcode::RC_SEND_LAST,
            (true, 0, true) => Opcode::RC_WRITE_ONLY,
            (true, 0, false) => Opcode::RC_WRITE_FIRST,
            (true, _, false) => Opcode::RC_WRITE_MIDDLE,
            (true, _, true) => Opcode::RC_WRITE_LAST,
        };
        let payload = MTU.min(length - index * MTU);
        let mut bth = Bth::new(opcode, Qpn::new(QPN), Psn::new(psn + index as u32));
        bth.pad = (payload.wrapping_neg() & 3) as u8;
        bth.ack_req = (psn as usize + index).is_multiple_of(7);
        let mut bytes = vec![0; Bth::LEN];
        bth.write(&mut bytes).expect("room");
        if write && index == 0 {
            let mut reth = vec![0; Reth::LEN];
            Reth { va, rkey: mr.rkey.0, length: length as u32 }.write(&mut reth).expect("room");
            bytes.extend(reth);
        }
        bytes.extend((0..payload).map(|at| (at * 31 + psn as usize + index) as u8));
        bytes.resize(bytes.len() + usize::from(bth.pad), 0);
        bytes
    };
    (0..count).map(packet).collect()
}

fn seal(mut covered: Vec<u8>, ip_id: u16) -> Vec<u8> {
    let (src, dst) = (addr(2).ip(), addr(1).ip());
    let flow = Flow { src, dst, src_port: 0xc000, dst_port: PORT };
    covered.extend(icrc(&flow, ip_id, &covered).to_le_bytes());
    covered
}

/// All packets of a peer, in buffers of up to `most`, in each of which identifications count from `id` on or are all `id`.
fn buffers(
    messages: &[Message],
    wrong: &[(usize, Wrong)],
    (most, id, step): (usize, u16, u16),
    (mr, at): (&Mr, u64),
) -> Vec<(usize, Vec<u8>)> {
    let (mut all, mut psn) = (Vec::new(), 0);
    for (index, message) in messages.iter().enumerate() {
        let sent = packets(message, psn, mr, at + 53 * index as u64);
        psn += sent.len() as u32;
        all.extend(sent);
    }
    let mut arrived = Vec::new();
    for (index, mut packet) in all.into_iter().enumerate() {
        match wrong.iter().find(|(which, _)| *which == index).map(|(_, what)| *what) {
            Some(Wrong::Missing) => continue,
            Some(Wrong::Doubled) => arrived.push((packet.clone(), false)),
            Some(Wrong::Altered(bit)) => packet[bit / 8] ^= 1 << (bit % 8),
            Some(Wrong::Icrc) | None => {}
        }
        let bad =
            wrong.iter().any(|wrong| matches!(wrong, (which, Wrong::Icrc) if *which == index));
        arrived.push((packet, bad));
    }
    let mut buffers = Vec::new();
    for alike in arrived.chunk_by(|(one, _), (next, _)| one.len() == next.len()) {
        for joined in alike.chunks(most) {
            let mut bytes = Vec::new();
            for ((packet, bad), place) in joined.iter().zip(0..) {
                let mut sealed = seal(packet.clone(), id.wrapping_add(place * step));
                let last = sealed.len() - 1;
                sealed[last] ^= u8::from(*bad);
                bytes.extend(sealed);
            }
            buffers.push((bytes.len() / joined.len(), bytes));
        }
    }
    buffers
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    memory: Vec<u8>,
    completions: Vec<Wc>,
    counters: Vec<(&'static str, u64)>,
    answers: Vec<(Opcode, u32)>,
    stats: DatapathStats,
}

fn outcome(
    messages: &[Message],
    wrong: &[(usize, Wrong)],
    ids: (usize, u16, u16),
    together: bool,
) -> Outcome {
    let (mut bench, region, mr) = responder();
    let mut stats = DatapathStats::default();
    let Engine { nic, gsi, .. } = &mut bench.engine;
    for (size, bytes) in buffers(messages, wrong, ids, (&mr, region.addr())) {
        let buffer = RxPacket {
            src: SocketAddr::new(addr(2).ip(), 0xc000),
            dst: addr(1),
            traffic_class: 0,
            hop_limit: 64,
            ip_id: IpId::Hidden(0),
            icrc_checked: false,
            fate: None,
            payload: &bytes,
            following: None,
        };
        let mut offset = 0;
        // A limit below the length of some buffers.
        while offset < bytes.len() {
            buffer.hand_over(size, &mut offset, 16, &mut stats, &mut |rx| {
                let following = rx.following.filter(|_| together);
                nic.receive(Instant::ZERO, &RxPacket { following, ..rx }, gsi);
            });
        }
        nic.reschedule_last_receiver();
    }
    bench.engine.poll_once();
    let mut completions = vec![Wc::default(); 100];
    let queue = bench.engine.nic.tables.cqs.get_mut(bench.cq).expect("there");
    let count = queue.poll(&mut completions);
    completions.truncate(count);
    let mut memory = vec![0; SPACE];
    region.read(0, &mut memory).expect("in range");
    let counters = bench.engine.counters();
    Outcome { memory, completions, counters, answers: bench.headers(), stats }
}

fn message() -> impl Strategy<Value = Message> {
    let length = prop_oneof![4 => Just(64usize), 1 => 1usize..300, 2 => 600usize..1500];
    (length, any::<bool>()).prop_map(|(length, write)| match write {
        true => Message::Write(length),
        false => Message::Send(length),
    })
}

fn wrong() -> impl Strategy<Value = Wrong> {
    prop_oneof![
        Just(Wrong::Icrc),
        Just(Wrong::Missing),
        Just(Wrong::Doubled),
        (0usize..12 * 8).prop_map(Wrong::Altered),
    ]
}

proptest! {
    #[test]
    fn r19_what_arrives_in_one_buffer_is_taken_in_as_if_it_came_singly(
        messages in prop::collection::vec(message(), 1..30),
        wrong in prop_oneof![
            2 => Just(Vec::new()),
            3 => prop::collection::vec((0usize..80, wrong()), 1..4),
        ],
        most in 1usize..40,
        id: u16,
        step in 0u16..2,
    ) {
        let singly = outcome(&messages, &wrong, (most, id, step), false);
        let together = outcome(&messages, &wrong, (most, id, step), true);
        prop_assert_eq!(singly, together);
    }
}

#[test]
fn r19_what_is_alike_in_a_buffer_is_one_call() {
    let (mut bench, region, mr) = responder();
    let messages = vec![Message::Send(64); 12];
    let [(size, bytes)] = &buffers(&messages, &[], (64, 0, 1), (&mr, region.addr()))[..] else {
        panic!("one buffer")
    };
    let (mut calls, mut offset, mut stats) = (0, 0, DatapathStats::default());
    let Engine { nic, gsi, .. } = &mut bench.engine;
    let buffer = RxPacket {
        src: SocketAddr::new(addr(2).ip(), 0xc000),
        dst: addr(1),
        traffic_class: 0,
        hop_limit: 64,
        ip_id: IpId::Hidden(0),
        icrc_checked: false,
        fate: None,
        payload: bytes,
        following: None,
    };
    let count = buffer.hand_over(*size, &mut offset, 64, &mut stats, &mut |rx| {
        calls += 1;
        nic.receive(Instant::ZERO, &rx, gsi);
    });
    assert_eq!((calls, count, stats.rx_packets), (1, 12, 12));
    assert_eq!(offset, bytes.len());
}
