//! Windows on long paths (docs/adr/032-long-paths.md): 10 Gb/s with a round trip of 10 ms hold 12.5 MB.

use uroce_transport::*;
use uroce_wire::Mtu;

use crate::harness::*;

const MIB: u64 = 1 << 20;
/// Messages that are posted at a time.
const AHEAD: usize = 48;

/// Tail probes before the first round trip is known.
const EARLY_PROBES: u64 = 2;

/// Which operation moves bytes.
#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Write,
    Read,
}

/// A pair that always has something to do.
struct Stream {
    pair: Pair,
    verb: Verb,
    posted: u64,
    bytes: u64,
    /// Most bytes in flight that were seen.
    peak: u64,
}

impl Stream {
    /// Over a link of 10 Gb/s.
    fn new(setup: Setup, round_trip_ns: u64, verb: Verb) -> Stream {
        let mut pair = Pair::new(setup);
        pair.latency_ns = round_trip_ns / 2;
        pair.link = Some(Link::new(10, 64 * MIB));
        pair.traces = false;
        Stream { pair, verb, posted: 0, bytes: 0, peak: 0 }
    }

    fn setup(mtu: Mtu) -> Setup {
        Setup { mtu, timeout: 14, rd_atomic: 16, ..Setup::as_device() }
    }

    fn post(&mut self) {
        let [here, there] = &mut self.pair.nodes;
        while here.qp.send_queue_len() < AHEAD {
            let (va, rkey) = (there.va(0), there.rkey());
            let op = match self.verb {
                Verb::Write => SendOp::Write { va, rkey },
                Verb::Read => SendOp::Read { va, rkey },
            };
            let sge = here.sge(0, MIB as u32);
            here.send(&wr_sges(self.posted, op, &[sge])).unwrap();
            self.posted += 1;
        }
    }

    /// Gb/s in the next `ns`.
    fn run(&mut self, ns: u64) -> f64 {
        let (end, start) = (self.pair.now.add_ns(ns), self.bytes);
        while self.pair.now < end {
            self.post();
            self.pair.run_for(50_000);
            let outstanding = self.outstanding();
            self.peak = self.peak.max(outstanding);
            for wc in self.pair.nodes[0].sends() {
                assert!(wc.is_ok(), "{wc:?}");
                self.bytes += MIB;
            }
        }
        (self.bytes - start) as f64 * 8.0 / ns as f64
    }

    /// Bytes in flight, those that the path holds by itself included.
    fn outstanding(&self) -> u64 {
        let qp = &self.pair.nodes[0].qp;
        u64::from(qp.traffic().window.outstanding) << self.pair.setup.mtu.bytes().trailing_zeros()
    }

    /// Loses one packet in so many, both ways.
    fn lose_one_in(&mut self, packets: u64) {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        self.pair.filter(move |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random.is_multiple_of(packets) { Fate::Drop } else { Fate::Deliver }
        });
    }

    fn sent_again(&self) -> u64 {
        self.pair.nodes[0].counters.retransmitted_pkts
    }
}

#[test]
fn r17_a_long_path_is_filled_by_writes() {
    for mtu in [Mtu::M1024, Mtu::M4096] {
        let mut stream = Stream::new(Stream::setup(mtu), 10 * MS, Verb::Write);
        let start = stream.run(250 * MS);
        let rate = stream.run(200 * MS);
        assert!(rate > 9.0, "{mtu}: {start} Gb/s at first, then {rate}");
        assert!(stream.peak <= limits::MAX_WINDOW_BYTES, "{}", stream.peak);
        assert!(stream.sent_again() <= EARLY_PROBES, "{}", stream.sent_again());
    }
}

#[test]
fn r17_a_long_path_is_filled_by_reads() {
    for rd_atomic in [16, 128] {
        let setup = Setup { rd_atomic, ..Stream::setup(Mtu::M1024) };
        let mut stream = Stream::new(setup, 10 * MS, Verb::Read);
        let start = stream.run(300 * MS);
        let rate = stream.run(200 * MS);
        assert!(rate > 9.0, "{rd_atomic}: {start} Gb/s at first, then {rate}");
    }
}

#[test]
fn r17_a_short_path_has_the_window_of_one() {
    let window = limits::SHORT_PATH_WINDOW_BYTES;
    let of_reads = window + window / u64::from(limits::READ_AHEAD_SHARE);
    for (verb, most) in [(Verb::Write, window), (Verb::Read, of_reads)] {
        for round_trip_ns in [10_000, 50_000, 200_000] {
            let mut stream = Stream::new(Stream::setup(Mtu::M1024), round_trip_ns, verb);
            let rate = stream.run(50 * MS);
            assert!(stream.peak <= most, "{} of {most}", stream.peak);
            let whole = 8.0 * 262_144.0 / (round_trip_ns as f64 + 220_000.0);
            assert!(rate > whole.min(9.0) * 0.8, "{round_trip_ns} ns: {rate} Gb/s");
        }
    }
}

#[test]
fn r71_loss_on_a_long_path_does_not_make_the_window_collapse() {
    for (verb, least) in [(Verb::Write, 2.5), (Verb::Read, 1.6)] {
        let mut stream = Stream::new(Stream::setup(Mtu::M1024), 10 * MS, verb);
        stream.lose_one_in(1000);
        stream.run(300 * MS);
        let (bytes, again) = (stream.bytes, stream.sent_again());
        let rate = stream.run(500 * MS);
        let (packets, again) = ((stream.bytes - bytes) / 1024, stream.sent_again() - again);
        let window = stream.pair.nodes[0].qp.traffic().window;
        assert!(rate > least, "{rate} Gb/s");
        let timeouts = stream.pair.nodes[0].counters.ack_timeout;
        eprintln!("{rate} {window:?}");
        assert!(window.packets > 2048, "{window:?}, {timeouts} timeouts");
        assert!(again <= packets / 500, "{again} of {packets} packets were sent again");
    }
}

/// New packets are lost, and every second or fourth of those that are sent again: as much is outstanding as the reorder buffer of the
/// peer reaches, and no more.
#[test]
fn r71_what_is_kept_on_a_long_path_is_in_reach_of_the_reorder_buffer() {
    let rows = [
        (Mtu::M1024, 8, 1000, 4),
        (Mtu::M1024, 10, 1000, 2),
        (Mtu::M1024, 8, 4000, 2),
        (Mtu::M4096, 10, 1000, 2),
    ];
    for (mtu, round_trip, one_in, again) in rows {
        let setup = Stream::setup(mtu);
        let mut stream = Stream::new(setup, round_trip * MS, Verb::Write);
        stream.run(200 * MS);
        let mut random = Random::new(5);
        let mut newest = stream.pair.nodes[0].qp.next_psn();
        stream.pair.filter(move |seen| {
            let psn = uroce_wire::Psn::new(seen.psn);
            let new = psn.since(newest) >= 0;
            if seen.from == 0 && new {
                newest = psn.add(1);
            }
            let among = if new { one_in } else { again };
            if seen.from == 0 && random.below(among) == 0 { Fate::Drop } else { Fate::Deliver }
        });
        let rate = stream.run(500 * MS);
        let row = format!("{mtu}, {round_trip} ms, one in {one_in} and in {again}: {rate} Gb/s");
        let [here, there] = &stream.pair.nodes;
        assert!(rate > 1.5, "{row}");
        assert_eq!((here.counters.ack_timeout, here.counters.completer_retry_err), (0, 0), "{row}");
        let dropped = there.counters.dropped(uroce_wire::DropReason::PsnNakPending);
        assert_eq!(dropped, 0, "{row}");
    }
}

/// rxe and most network cards: go-back-N.
#[test]
fn r71_a_peer_that_keeps_nothing_is_sent_little_again() {
    let setup = Setup { keeps: [false; 2], ..Stream::setup(Mtu::M1024) };
    let mut stream = Stream::new(setup, 10 * MS, Verb::Write);
    stream.run(250 * MS);
    stream.lose_one_in(10_000);
    // The first loss costs the window that had been reached.
    let mut allowed = u64::from(limits::MAX_WINDOW);
    for _ in 0..4 {
        let (bytes, again) = (stream.bytes, stream.sent_again());
        let rate = stream.run(500 * MS);
        let (packets, again) = ((stream.bytes - bytes) / 1024, stream.sent_again() - again);
        assert!(again < packets / 4 + allowed, "{again} of {packets} packets were sent again");
        assert!(rate > 0.2, "{rate} Gb/s");
        allowed = 0;
    }
}

#[test]
fn r17_a_receiver_that_takes_less_keeps_the_queue_short_and_no_packet_is_lost() {
    let mut stream = Stream::new(Stream::setup(Mtu::M1024), 10 * MS, Verb::Write);
    // A path that holds 1.25 MB, and a queue of 3 MiB before its narrowest place.
    stream.pair.link = Some(Link::new(1, 3 * MIB));
    stream.run(300 * MS);
    let rate = stream.run(300 * MS);
    assert!(rate > 0.9, "{rate} Gb/s");
    assert!(stream.peak <= 4 * 1_250_000, "{}", stream.peak);
    assert!(stream.sent_again() <= EARLY_PROBES, "{}", stream.sent_again());
}

#[test]
fn r104_cnps_make_the_window_of_a_long_path_smaller_and_it_recovers() {
    let mut stream = Stream::new(Stream::setup(Mtu::M1024), 10 * MS, Verb::Write);
    stream.run(250 * MS);
    let before = stream.pair.nodes[0].qp.traffic().window.packets;
    let mut cnp = forge::Forged::new(uroce_wire::Opcode::CNP, 0);
    (cnp.bth.becn, cnp.bth.dest_qpn) = (true, uroce_wire::Qpn::new(QPNS[0]));
    cnp.payload = vec![0; 16];
    (0..1000).for_each(|_| stream.pair.receive(0, &cnp.bytes(), 0));
    let after = stream.pair.nodes[0].qp.traffic().window.packets;
    assert_eq!(after, before - before / 4, "once in a round trip");
    stream.run(100 * MS);
    assert!(stream.pair.nodes[0].qp.traffic().window.packets >= before * 9 / 10);
}

#[test]
fn after_a_pause_a_long_path_is_filled_anew_by_rounds() {
    let mut stream = Stream::new(Stream::setup(Mtu::M1024), 10 * MS, Verb::Write);
    stream.run(250 * MS);
    stream.pair.run();
    stream.pair.run_for(1000 * MS);
    stream.pair.nodes[0].sends();
    stream.post();
    stream.pair.run_for(100_000);
    assert!(
        stream.outstanding() <= 2 * limits::SHORT_PATH_WINDOW_BYTES,
        "{}",
        stream.outstanding()
    );
    stream.run(100 * MS);
    assert!(stream.run(100 * MS) > 9.0);
    assert!(stream.sent_again() <= EARLY_PROBES, "{}", stream.sent_again());
}

/// The first probe comes before the first ACK does, and again with each window.
#[test]
fn r75_a_round_trip_longer_than_the_wait_of_the_first_probe_is_measured_all_the_same() {
    for round_trip_ms in [5, 20, 30] {
        let mut stream = Stream::new(Stream::setup(Mtu::M1024), round_trip_ms * MS, Verb::Write);
        stream.run(30 * round_trip_ms * MS);
        assert!(stream.pair.nodes[0].qp.traffic().window.path > 1000, "{round_trip_ms} ms");
        assert!(stream.sent_again() < 10, "{round_trip_ms} ms: {}", stream.sent_again());
        assert_eq!(stream.pair.nodes[0].counters.ack_timeout, 0);
    }
}
