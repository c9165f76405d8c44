//! Faults in front of a datapath that is full, fails, or belongs to several engines.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use uroce_datapath::{
    Datapath, Direction, FaultCounters, FaultDatapath, PcapFile, PcapReplay, Route,
};

use crate::probe::{Probe, State};

const LENGTH: usize = 12 + 16 + 16 + 4;

struct Bench {
    path: FaultDatapath<Probe>,
    state: Arc<Mutex<State>>,
    counters: Arc<FaultCounters>,
}

fn bench(rules: &str, room: usize) -> Bench {
    let plan = rules.parse().expect("rules");
    let counters = Arc::new(FaultCounters::new(&plan));
    let probe = Probe::new(room);
    let state = Arc::clone(&probe.state);
    let path = FaultDatapath::new(probe, &plan, 7, Arc::clone(&counters));
    Bench { path, state, counters }
}

impl Bench {
    /// Commits an RC WRITE ONLY with that sequence number.
    fn commit(&mut self, psn: u8) {
        let local = Datapath::local(&self.path);
        let dst = SocketAddr::from(([10, 0, 0, 2], 4791));
        let route = Route { src: local, dst, hop_limit: 63, traffic_class: 2 };
        let space = self.path.tx_space().expect("room");
        space[..LENGTH].fill(0);
        (space[0], space[2], space[3]) = (0x0a, 0xff, 0xff);
        (space[7], space[8], space[11]) = (17, 0x80, psn);
        space[12 + 15] = 16;
        self.path.tx_commit(&route, LENGTH, &mut |_, _| ());
    }

    fn sent(&self) -> Vec<u8> {
        self.state.lock().expect("no panic").sent.iter().map(|(_, bytes)| bytes[11]).collect()
    }

    /// Polls until nothing waits any more.
    fn drain(&mut self) {
        while self.path.poll_timeout() != Some(u64::MAX - 1) {
            self.path.recv(9, &mut |packet| panic!("{packet:?}")).expect("usable");
        }
    }
}

#[test]
fn a_copy_without_room_waits_and_leaves_with_the_next_flush() {
    let mut bench = bench("tx -> dup=3 count=1", 2);
    bench.commit(1);
    assert_eq!(bench.state.lock().expect("no panic").committed.len(), 2, "all that has room");
    assert!(bench.path.tx_space().is_none());
    assert_ne!(bench.path.poll_timeout(), Some(u64::MAX - 1), "it asks to be called again");
    let flush = bench.path.flush().expect("usable");
    assert_eq!((flush.sent, flush.blocked), (4, false), "three copies and the packet");
    assert_eq!(bench.sent(), [1; 4]);
}

#[test]
fn a_blocked_datapath_is_tried_again_without_a_call_of_the_program() {
    let mut bench = bench("tx -> drop skip=1 count=1", 8);
    bench.state.lock().expect("no panic").blocked = 2;
    (0..3).for_each(|psn| bench.commit(psn));
    let flush = bench.path.flush().expect("usable");
    assert!(flush.blocked && flush.sent == 0);
    let at = bench.path.poll_timeout().expect("a time");
    assert!(at < u64::MAX - 1);
    bench.drain();
    assert_eq!(bench.sent(), [0, 2]);
}

#[test]
fn an_error_of_the_datapath_is_told_and_nothing_is_lost() {
    let mut bench = bench("tx -> dup count=1", 8);
    bench.state.lock().expect("no panic").fails = true;
    bench.commit(4);
    let error = bench.path.flush().expect_err("it fails");
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    assert_ne!(bench.path.poll_timeout(), Some(u64::MAX - 1));
    bench.path.flush().expect("usable again");
    assert_eq!(bench.sent(), [4, 4]);
    bench.drain();
}

#[test]
fn every_packet_leaves_alone_where_a_rule_looks_at_it_and_else_as_it_came() {
    for (rules, breaks) in [("tx -> drop skip=9 count=1", 3), ("rx -> drop", 0)] {
        let mut bench = bench(rules, 8);
        (0..3).for_each(|psn| bench.commit(psn));
        let calls = bench.state.lock().expect("no panic").calls.clone();
        assert_eq!(calls.iter().filter(|call| *call == "break").count(), breaks, "{rules}");
        bench.path.flush().expect("usable");
        assert_eq!(bench.sent(), [0, 1, 2]);
    }
}

#[test]
fn counters_add_up_over_the_engines_of_a_device() {
    let plan = "tx -> drop skip=1".parse().expect("rules");
    let counters = Arc::new(FaultCounters::new(&plan));
    for seed in 0..3 {
        let path = FaultDatapath::new(Probe::new(8), &plan, seed, Arc::clone(&counters));
        let state = Arc::default();
        let mut bench = Bench { path, state, counters: Arc::clone(&counters) };
        (0..4).for_each(|psn| bench.commit(psn));
        bench.path.flush().expect("usable");
        bench.path.flush().expect("usable");
        let rule = &bench.counters.rules()[0];
        assert_eq!((rule.matched, rule.applied), (4 * (seed + 1), 3 * (seed + 1)));
    }
    let rule = &counters.rules()[0];
    assert_eq!((rule.not_applied, rule.reason), (0, None));
    assert!(rule.text.contains("drop"), "{}", rule.text);
}

#[test]
fn what_never_leaves_is_in_the_capture_with_its_comments() {
    let name = format!("uroce-faults-{}.pcapng", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let file = PcapFile::create(&path).expect("create");
    let Bench { path: fault, state, counters } = bench("tx -> drop skip=1 count=1", 8);
    let fault = fault.recording(file.interface("faults").expect("an interface"));
    let mut bench = Bench { path: fault, state, counters };
    for psn in 0..3 {
        bench.path.tx_comment(&format!("number {psn}"));
        bench.commit(psn);
    }
    bench.path.flush().expect("usable");
    assert_eq!(bench.sent(), [0, 2]);
    file.flush().expect("written");
    let frames: Vec<_> = PcapReplay::open(&path).expect("open").flatten().collect();
    std::fs::remove_file(&path).expect("removed");
    let [frame] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(frame.direction, Some(Direction::Outbound));
    assert_eq!((frame.data[42 + 11], frame.comments[0].as_str()), (1, "number 1"));
    assert!(frame.comments.len() == 2 && frame.comments[1].contains("drop"), "{frame:?}");
    let calls = bench.state.lock().expect("no panic").calls.clone();
    let comments: Vec<_> = calls.iter().filter(|call| call.starts_with("comment")).collect();
    assert_eq!(comments, ["comment number 0", "comment number 2"]);
}
