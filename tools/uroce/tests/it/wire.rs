//! What each datapath really puts on the wire, seen from a router between the two ends.
//!
//! The ports of the router cut the super-packets that arrive there, as a network card would. With
//! `tx-udp-segmentation` off at the ends they are cut before.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pcap_file::pcap::PcapReader;
use uroce_testkit::namespace::{Namespaces, ip};
use uroce_wire::{Packet, parse_ethernet};

use crate::common::{PROGRAM, text};

const DATAPATHS: [&str; 5] = ["udp", "uring", "packet", "xdp-generic", "xdp-native"];
/// The two ends by IP version. The router is number 9 in either network.
const ENDS: [(&str, &str); 2] = [("10.85.0.1", "10.85.1.1"), ("fd85:0::1", "fd85:1::1")];
const OPERATIONS: [&str; 3] = ["write", "read", "send"];
const MESSAGES: u32 = 40;
const SIZE: u32 = 65_536;
const MTU: u32 = 1024;
/// Looks, 50 ms apart, at a file that does not grow.
const CALM: u32 = 6;

/// Two ends and a router between them.
struct Wire(Namespaces);

/// The router's place among the namespaces.
const ROUTER: usize = 2;

impl Wire {
    fn new(tag: &str, cut_at_once: bool) -> Option<Self> {
        let net = Namespaces::new(&["a", "b", "router"], tag)?;
        for end in 0..2 {
            let (here, there) = (net.name(end), net.name(ROUTER));
            ip(&format!("link add we netns {here} type veth peer name port{end} netns {there}"));
            net.ip(ROUTER, &format!("link set port{end} up"));
            net.ip(ROUTER, &format!("addr add 10.85.{end}.9/24 dev port{end}"));
            net.ip(ROUTER, &format!("addr add fd85:{end}::9/64 dev port{end} nodad"));
            net.ip(end, &format!("addr add 10.85.{end}.1/24 dev we"));
            net.ip(end, &format!("addr add fd85:{end}::1/64 dev we nodad"));
            net.ip(end, "link set we up");
            net.ip(end, &format!("route add default via 10.85.{end}.9"));
            net.ip(end, &format!("-6 route add default via fd85:{end}::9"));
            cut(&net, ROUTER, &format!("port{end}"))?;
            if cut_at_once {
                cut(&net, end, "we")?;
            }
        }
        let forward =
            "echo 1 | tee /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding";
        let done = net.command(ROUTER, "sh").args(["-c", forward]).output().expect("ip");
        assert!(done.status.success(), "{}", text(&done));
        Some(Wire(net))
    }

    /// Runs both ends; returns what the second one and the first one sent.
    fn run(&self, datapath: &str, operation: &str, (near, far): (&str, &str)) -> [Seen; 2] {
        let files = [self.file(0), self.file(1)];
        let recordings = [0, 1].map(|port| self.record(port, &files[port]));
        let words = format!(
            "perf {operation} bw -s {SIZE} -n {MESSAGES} -m {MTU} -t 16 -r 64 --datapath {datapath}"
        );
        let uroce = |end, words: &str| {
            let mut uroce = self.0.command(end, PROGRAM);
            uroce.args(words.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
            uroce
        };
        let server = uroce(1, &format!("{words} -d {far}")).spawn().expect("ip");
        let client = uroce(0, &format!("{words} -d {near} {far}")).output().expect("ip");
        let server = server.wait_with_output().expect("it runs");
        for output in [&client, &server] {
            assert!(output.status.success(), "{datapath} {operation}: {}", text(output));
        }
        recordings.into_iter().zip(&files).for_each(|(recording, file)| stop(recording, file));
        files.map(|file| Seen::read(&file))
    }

    fn file(&self, port: usize) -> PathBuf {
        std::env::temp_dir().join(format!("{}-{port}.pcap", self.0.name(ROUTER)))
    }

    /// Records what leaves the router by a port. Room for long packets is left out: tcpdump would have few places then.
    fn record(&self, port: usize, file: &Path) -> Child {
        let words = format!("-i port{port} -Q out -s 2048 -U --immediate-mode -B 65536 -Z root -w");
        let mut tcpdump = self.0.command(ROUTER, "tcpdump");
        tcpdump.args(words.split(' ')).arg(file).args(["udp", "port", "4791"]);
        let mut child = tcpdump.stderr(Stdio::piped()).spawn().expect("ip");
        let mut lines = BufReader::new(child.stderr.take().expect("asked for")).lines();
        let runs = lines.any(|line| line.is_ok_and(|line| line.contains("listening on")));
        assert!(runs, "tcpdump does not run");
        // tcpdump writes its counts there at the end.
        std::thread::spawn(move || lines.for_each(drop));
        child
    }
}

/// Has super-packets cut before they reach the interface; `None`, with a word about it, where ethtool is missing.
fn cut(net: &Namespaces, index: usize, interface: &str) -> Option<()> {
    let words = format!("-K {interface} tx-udp-segmentation off");
    let done = net.command(index, "ethtool").args(words.split(' ')).output().expect("ip");
    if !done.status.success() {
        assert!(std::env::var_os("CI").is_none(), "{}", text(&done));
        println!("skipped: ethtool is not installed, or veth cannot switch: {}", text(&done));
        return None;
    }
    Some(())
}

/// Ends a recording when its file grows no more: tcpdump leaves at once, and what is on its way to it would be lost.
fn stop(mut recording: Child, file: &Path) {
    let size = || std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let (mut before, mut calm) = (size(), 0);
    while calm < CALM {
        std::thread::sleep(Duration::from_millis(50));
        let now = size();
        calm = if now == before { calm + 1 } else { 0 };
        before = now;
    }
    let killed = Command::new("kill").args(["-INT", &recording.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    recording.wait().expect("it was running");
}

/// What a recording holds.
struct Seen {
    packets: usize,
    payload: usize,
    longest: usize,
}

impl Seen {
    /// Every packet must be one, with the right ICRC.
    fn read(file: &Path) -> Self {
        let mut reader = PcapReader::new(File::open(file).expect("recorded")).expect("a header");
        let mut seen = Seen { packets: 0, payload: 0, longest: 0 };
        while let Some(packet) = reader.next_packet() {
            let bytes = packet.expect("whole").data;
            let frame = parse_ethernet(&bytes)
                .unwrap_or_else(|error| panic!("packet {}: {error}", seen.packets));
            assert!(frame.icrc_is_right(), "packet {}: {bytes:02x?}", seen.packets);
            let packet = Packet::parse(frame.transport).expect("its ICRC is right");
            seen.packets += 1;
            seen.payload += packet.payload().len();
            seen.longest = seen.longest.max(bytes.len());
        }
        std::fs::remove_file(file).expect("it is ours");
        seen
    }
}

fn every_packet_is_right(tag: &str, cut_at_once: bool) {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "tcpdump is missing");
        return println!("skipped: tcpdump is not installed");
    }
    let Some(wire) = Wire::new(tag, cut_at_once) else { return };
    for datapath in DATAPATHS {
        for (ends, operation) in ENDS.into_iter().flat_map(|ends| OPERATIONS.map(|o| (ends, o))) {
            let [to_client, to_server] = wire.run(datapath, operation, ends);
            let bytes = (MESSAGES * SIZE) as usize;
            let (data, other) = match operation {
                "read" => (&to_client, &to_server),
                _ => (&to_server, &to_client),
            };
            assert!(data.payload >= bytes, "{datapath} {operation}: {} of {bytes}", data.payload);
            assert!(data.longest <= 1514, "{datapath} {operation}: {} bytes", data.longest);
            assert!(other.packets > 0, "{datapath} {operation}");
            println!(
                "{datapath} {operation} {}: {} and {} packets",
                ends.0, data.packets, other.packets
            );
        }
    }
}

#[test]
fn every_icrc_is_right_where_a_card_cuts_the_trains() {
    every_packet_is_right("card", false);
}

#[test]
fn every_icrc_is_right_where_the_sender_cuts_the_trains() {
    every_packet_is_right("sender", true);
}
