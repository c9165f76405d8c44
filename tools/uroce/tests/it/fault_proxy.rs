//! `uroce fault proxy` between two network namespaces.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use uroce_packet::{FramePort, FrameReceiver, Offload};
use uroce_testkit::namespace::{Namespaces, ip};
use uroce_wire::{
    Bth, Flow, Header, Ipv4, Opcode, Psn, Qpn, UdpPorts, icrc, parse_ethernet, write_ethernet,
    write_ipv4_udp,
};

use crate::common::{PROGRAM, text};

/// The proxy's place among the namespaces; the client is 0 and the server 1.
const PROXY: usize = 2;

/// Client and server with cables to the proxy.
fn lab(tag: &str) -> Option<Namespaces> {
    let net = Namespaces::new(&["c", "s", "p"], tag)?;
    for end in 0..2 {
        let (here, there) = (net.name(end), net.name(PROXY));
        ip(&format!("link add e netns {here} type veth peer name p{end} netns {there}"));
        net.ip(PROXY, &format!("link set p{end} up"));
        net.ip(end, "link set e up");
        net.ip(end, &format!("addr add 10.92.0.{}/24 dev e", end + 1));
    }
    Some(net)
}

/// Starts a command there.
fn start(net: &Namespaces, place: usize, words: &[&str]) -> Child {
    let mut command = net.command(place, PROGRAM);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("ip")
}

/// Reads the first line that a program says on stderr, which has `part` in it. What is returned keeps the pipe open.
fn wait_for_line(child: &mut Child, part: &str) -> BufReader<ChildStderr> {
    let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.contains(part), "{line}");
    said
}

struct Outcome {
    proxy: serde_json::Value,
    comments: Vec<String>,
}

/// Client, server and proxy in one network; routes between the first two lead through the proxy.
fn routed_lab(tag: &str) -> Option<Namespaces> {
    let net = Namespaces::new(&["c", "s", "p", "w"], tag)?;
    let switch = net.name(3);
    net.ip(3, "link add name bridge0 type bridge");
    net.ip(3, "link set bridge0 up");
    for end in 0..3 {
        ip(&format!(
            "link add e netns {} type veth peer name p{end} netns {switch}",
            net.name(end)
        ));
        net.ip(3, &format!("link set p{end} master bridge0 up"));
        net.ip(end, "link set e up");
        for address in [format!("10.92.0.{}/24", end + 1), format!("fd92::{}/64", end + 1)] {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            net.ip(end, &format!("addr add {address} dev e {nodad}"));
        }
    }
    for (end, other) in [(0, 2), (1, 1)] {
        net.ip(end, &format!("route add 10.92.0.{other}/32 via 10.92.0.3"));
        net.ip(end, &format!("route add fd92::{other}/128 via fd92::3"));
    }
    Some(net)
}

const BRIDGE: &[&str] = &["--bridge", "p0", "p1"];
const GATEWAY: &[&str] = &["--gateway", "e", "10.92.0.1", "10.92.0.2"];
const GATEWAY_V6: &[&str] = &["--gateway", "e", "fd92::1", "fd92::2"];

/// A running proxy.
struct Proxy {
    child: Child,
    /// What it still has to say has somewhere to go.
    _said: BufReader<ChildStderr>,
    file: PathBuf,
}

impl Proxy {
    /// Starts it, and waits until it carries frames.
    fn start(net: &Namespaces, form: &[&str], rules: &str) -> Self {
        let file =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.pcapng", net.name(PROXY)));
        let capture = file.to_str().expect("text");
        let words = [&["fault", "proxy", "--json", "--pcap", capture], form].concat();
        let rules = if rules.is_empty() { vec![] } else { vec!["--fault", rules] };
        let mut child = start(net, PROXY, &[&words[..], &rules].concat());
        let said = wait_for_line(&mut child, "are joined");
        Self { child, _said: said, file }
    }

    /// Ends it as Ctrl-C does.
    fn stop(self) -> Outcome {
        let stopped = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(stopped.is_ok_and(|status| status.success()));
        let output = self.child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", text(&output));
        let proxy = serde_json::from_slice(&output.stdout).expect("JSON");
        let comments = comments_in(&self.file);
        std::fs::remove_file(&self.file).expect("it is there");
        Outcome { proxy, comments }
    }
}

/// A run of `words` at both ends, through the proxy with `rules`.
fn through(net: &Namespaces, rules: &str, words: &str) -> Outcome {
    let proxy = Proxy::start(net, BRIDGE, rules);
    let words: Vec<&str> = words.split_whitespace().collect();
    let server = [&words[..], &["-d", "10.92.0.2"]].concat();
    let client = [&words[..], &["-d", "10.92.0.1", "10.92.0.2"]].concat();
    both(net, &server, &client);
    proxy.stop()
}

/// Runs a server and its client, which both must end well.
fn both(net: &Namespaces, server: &[&str], client: &[&str]) {
    let waits = server[0] == "rping";
    let mut server = start(net, 1, server);
    // A client of rdma_cm is refused by a host whose server does not listen yet.
    let _said = waits.then(|| wait_for_line(&mut server, "waiting for a client"));
    let client = start(net, 0, client);
    for (end, name) in [(client, "client"), (server, "server")] {
        let output = end.wait_with_output().expect("it runs");
        assert!(output.status.success(), "{name}: {}", text(&output));
    }
}

/// All comments of a capture, which is whole.
fn comments_in(path: &Path) -> Vec<String> {
    let mut reader = PcapNgReader::new(File::open(path).expect("written")).expect("a capture");
    let mut comments = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("whole") {
            comments.extend(packet.options.iter().filter_map(|option| match option {
                EnhancedPacketOption::Comment(comment) => Some(comment.to_string()),
                _ => None,
            }));
        }
    }
    comments
}

/// The ends know nothing of the proxy, and repeat what it took away.
#[test]
fn one_packet_is_lost_between_two_hosts_and_repeated() {
    let Some(net) = lab("proxy") else { return };
    let rules = "third: tx op=send msg=3 iter=1 -> drop count=1";
    let outcome = through(&net, rules, "pingpong rc -n 30");
    let rule = &outcome.proxy["faults"]["rules"][0];
    assert_eq!(rule["applied"], 1, "{rule}");
    assert_eq!(outcome.comments, ["fault: dropped by rule \"third\""]);
    for side in outcome.proxy["interfaces"].as_array().expect("two") {
        assert!(side["received"].as_u64() > Some(30) && side["lost"] == 0, "{side}");
    }
}

#[test]
fn without_rules_it_is_a_bridge() {
    let Some(net) = lab("proxybare") else { return };
    let outcome = through(&net, "", "pingpong rc -n 30");
    assert!(outcome.comments.is_empty(), "{:?}", outcome.comments);
    assert_eq!(outcome.proxy.get("faults"), None);
    for side in outcome.proxy["interfaces"].as_array().expect("two") {
        assert!(side["sent"].as_u64() > Some(30) && side["lost"] == 0, "{side}");
    }
}

/// Static queue pairs, a connection of rdma_cm and IPv6: packets keep their addresses from end to end.
#[test]
fn a_gateway_is_a_proxy_with_one_interface() {
    let Some(net) = routed_lab("proxygate") else { return };
    let rules = "third: tx op=send msg=3 iter=1 -> drop count=1; rtu: tx op=rtu -> drop count=1";
    let [own, peer] = [["-d", "10.92.0.2"], ["-d", "10.92.0.1"]];
    let proxy = Proxy::start(&net, GATEWAY, rules);
    let words = ["pingpong", "rc", "-n", "30"];
    both(&net, &[&words[..], &own].concat(), &[&words[..], &peer, &["10.92.0.2"]].concat());
    let words = ["rping", "-C", "3", "-a", "10.92.0.2"];
    both(&net, &[&words[..], &["-s"]].concat(), &[&words[..], &["-c"]].concat());
    let outcome = proxy.stop();
    let rules = &outcome.proxy["faults"]["rules"];
    assert_eq!((&rules[0]["applied"], &rules[1]["applied"]), (&1.into(), &1.into()), "{rules}");
    assert_eq!(outcome.proxy["interfaces"][0]["lost"], 0, "{}", outcome.proxy);
}

#[test]
fn a_gateway_carries_ipv6_as_well() {
    let Some(net) = routed_lab("proxygate6") else { return };
    let proxy = Proxy::start(&net, GATEWAY_V6, "third: tx op=send msg=3 iter=1 -> drop count=1");
    let words = ["pingpong", "rc", "-n", "30", "-d"];
    both(
        &net,
        &[&words[..], &["fd92::2"]].concat(),
        &[&words[..], &["fd92::1", "fd92::2"]].concat(),
    );
    let outcome = proxy.stop();
    assert_eq!(outcome.proxy["faults"]["rules"][0]["applied"], 1, "{}", outcome.proxy);
}

#[test]
fn a_gateway_says_what_it_lacks() {
    let Some(net) = routed_lab("proxylack") else { return };
    let refused = |form: &[&str]| {
        let proxy = start(&net, PROXY, &[&["fault", "proxy", "--gateway"], form].concat());
        let output = proxy.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = refused(&["e", "10.92.0.1", "10.92.0.9"]);
    assert!(code == Some(4) && said.contains("10.92.0.9 does not answer at e"), "{code:?} {said}");
    for form in [["e", "10.92.0.1", "fd92::2"], ["e", "10.92.0.1", "10.92.0.1"], ["e", "x", "y"]] {
        assert_eq!(refused(&form).0, Some(2), "{form:?}");
    }
    let on =
        net.command(PROXY, "sh").args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]).status();
    assert!(on.is_ok_and(|status| status.success()));
    let (code, said) = refused(&["e", "10.92.0.1", "10.92.0.2"]);
    assert!(code == Some(3) && said.contains("conf/e/forwarding=0"), "{code:?} {said}");
}

/// The Ethernet interface of the client or the server, frame by frame.
fn port(net: &Namespaces, end: usize) -> FramePort {
    let namespace = File::open(Path::new("/run/netns").join(net.name(end))).expect("a namespace");
    // A socket stays in the namespace of the thread that opened it.
    let opened = std::thread::spawn(move || {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind).expect("root");
        FramePort::open("e").expect("an interface")
    });
    opened.join().expect("it ends")
}

/// SEND ONLY with this PSN from 10.92.0.1 to queue pair 17 of 10.92.0.2, with priority 3 in VLAN 7.
fn tagged(psn: u32) -> Vec<u8> {
    let ip = Ipv4 {
        src: [10, 92, 0, 1].into(),
        dst: [10, 92, 0, 2].into(),
        id: psn as u16,
        ttl: 64,
        tos: 0,
        df: true,
    };
    let mut bytes = vec![0; 18 + 28 + 24];
    let at = write_ethernet(&mut bytes, [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], Some(7), 0x0800);
    bytes[14] |= 0x60;
    let ports = UdpPorts { src: 50_000, dst: 4791 };
    write_ipv4_udp(&mut bytes[at.expect("room")..], &ip, ports, 24).expect("room");
    let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(17), Psn::new(psn));
    bth.write(&mut bytes[46..]).expect("room");
    let flow = Flow { src: ip.src.into(), dst: ip.dst.into(), src_port: 50_000, dst_port: 4791 };
    let right = icrc(&flow, ip.id, &bytes[46..66]).to_le_bytes();
    bytes[66..].copy_from_slice(&right);
    bytes
}

/// What arrives with a tag, until `count` frames have.
fn arriving(receiver: &mut FrameReceiver, count: usize) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut frames = Vec::new();
    while frames.len() < count && Instant::now() < deadline {
        let taken = receiver.recv(&mut |frame| {
            if frame.bytes[12..14] == [0x81, 0] {
                frames.push(frame.bytes.to_vec());
            }
        });
        if taken.expect("a socket") == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    frames
}

/// Made by hand, because not every kernel has interfaces for VLANs.
#[test]
fn packets_behind_a_vlan_tag_meet_the_rules_and_keep_the_tag() {
    let Some(net) = lab("proxyvlan") else { return };
    let (mut client, mut server) = (port(&net, 0), port(&net, 1));
    let rules =
        "third: tx op=send msg=3 -> drop; tx op=send msg=5 -> ce; tx op=send msg=7 -> hold=1";
    let proxy = Proxy::start(&net, BRIDGE, rules);
    for psn in 1..=10 {
        client.sender.send(&Offload::NONE, &tagged(psn)).expect("a socket");
    }
    let arrived = arriving(&mut server.receiver, 9);
    let outcome = proxy.stop();
    let expected: Vec<_> = [1, 2, 4, 5, 6, 8, 7, 9, 10].map(tagged).into();
    for (number, (frame, sent)) in arrived.iter().zip(&expected).enumerate() {
        let read = parse_ethernet(frame).expect("a frame");
        assert!(read.vlan == Some(7) && read.icrc_is_right(), "{number}: {read:?}");
        let is_marked = number == 3;
        assert_eq!(frame != sent, is_marked, "{number}");
        assert_eq!(frame[19] & 3 == 3, is_marked, "{number}");
        assert_eq!(frame[14] >> 5, 3, "the priority of frame {number}");
    }
    assert_eq!(arrived.len(), expected.len());
    // Of the lost one at one side, of the other two at both.
    assert_eq!(outcome.comments.len(), 5, "{:?}", outcome.comments);
}

/// Trains of packets, which the kernel carries as one, are cut where a rule takes one of them.
#[test]
fn a_stream_of_trains_survives_loss_and_reordering() {
    let Some(net) = lab("proxytrain") else { return };
    let rules = "any -> drop every=50 count=20 also; tx op=write -> hold=3 every=37 count=20";
    let outcome = through(&net, rules, "perf write bw -s 65536 -n 200 --verify");
    let rules = &outcome.proxy["faults"]["rules"];
    assert!(rules[0]["applied"].as_u64() >= Some(5), "{rules}");
    assert!(rules[1]["applied"].as_u64() >= Some(5), "{rules}");
}
