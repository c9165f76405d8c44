//! What single losses cost a READ, beside what they cost a WRITE (R150 to R153, docs/adr/023).

use uroce_transport::*;
use uroce_wire::ANY_PART;

use crate::harness::forge::*;
use crate::harness::*;

/// Seeded transfers of each kind.
const TRANSFERS: u64 = 400;
const MESSAGES: u64 = 8;
const LENGTH: u32 = 32 * 1024;

/// Means over all transfers.
#[derive(Debug)]
struct Cost {
    us: f64,
    data_packets: f64,
}

/// Eight messages of 32 KiB, one after the other, while `per_mille` of all packets are lost.
fn transfer(read: bool, per_mille: u64) -> Cost {
    let (mut ns, mut packets) = (0, 0);
    for seed in 1..=TRANSFERS {
        let mut pair = Pair::new(Setup { rd_atomic: 16, ..Setup::as_device() });
        let data = pattern(seed as u8, LENGTH as usize);
        pair.nodes[usize::from(read)].fill(0, &data);
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let op = if read { SendOp::Read { va, rkey } } else { SendOp::Write { va, rkey } };
        for id in 0..MESSAGES {
            let sge = pair.nodes[0].sge(0, LENGTH);
            pair.nodes[0].send(&wr_sges(id, op, &[sge])).unwrap();
        }
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        pair.filter(move |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random % 1000 < per_mille { Fate::Drop } else { Fate::Deliver }
        });
        let start = pair.now;
        pair.run();
        ns += pair.trace.last().unwrap().at.since(start);
        packets += pair.trace.iter().filter(|seen| seen.from == usize::from(read)).count();
        let done = pair.nodes[0].sends();
        assert!(
            done.iter().map(|wc| (wc.wr_id, wc.is_ok())).eq((0..MESSAGES).map(|id| (id, true)))
        );
        assert_eq!(pair.nodes[usize::from(!read)].bytes(0, LENGTH as usize), data);
    }
    let mean = |sum: f64| sum / TRANSFERS as f64;
    Cost { us: mean(ns as f64) / 1000.0, data_packets: mean(packets as f64) }
}

#[test]
fn r150_r152_loss_costs_a_read_no_more_than_a_write() {
    for per_mille in [1, 5, 10, 30] {
        let [write, read] = [false, true].map(|read| transfer(read, per_mille));
        println!("{per_mille} of 1000 packets lost: WRITE {write:?}, READ {read:?}");
        assert!(read.us <= 1.3 * write.us, "{per_mille}: {read:?} beside {write:?}");
        assert!(read.data_packets <= 1.3 * write.data_packets, "{per_mille}: {read:?}, {write:?}");
    }
}

/// A READ of `length` bytes by node 0 whose requests and responses pass, once the round trip is known.
fn reading(setup: Setup, length: u32) -> Pair {
    let mut pair = Pair::new(setup);
    pair.nodes[1].fill(0, &pattern(9, length as usize));
    read(&mut pair, 0, 100);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    pair.trace.clear();
    read(&mut pair, 1, length);
    pair
}

fn read(pair: &mut Pair, wr_id: u64, length: u32) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = pair.nodes[0].sge(0, length);
    pair.nodes[0].send(&wr_sges(wr_id, SendOp::Read { va, rkey }, &[target])).unwrap();
}

/// Loses the responses with these PSNs (from that of the first response on), once each.
fn lose_responses(pair: &mut Pair, mut lost: Vec<u32>) {
    let first = pair.nodes[0].qp.next_psn().get();
    pair.filter(move |seen| match lost.iter().position(|index| first + index == seen.psn) {
        Some(at) if seen.from == 1 => {
            lost.swap_remove(at);
            Fate::Drop
        }
        _ => Fate::Deliver,
    });
}

/// PSN and length in packets of the requests, by the PSN of the first response.
fn requests(pair: &Pair) -> Vec<(u32, u32)> {
    let all = pair.seen(0, "READ_REQUEST");
    let first = all[0].psn;
    let length = |seen: &Seen| seen.packet().reth().unwrap().length.div_ceil(256);
    all.iter().map(|seen| (seen.psn - first, length(seen))).collect()
}

/// The oldest hole is asked for alone, until the peer has said that it answers parts in any order.
#[test]
fn r151_several_holes_are_asked_for_in_one_round_trip_and_nothing_else_is() {
    let mut pair = reading(Setup::as_device(), 60 * 256);
    for latencies in [5, 3] {
        lose_responses(&mut pair, vec![3, 10, 11, 12, 40]);
        let start = pair.now;
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(requests(&pair), [(0, 60), (3, 1), (10, 3), (40, 1)]);
        assert_eq!(pair.seen(1, "READ_RESPONSE").len(), 60 + 5);
        assert_eq!(pair.trace.last().unwrap().at.since(start), latencies * pair.latency_ns);
        assert_eq!(pair.nodes[0].bytes(0, 60 * 256), pattern(9, 60 * 256));
        pair.trace.clear();
        pair.nodes[0].fill(0, &[0; 60 * 256]);
        read(&mut pair, 1, 60 * 256);
    }
}

/// rxe never answers what is before the part of a READ that it was asked for last: a hole is asked for when those before it are
/// closed, also where an answer is lost.
#[test]
fn r58_holes_are_asked_for_in_order_where_the_peer_says_nothing() {
    // So often a response is lost that the timeout comes before it.
    const LOST_LONG: [u32; 8] = [3; 8];
    let tail = [10].into_iter().chain(50..60);
    let cases = [
        (vec![3, 3, 3, 10, 11, 40], (40, 1), 0),
        (LOST_LONG.into_iter().chain(tail).collect(), (50, 10), 1),
    ];
    for (mut lost, asked_last, timeouts) in cases {
        let mut pair = reading(Setup::as_device(), 60 * 256);
        let first = pair.nodes[0].qp.next_psn().get();
        let mut start = 0;
        pair.filter(move |seen| {
            let psn = seen.psn.wrapping_sub(first);
            if seen.name().contains("READ_REQUEST") {
                // As rxe does it.
                let answers = psn >= start;
                start = start.max(psn);
                return if answers { Fate::Deliver } else { Fate::Drop };
            }
            if let Some(at) = lost.iter().position(|lost| *lost == psn) {
                lost.swap_remove(at);
                return Fate::Drop;
            }
            let mut bytes = seen.bytes.clone();
            bytes[8] &= 0x80;
            Fate::Replace(bytes)
        });
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(pair.nodes[0].counters.ack_timeout, timeouts);
        let asked: Vec<_> = requests(&pair).into_iter().skip(1).collect();
        assert!(asked.is_sorted(), "{asked:?}");
        assert_eq!(asked.last(), Some(&asked_last));
        assert_eq!(pair.nodes[0].bytes(0, 60 * 256), pattern(9, 60 * 256));
    }
}

/// Only who asks is told: nobody else sees a reserved bit.
#[test]
fn r1_a_responder_says_that_it_answers_any_part_to_who_asks() {
    for asks in [false, true] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        let mut read = Forged::read(EPSN, va, rkey, 1000);
        let first = pair.hit(&read);
        read.bth.reserved7 = if asks { ANY_PART } else { 0 };
        let again = pair.hit(&read);
        let says = |answers: &[Seen]| answers.iter().all(|a| a.packet().bth.reserved7 == ANY_PART);
        let silent = |answers: &[Seen]| answers.iter().all(|a| a.packet().bth.reserved7 == 0);
        assert!(silent(&first) && if asks { says(&again) } else { silent(&again) });
    }
}

#[test]
fn r151_a_read_completes_when_all_of_its_bytes_are_there_and_not_before() {
    let mut pair = reading(Setup::as_device(), 60 * 256);
    let first = pair.nodes[0].qp.next_psn().get();
    pair.filter(move |seen| {
        let hole = seen.from == 1 && seen.psn == first + 30;
        if hole { Fate::Drop } else { Fate::Deliver }
    });
    pair.run_for(MS);
    assert!(pair.nodes[0].sends().is_empty());
    // All other bytes are in their place.
    let (got, due) = (pair.nodes[0].bytes(0, 60 * 256), pattern(9, 60 * 256));
    assert_eq!((&got[..30 * 256], &got[31 * 256..]), (&due[..30 * 256], &due[31 * 256..]));
    pair.no_filter();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].bytes(0, 60 * 256), due);
}

#[test]
fn r151_a_fence_waits_for_a_read_whose_hole_is_open() {
    let mut pair = reading(Setup::as_device(), 60 * 256);
    lose_responses(&mut pair, vec![59, 59, 59]);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let flags = SendFlags::SIGNALED | SendFlags::FENCE;
    pair.nodes[0].send(&SendWr { flags, ..wr(2, SendOp::Write { va, rkey }) }).unwrap();
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.iter().map(|wc| (wc.wr_id, wc.is_ok())).eq([(1, true), (2, true)]));
    let at = |name: &str| pair.trace.iter().rposition(|seen| seen.name().contains(name)).unwrap();
    assert!(at("WRITE_ONLY") > at("READ_RESPONSE"));
}

#[test]
fn r69_a15_an_early_response_of_the_wrong_length_is_dropped_and_writes_nothing() {
    let mut pair = reading(Setup::as_device(), 60 * 256);
    pair.nodes[0].fill(0, &[0xee; 60 * 256]);
    let first = pair.nodes[0].qp.next_psn().get();
    pair.filter(move |seen| match seen.psn {
        psn if seen.from == 1 && psn == first + 3 => Fate::Drop,
        psn if seen.from == 1 && psn == first + 5 => {
            let mut bytes = seen.bytes.clone();
            bytes.truncate(12 + 128 + 4);
            Fate::Replace(bytes)
        }
        _ => Fate::Deliver,
    });
    pair.run_for(2 * pair.latency_ns);
    assert_eq!(pair.nodes[0].bytes(5 * 256, 256), [0xee; 256]);
    assert_eq!(pair.nodes[0].dropped(uroce_wire::DropReason::ResponseOutOfOrder), 1);
    pair.no_filter();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].bytes(0, 60 * 256), pattern(9, 60 * 256));
}

#[test]
fn r151_requests_between_reads_are_not_sent_again_for_a_hole() {
    let mut pair = reading(Setup { rd_atomic: 4, ..Setup::as_device() }, 10 * 256);
    let (va, rkey) = (pair.nodes[1].va(8192), pair.nodes[1].rkey());
    let word = pair.nodes[0].sge(8192, 8);
    pair.nodes[0].send(&wr_sges(2, SendOp::Write { va, rkey }, &[word])).unwrap();
    pair.nodes[0].send(&wr_sges(3, SendOp::FetchAdd { va, rkey, add: 5 }, &[word])).unwrap();
    read(&mut pair, 4, 10 * 256);
    lose_responses(&mut pair, vec![4, 11]);
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.iter().map(|wc| (wc.wr_id, wc.is_ok())).eq((1..5).map(|id| (id, true))));
    assert_eq!(requests(&pair), [(0, 10), (12, 10), (4, 1)]);
    assert_eq!(pair.seen(0, "WRITE").len(), 1);
    assert_eq!(pair.seen(0, "FETCH_ADD").len(), 2, "its own answer was lost");
    assert_eq!(pair.nodes[1].region.load_u64(8192).unwrap(), 5);
}

#[test]
fn r153_a_read_leaves_at_once_though_losses_have_made_the_window_small() {
    use uroce_wire::Mtu;
    let mut pair = Pair::new(Setup { mtu: Mtu::M1024, timeout: 8, ..Setup::as_device() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let small = pair.nodes[0].sge(0, 64);
    // Silence makes the window small.
    pair.filter(|_| Fate::Drop);
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[small])).unwrap();
    pair.run_for(3 * MS);
    pair.no_filter();
    pair.run();
    // An ACK was asked for a moment ago, so a WRITE that nobody waits for asks for none.
    pair.nodes[0].send(&wr_sges(2, SendOp::Write { va, rkey }, &[small])).unwrap();
    pair.run_for(20_000);
    pair.trace.clear();
    let start = pair.now;
    let quiet = SendFlags::empty();
    let sges = [small];
    let spared = SendWr { flags: quiet, ..wr_sges(3, SendOp::Write { va, rkey }, &sges) };
    pair.nodes[0].send(&spared).unwrap();
    read(&mut pair, 4, 1 << 18);
    pair.run_for(1000);
    let request = pair.seen(0, "READ_REQUEST")[0].at.since(start);
    assert_eq!(request, 0);
    pair.run();
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
}

#[test]
fn r151_a_late_response_to_a_part_ends_nothing_though_it_is_about_to_be_asked_for_again() {
    let mut pair = reading(Setup::as_device(), 60 * 256);
    let first = pair.nodes[0].qp.next_psn().get();
    let late = std::rc::Rc::new(std::cell::RefCell::new(None));
    let (kept, mut seen_before) = (std::rc::Rc::clone(&late), false);
    pair.filter(move |seen| {
        if seen.from == 1 && seen.psn == first + 3 {
            if std::mem::replace(&mut seen_before, true) {
                *kept.borrow_mut() = Some(seen.bytes.clone());
            }
            return Fate::Drop;
        }
        Fate::Deliver
    });
    while late.borrow().is_none() {
        assert!(pair.step());
    }
    // Its own timer fires, and the datapath takes no packet.
    assert!(!pair.nodes[0].qp.wants_repair(), "all that is missing was asked for");
    pair.now = pair.nodes[0].qp.poll_timeout().expect("silence is noticed");
    let node = &mut pair.nodes[0];
    node.qp.handle_timeout(pair.now, cx!(node));
    assert!(node.qp.wants_repair());
    let bytes = late.borrow_mut().take().unwrap();
    pair.receive(0, &bytes, 0);
    pair.no_filter();
    pair.run();
    let done = pair.nodes[0].sends();
    assert_eq!(
        done.iter().map(|wc| (wc.wr_id, wc.status)).collect::<Vec<_>>(),
        [(1, WcStatus::Success)]
    );
    assert_eq!(pair.nodes[0].bytes(0, 60 * 256), pattern(9, 60 * 256));
}

#[test]
fn r68_a_response_to_no_read_acknowledges_nothing_behind_a_hole() {
    let mut pair = reading(Setup { rd_atomic: 4, ..Setup::as_device() }, 10 * 256);
    let (va, rkey) = (pair.nodes[1].va(8192), pair.nodes[1].rkey());
    let word = pair.nodes[0].sge(8192, 8);
    pair.nodes[0].fill(8192, &[7; 8]);
    pair.nodes[0].send(&wr_sges(2, SendOp::Write { va, rkey }, &[word])).unwrap();
    let first = pair.nodes[0].qp.next_psn().get();
    // The WRITE is lost, and so is a response; another packet carries the PSN of the WRITE.
    pair.filter(move |seen| match (seen.from, seen.psn.wrapping_sub(first)) {
        (0, 10) | (1, 4) => Fate::Drop,
        (1, 9) => {
            let mut bytes = seen.bytes.clone();
            bytes[9..12].copy_from_slice(&(first + 10).to_be_bytes()[1..]);
            Fate::Replace(bytes)
        }
        _ => Fate::Deliver,
    });
    pair.run_for(2 * pair.latency_ns);
    pair.no_filter();
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.iter().map(|wc| (wc.wr_id, wc.is_ok())).eq([(1, true), (2, true)]));
    assert_eq!(pair.nodes[1].bytes(8192, 8), [7; 8], "the WRITE completed and was not done");
    assert_eq!(pair.nodes[0].dropped(uroce_wire::DropReason::UnexpectedResponse), 1);
}

#[test]
fn r151_holes_at_the_wrap_of_psns_in_a_read_of_several_entries() {
    let near = Setup { psn: [0xff_ffe0, 0xff_fff0], ..Setup::as_device() };
    let mut pair = reading(near, 10 * 256);
    pair.run();
    pair.nodes[0].sends();
    pair.nodes[1].fill(0, &pattern(5, 60 * 256));
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    // The border between the second and the third entry lies inside a packet.
    let [first, second, third] = [(0, 100), (20_000, 6_000), (30_000, 9_260)];
    let sges = [first, second, third].map(|(at, length)| pair.nodes[0].sge(at, length));
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &sges)).unwrap();
    let start = pair.nodes[0].qp.next_psn();
    let lost = [0, 20, 21, 22, 40, 59].map(|index| start.add(index).get());
    assert!(lost[5] < lost[0], "the PSNs wrap on the way");
    let mut lost = lost.to_vec();
    pair.filter(move |seen| match lost.iter().position(|psn| *psn == seen.psn) {
        Some(at) if seen.from == 1 => {
            lost.swap_remove(at);
            Fate::Drop
        }
        _ => Fate::Deliver,
    });
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    let got: Vec<u8> = [first, second, third]
        .iter()
        .flat_map(|(at, length)| pair.nodes[0].bytes(*at, *length as usize))
        .collect();
    assert_eq!(got, pattern(5, 60 * 256));
}

#[test]
fn r151_r93_a_read_with_a_hole_fails_once_when_its_buffer_goes_and_leaves_nothing_behind() {
    let mut pair = reading(Setup::as_device(), 60 * 256);
    let first = pair.nodes[0].qp.next_psn().get();
    pair.filter(
        move |seen| {
            if seen.from == 1 && seen.psn == first + 30 { Fate::Drop } else { Fate::Deliver }
        },
    );
    pair.run_for(3 * pair.latency_ns);
    let mr = pair.nodes[0].mr;
    pair.nodes[0].mem.dereg_mr(mr.id).unwrap();
    pair.nodes[0].fill(0, &[0xee; 60 * 256]);
    pair.no_filter();
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.iter().map(|wc| (wc.wr_id, wc.status)).eq([(1, WcStatus::LocProtErr)]));
    assert_eq!(pair.nodes[0].bytes(0, 60 * 256), [0xee; 60 * 256]);
    assert!(pair.nodes[0].qp.poll_timeout().is_none());
    // After RESET nothing is known of the hole.
    pair.nodes[0].enter_state(QpState::Reset).unwrap();
    pair.nodes[1].enter_state(QpState::Reset).unwrap();
    let region = pair.nodes[0].region.clone();
    let node = &mut pair.nodes[0];
    node.mr = node.mem.reg_mr(node.pd, region, node.mr_va, all_access()).unwrap();
    pair.connect();
    read(&mut pair, 2, 60 * 256);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].bytes(0, 60 * 256), pattern(9, 60 * 256));
}
