//! `uroce fault proxy` between two network namespaces.

mod common;

use common::namespaces::{Namespaces, ip};
use common::{PROGRAM, text};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The proxy's place among the namespaces; the client is 0 and the server 1.
const PROXY: usize = 2;

/// Client and server with cables to the proxy; a VLAN on top if asked.
fn lab(tag: &str, vlan: bool) -> Option<Namespaces> {
    let net = Namespaces::new(&["c", "s", "p"], tag)?;
    for end in 0..2 {
        let (here, there) = (net.name(end), net.name(PROXY));
        ip(&format!("link add e netns {here} type veth peer name p{end} netns {there}"));
        net.ip(PROXY, &format!("link set p{end} up"));
        net.ip(end, "link set e up");
        let device = if vlan { "e.7" } else { "e" };
        if vlan {
            let vlan = "link add link e name e.7 type vlan id 7";
            let made =
                Command::new("ip").args(["-n", net.name(end)]).args(vlan.split(' ')).status();
            if !made.is_ok_and(|status| status.success()) {
                println!("skipped: this kernel has no VLAN interfaces");
                return None;
            }
            net.ip(end, "link set e.7 up");
        }
        net.ip(end, &format!("addr add 10.92.0.{}/24 dev {device}", end + 1));
    }
    Some(net)
}

/// Starts a command there.
fn start(net: &Namespaces, place: usize, words: &[&str]) -> Child {
    let mut command = net.command(place, PROGRAM);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("ip")
}

struct Outcome {
    proxy: serde_json::Value,
    comments: Vec<String>,
}

/// A run of `words` at both ends, through the proxy with `rules`.
fn through(net: &Namespaces, rules: &str, words: &str) -> Outcome {
    let file =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.pcapng", net.name(PROXY)));
    let capture = file.to_str().expect("text");
    let proxy =
        ["fault", "proxy", "--bridge", "p0", "p1", "--fault", rules, "--json", "--pcap", capture];
    let mut proxy = start(net, PROXY, &proxy);
    let mut said = BufReader::new(proxy.stderr.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.contains("are joined"), "{line}");
    let words: Vec<&str> = words.split_whitespace().collect();
    let server = start(net, 1, &[&words[..], &["-d", "10.92.0.2"]].concat());
    let client = start(net, 0, &[&words[..], &["-d", "10.92.0.1", "10.92.0.2"]].concat());
    for (end, name) in [(client, "client"), (server, "server")] {
        let output = end.wait_with_output().expect("it runs");
        assert!(output.status.success(), "{name}: {}", text(&output));
    }
    let stopped = Command::new("kill").args(["-INT", &proxy.id().to_string()]).status();
    assert!(stopped.is_ok_and(|status| status.success()));
    let output = proxy.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output));
    let proxy = serde_json::from_slice(&output.stdout).expect("JSON");
    let comments = comments_in(&file);
    std::fs::remove_file(&file).expect("it is there");
    Outcome { proxy, comments }
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
fn loses_one(tag: &str, vlan: bool) {
    let Some(net) = lab(tag, vlan) else { return };
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
fn one_packet_is_lost_between_two_hosts_and_repeated() {
    loses_one("proxy", false);
}

#[test]
fn the_same_behind_a_vlan_tag() {
    loses_one("proxyvlan", true);
}

/// Trains of packets, which the kernel carries as one, are cut where a rule takes one of them.
#[test]
fn a_stream_of_trains_survives_loss_and_reordering() {
    let Some(net) = lab("proxytrain", false) else { return };
    let rules = "any -> drop every=50 count=20 also; tx op=write -> hold=3 every=37 count=20";
    let outcome = through(&net, rules, "perf write bw -s 65536 -n 200 --verify");
    let rules = &outcome.proxy["faults"]["rules"];
    assert!(rules[0]["applied"].as_u64() >= Some(5), "{rules}");
    assert!(rules[1]["applied"].as_u64() >= Some(5), "{rules}");
}
