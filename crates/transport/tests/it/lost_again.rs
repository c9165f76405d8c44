//! What is lost again, and NAKs that come again with how far the responder has seen (R71, R75, ADR 33).

use uroce_transport::*;
use uroce_wire::Opcode;

use crate::harness::*;

const PACKET: u32 = 256;
const NAK: u8 = 0x60;
const LATENCY_NS: u64 = 20_000;
/// Packets that may leave beyond the window.
const ASKS: u32 = limits::ASKS_BEYOND_WINDOW;

fn setup() -> Setup {
    Setup { keeps: [false, true], ..Setup::as_device() }
}

fn write(pair: &mut Pair, wr_id: u64, packets: u32) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, packets * PACKET);
    pair.nodes[0].send(&wr_sges(wr_id, SendOp::Write { va, rkey }, &[source])).unwrap();
}

fn read(pair: &mut Pair, wr_id: u64) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = pair.nodes[0].sge(0, PACKET);
    pair.nodes[0].send(&wr_sges(wr_id, SendOp::Read { va, rkey }, &[target])).unwrap();
}

/// A pair that has repaired a loss before, and knows its round trip; the next PSN.
fn repaired(setup: Setup) -> (Pair, u32) {
    let mut pair = Pair::new(setup);
    pair.latency_ns = LATENCY_NS;
    for (wr_id, packets) in [(1, 60), (2, 1_500)] {
        let lost = pair.nodes[0].qp.next_psn().get() + 20;
        lose(&mut pair, lost, 1);
        write(&mut pair, wr_id, packets);
        pair.run();
    }
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    pair.no_filter();
    pair.trace.clear();
    let first = pair.nodes[0].qp.next_psn().get();
    (pair, first)
}

/// Drops packets of node 0 with this PSN so often.
fn lose(pair: &mut Pair, psn: u32, times: u32) {
    let mut left = times;
    pair.filter(move |seen| {
        let hit = seen.from == 0 && seen.psn == psn && left > 0;
        left -= u32::from(hit);
        if hit { Fate::Drop } else { Fate::Deliver }
    });
}

/// Nothing gets through until a timeout, and of what is sent again then the first packet is lost. The NAK for it is the first one
/// that the peer sends.
fn timeouts_of_an_outage(setup: Setup) -> u64 {
    let (mut pair, first) = repaired(setup);
    pair.filter(|seen| if seen.from == 0 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 3, 40);
    while pair.nodes[0].counters.ack_timeout == 0 {
        assert!(pair.step());
    }
    lose(&mut pair, first, 1);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    pair.nodes[0].counters.ack_timeout
}

#[test]
fn r75_a_nak_for_what_was_sent_again_behind_a_timeout_is_news() {
    assert_eq!(timeouts_of_an_outage(setup()), 1);
}

#[test]
fn r75_without_probes_a_nak_behind_a_timeout_is_news() {
    let (mut pair, first) = repaired(setup());
    pair.set_features(0, |features| features.tail_probes = false);
    pair.filter(|seen| if seen.from == 0 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 3, 40);
    while pair.nodes[0].counters.ack_timeout == 0 {
        assert!(pair.step());
    }
    lose(&mut pair, first, 1);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].counters.ack_timeout, 1);
}

/// The first timeout uses up one of two retries, and what is lost behind it costs the other one at most.
#[test]
fn r75_a_queue_pair_with_few_retries_survives_an_outage() {
    let setup = Setup { retry_cnt: 2, ..setup() };
    let (mut pair, first) = repaired(setup);
    pair.filter(|seen| if seen.from == 0 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 3, 40);
    while pair.nodes[0].counters.ack_timeout == 0 {
        assert!(pair.step());
    }
    lose(&mut pair, first, 2);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
}

/// Most packets beyond the window while what was lost is sent again from the first packet on, and that is lost again.
fn most_beyond_window() -> u32 {
    let (mut pair, first) = repaired(setup());
    pair.filter(|seen| if seen.from == 0 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 3, 1_000);
    while pair.nodes[0].counters.ack_timeout == 0 {
        assert!(pair.step());
    }
    // A peer that keeps and has no lists, a network card for example.
    let mut left = 1;
    pair.filter(move |seen| {
        let hit = seen.from == 0 && seen.psn == first && left > 0;
        left -= u32::from(hit);
        if hit {
            return Fate::Drop;
        }
        let mut bytes = seen.bytes.clone();
        if seen.from == 1 && seen.syndrome() == Some(NAK) {
            // AETH, and no list behind it.
            bytes.truncate(16);
            bytes.extend([0; 4]);
            return Fate::Replace(bytes);
        }
        Fate::Deliver
    });
    let mut most = 0;
    while pair.step() && pair.nodes[0].qp.traffic().window.outstanding > 0 {
        let window = pair.nodes[0].qp.traffic().window;
        most = most.max(window.outstanding.saturating_sub(window.packets));
    }
    most
}

#[test]
fn r71_what_is_sent_again_in_turn_stays_inside_the_window() {
    let most = most_beyond_window();
    assert!(most <= ASKS, "{most}");
}

/// The window is full, and what is behind it are atomics: they do not ask for a list.
#[test]
fn r71_atomics_do_not_leave_beyond_the_window() {
    let (mut pair, first) = repaired(Setup { rd_atomic: 100, ..setup() });
    pair.filter(|seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    let room = |pair: &Pair| {
        let window = pair.nodes[0].qp.traffic().window;
        window.packets.saturating_sub(window.outstanding)
    };
    let packets = room(&pair);
    write(&mut pair, 3, packets);
    pair.run_for(1_000);
    let list = |seen: u32| [0, 0, 0, 1, (seen >> 8) as u8, seen as u8, 0, 0];
    pair.nak_with_list(first, &list(packets));
    pair.run_for(1_000);
    let packets = room(&pair);
    write(&mut pair, 4, packets);
    pair.run_for(1_000);
    assert_eq!(room(&pair), 0);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let word = pair.nodes[0].sge(8192, 8);
    for wr_id in 5..105 {
        let op = SendOp::FetchAdd { va, rkey, add: 1 };
        pair.nodes[0].send(&wr_sges(wr_id, op, &[word])).unwrap();
    }
    pair.run_for(1_000);
    let seen = pair.nodes[0].qp.next_psn().get() - first;
    pair.nak_with_list(first, &list(seen));
    pair.run_for(1_000);
    let window = pair.nodes[0].qp.traffic().window;
    assert!(window.outstanding <= seen + ASKS, "{window:?}, {seen} before");
}

/// A READ that is lost twice, with WRITEs behind it: a NAK, and then nothing more than a probe.
fn lost_read(retry_cnt: u8, times: u32) -> (usize, u64) {
    let (mut pair, first) = repaired(Setup { retry_cnt, ..setup() });
    lose(&mut pair, first, times);
    read(&mut pair, 3);
    for wr_id in 4..240 {
        write(&mut pair, wr_id, 1);
        pair.run_for(1_000);
    }
    pair.run();
    let bad = pair.nodes[0].sends().iter().filter(|wc| !wc.is_ok()).count();
    (bad, pair.nodes[0].counters.ack_timeout)
}

#[test]
fn r75_a_read_that_is_lost_twice_costs_one_retry() {
    assert_eq!(lost_read(1, 2), (0, 0));
}

/// A READ response is lost, and a packet of the WRITE behind the READ. There is one NAK.
#[test]
fn r71_a_nak_behind_a_lost_response_costs_one_retry() {
    let (mut pair, first) = repaired(Setup { retry_cnt: 1, ..setup() });
    pair.link = Some(Link::new(10, 1 << 30));
    let (mut response, mut packet) = (1, 1);
    pair.filter(move |seen| {
        let left = match seen.from {
            0 if seen.psn == first + 5 => &mut packet,
            1 if seen.opcode == Opcode::RC_READ_RESPONSE_ONLY => &mut response,
            _ => return Fate::Deliver,
        };
        let hit = *left > 0;
        *left -= u32::from(hit);
        if hit { Fate::Drop } else { Fate::Deliver }
    });
    read(&mut pair, 3);
    write(&mut pair, 4, 220);
    pair.run();
    let statuses: Vec<_> = pair.nodes[0].sends().iter().map(|wc| wc.status).collect();
    assert_eq!(statuses, [WcStatus::Success; 2]);
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    assert_eq!(pair.nodes[0].counters.completer_retry_err, 1, "it goes back once");
}

/// Sixteen packets have left beyond the window, and then a timeout has ended that: the next repair may ask again.
#[test]
fn r71_what_has_left_beyond_the_window_is_forgotten_by_progress() {
    let asks = |again: bool| {
        let (mut pair, mut first) = repaired(setup());
        let fill = |pair: &mut Pair, wr_id: u64| {
            write(pair, wr_id, 400);
            pair.run_for(1_000);
        };
        let nak = |pair: &mut Pair, first: u32| {
            let seen = pair.nodes[0].qp.next_psn().get() - first;
            pair.nak_with_list(first, &[0, 0, 0, 1, (seen >> 8) as u8, seen as u8, 0, 0]);
            pair.run_for(1_000);
        };
        let silence = |seen: &Seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver };
        if again {
            pair.filter(silence);
            fill(&mut pair, 3);
            (0..20).for_each(|_| nak(&mut pair, first));
            while pair.nodes[0].counters.ack_timeout == 0 {
                assert!(pair.step());
            }
            pair.no_filter();
            pair.run();
        }
        write(&mut pair, 4, 3_000);
        pair.run();
        assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
        first = pair.nodes[0].qp.next_psn().get();
        pair.filter(silence);
        fill(&mut pair, 5);
        nak(&mut pair, first);
        let before = pair.nodes[0].qp.next_psn().get();
        nak(&mut pair, first);
        pair.nodes[0].qp.next_psn().get() - before
    };
    assert_eq!((asks(false), asks(true)), (1, 1));
}

/// The same NAK several times at once, and once more later: what goes out again does so once.
#[test]
fn r71_copies_of_the_nak_for_a_read_cost_nothing() {
    let (mut pair, first) = repaired(Setup { retry_cnt: 1, ..setup() });
    pair.filter(|_| Fate::Drop);
    read(&mut pair, 3);
    write(&mut pair, 4, 40);
    pair.run_for(1_000);
    let list = [0, 0, 0, 1, 0, 41, 0, 0];
    (0..3).for_each(|_| pair.nak_with_list(first, &list));
    pair.run_for(2 * LATENCY_NS);
    (0..3).for_each(|_| pair.nak_with_list(first, &list));
    pair.run_for(1_000);
    assert_eq!(pair.nodes[0].counters.completer_retry_err, 1);
    assert!(pair.nodes[0].sends().is_empty());
}

/// A READ is lost, and somebody forges a packet of the requester, in reach of the reorder buffer, that asks for an ACK.
#[test]
fn a9_a_forged_request_behind_a_lost_read_costs_no_retry() {
    let (mut pair, first) = repaired(Setup { retry_cnt: 1, ..setup() });
    lose(&mut pair, first, 1);
    read(&mut pair, 3);
    write(&mut pair, 4, 10);
    // The requester has heard of the loss, and the READ is on its way again.
    pair.run_for(2 * LATENCY_NS + 1_000);
    let write_bth = |_: &mut uroce_wire::HeaderWriter<'_>, bth: &mut uroce_wire::Bth| {
        bth.ack_req = true;
    };
    // It draws a NAK right before the READ arrives.
    pair.run_for(LATENCY_NS - 2_000);
    let bytes = pair.forge(1, Opcode::RC_SEND_ONLY, first + 150, write_bth, &[0; 64]);
    pair.receive(1, &bytes, 0);
    pair.run();
    let statuses: Vec<_> = pair.nodes[0].sends().iter().map(|wc| wc.status).collect();
    assert_eq!(statuses[0], WcStatus::Success);
    assert!(!statuses.contains(&WcStatus::RetryExcErr), "{statuses:?}");
}

/// A peer that keeps what is behind a gap and tells of one gap at a time, as a network card may, is asked by what is sent again only.
#[test]
fn r71_a_peer_without_lists_is_not_asked_by_new_packets() {
    let mut pair = Pair::new(setup());
    let asking = std::rc::Rc::new(std::cell::RefCell::new(vec![]));
    for (wr_id, lost) in [(1, 20), (2, 320), (3, 620)] {
        let (asked, mut left) = (asking.clone(), 1);
        pair.filter(move |seen| {
            let offset = seen.psn.wrapping_sub(0x100);
            if seen.from == 0 && offset == lost && left > 0 {
                left = 0;
                return Fate::Drop;
            }
            if seen.from == 0 && seen.packet().bth.reserved7 != 0 {
                asked.borrow_mut().push(offset);
                let mut bytes = seen.bytes.clone();
                bytes[8] &= 0x80;
                return Fate::Replace(bytes);
            }
            Fate::Deliver
        });
        write(&mut pair, wr_id, 300);
        pair.run();
    }
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    assert_eq!(*asking.borrow(), [20, 320, 620]);
}

/// A SEND is lost, and the peer keeps what comes behind it; it is sent again, and there is no receive for it. With the RNR NAK the
/// peer keeps nothing any more, so that a window leaves behind that and not two.
#[test]
fn r56_an_rnr_nak_ends_what_is_kept() {
    let (mut pair, first) = repaired(setup());
    let sge = [pair.nodes[1].sge(200_000, 4096)];
    lose(&mut pair, first, 1);
    let source = pair.nodes[0].sge(0, PACKET);
    pair.nodes[0].send(&wr_sges(5, SendOp::Send, &[source])).unwrap();
    write(&mut pair, 6, 1_200);
    while pair.nodes[0].counters.rcvd_rnr_err == 0 {
        assert!(pair.step());
    }
    pair.nodes[1].recv(1, &sge).unwrap();
    let mut most = pair.nodes[0].qp.traffic().window.packets;
    while pair.step() {
        most = most.max(pair.nodes[0].qp.traffic().window.outstanding);
    }
    assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    assert!(most <= limits::SHORT_PATH_WINDOW, "{most} outstanding");
}

/// Packets are kept behind a WRITE; then the NAK for a READ makes the requester go back over all of it.
#[test]
fn r71_going_back_for_a_read_ends_what_is_kept() {
    let (mut pair, first) = repaired(setup());
    pair.filter(|seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 5, 1);
    read(&mut pair, 6);
    write(&mut pair, 7, 1_200);
    pair.run_for(1_000);
    pair.nak_with_list(first, &[0, 0, 0, 1, 0, 250, 0, 0]);
    pair.run_for(1_000);
    pair.nak_with_list(first, &[0, 0, 0, 1, 0, 250, 0, 1, 0, 251, 0, 0]);
    pair.run_for(1_000);
    let back = pair.nodes[0].counters.completer_retry_err;
    let seen = pair.nodes[0].qp.next_psn().get() - first - 1;
    let list = [0, 0, 0, 1, (seen >> 8) as u8, seen as u8, 0, 0];
    pair.nak_with_list(first + 1, &list);
    assert_eq!(pair.nodes[0].counters.completer_retry_err, back + 1, "it goes back for the READ");
    let window = pair.nodes[0].qp.traffic().window;
    assert!(window.packets <= limits::SHORT_PATH_WINDOW, "{window:?}");
}

/// Posts requests of all kinds, or of WRITEs alone, and runs until all have completed; one in `one_in` packets is lost, of answers half as many.
fn complete_all(seed: u64, mixed: bool, one_in: u64) -> Pair {
    let mut random = Random::new(seed);
    let (mut pair, _) = repaired(Setup {
        retry_cnt: random.pick(&[1, 2, 7]),
        rd_atomic: random.pick(&[1, 4, 16]),
        psn: [random.pick(&[0x100, 0xff_f800]), 0x900],
        ..setup()
    });
    pair.traces = false;
    pair.link = (random.below(2) == 0).then(|| Link::new(10, 1 << 30));
    let mut faults = Random::new(seed * 7 + 1);
    pair.filter(move |seen| {
        let among = if seen.from == 0 { one_in } else { 2 * one_in };
        if faults.below(among) == 0 { Fate::Drop } else { Fate::Deliver }
    });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let pause = random.pick(&[1, 2_000, 20_000]);
    for wr_id in 1..=60 {
        let longest = random.pick(&[256, 256, 10_000, 60_000]);
        let length = random.below(longest) as u32;
        let (op, length) = match random.below(9) {
            draw if draw < 4 || !mixed => (SendOp::Write { va, rkey }, length),
            4..7 => (SendOp::Read { va, rkey }, length),
            7 => (SendOp::FetchAdd { va, rkey, add: 1 }, 8),
            _ => (SendOp::AtomicWrite { va, rkey }, 8),
        };
        let sge = [pair.nodes[0].sge(100_000, length)];
        pair.nodes[0].send(&wr_sges(wr_id, op, &sge)).unwrap();
        pair.run_for(random.below(pause));
    }
    pair.run();
    pair
}

/// With 1 % and 5 % lost hardly anything is lost more often than a queue pair has retries, even with one: what comes again says
/// nothing new, and costs none.
#[test]
fn r71_r75_losses_leave_queue_pairs_with_one_retry_alive() {
    for mixed in [false, true] {
        for one_in in [100, 20] {
            for seed in 1..=40 {
                let mut pair = complete_all(seed, mixed, one_in);
                let bad = pair.nodes[0].sends().into_iter().find(|wc| !wc.is_ok());
                assert_eq!(bad, None, "seed {seed}, mixed {mixed}, one in {one_in}");
                assert_eq!(pair.nodes[0].counters.ack_timeout, 0, "seed {seed}");
            }
        }
    }
}
