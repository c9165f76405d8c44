//! Several engines on the datapaths that see frames: a wire with several queues between two namespaces.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use uroce_testkit::namespace::{Namespaces, ip};

use crate::common::{PROGRAM, text};

const DATAPATHS: [&str; 3] = ["packet", "xdp-generic", "xdp-native"];
const QUEUES: usize = 4;
const ADDRESSES: [&str; 2] = ["10.87.0.1", "10.87.0.2"];

/// Two ends of a wire.
struct Wire(Namespaces);

impl Wire {
    fn new(tag: &str) -> Option<Self> {
        let net = Namespaces::new(&["a", "b"], tag)?;
        let each = format!("numrxqueues {QUEUES} numtxqueues {QUEUES}");
        let [here, there] = [net.name(0), net.name(1)];
        ip(&format!("link add we {each} netns {here} type veth peer name we {each} netns {there}"));
        for (end, address) in ADDRESSES.iter().enumerate() {
            net.ip(end, &format!("addr add {address}/24 dev we"));
            net.ip(end, "link set we up");
        }
        Some(Self(net))
    }

    fn uroce(&self, end: usize, words: &str) -> Command {
        let mut uroce = self.0.command(end, PROGRAM);
        uroce.args(words.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        uroce
    }

    fn has_program(&self, end: usize) -> bool {
        let words = ["link", "show", "dev", "we"];
        let shown = self.0.command(end, "ip").args(words).output().expect("ip");
        text(&shown).contains("prog/xdp")
    }
}

#[test]
fn devices_with_several_engines_measure_together() {
    let Some(wire) = Wire::new("engines") else { return };
    for datapath in DATAPATHS {
        for test in
            ["write bw -q 6 -n 40 -t 8 --verify", "read bw -q 5 -n 100 -s 8", "send lat -n 50"]
        {
            let words = format!("perf {test} --datapath {datapath} --engines 2");
            let [near, far] = ADDRESSES;
            let server = wire.uroce(1, &format!("{words} -d {far}")).spawn().expect("ip");
            let client = wire.uroce(0, &format!("{words} -d {near} {far}")).output().expect("ip");
            let server = server.wait_with_output().expect("it runs");
            for output in [&client, &server] {
                assert!(output.status.success(), "{datapath} {test}: {}", text(output));
            }
        }
    }
}

#[test]
fn more_engines_than_queues_are_refused_with_a_remedy() {
    let Some(wire) = Wire::new("queues") else { return };
    let words = format!("perf write bw --datapath xdp --engines 5 -d {}", ADDRESSES[0]);
    let output = wire.uroce(0, &words).output().expect("ip");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("`ethtool -L we combined 5`"), "{}", text(&output));
    assert!(!wire.has_program(0));
}

#[test]
fn a_process_that_is_killed_leaves_no_program() {
    let Some(wire) = Wire::new("killed") else { return };
    let words = format!("perf write bw --datapath xdp-generic --engines 2 -d {}", ADDRESSES[0]);
    let mut server = wire.uroce(0, &words).spawn().expect("ip");
    wait(|| wire.has_program(0), "no program is attached");
    // `ip netns exec` became the program itself.
    server.kill().expect("kill");
    let said = finish(server);
    wait(|| !wire.has_program(0), &format!("the program stays: {said}"));
}

/// Waits until something is so.
fn wait(so: impl Fn() -> bool, otherwise: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < end, "{otherwise}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a process said until its end.
fn finish(mut child: Child) -> String {
    let stderr = BufReader::new(child.stderr.take().expect("asked for"));
    let lines: Vec<String> = stderr.lines().map_while(Result::ok).collect();
    child.wait().expect("it ended");
    lines.join("; ")
}
