//! `uroce doctor`, here and in network namespaces that the test makes.

use std::process::{Command, Output};

use serde_json::Value;
use uroce_testkit::namespace::{Namespaces, ip};

use crate::common::{PROGRAM, text};

/// The line of one check.
fn line<'a>(all: &'a str, check: &str) -> &'a str {
    let named = |line: &&str| line.get(9..).is_some_and(|rest| rest.starts_with(check));
    all.lines().find(named).unwrap_or_else(|| panic!("no line about {check} in\n{all}"))
}

#[test]
fn the_loopback_interface_is_in_good_health() {
    let output = Command::new(PROGRAM)
        .args("doctor --json --address 127.0.0.83 --peer 127.0.0.84 --roce-port 24811".split(' '))
        .output()
        .expect("built");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["version"], &report["problems"]), (&1.into(), &0.into()));
    let checks = report["checks"].as_array().expect("a list");
    let state = |name: &str| checks.iter().find(|c| c["check"] == name).map(|c| &c["state"]);
    for name in ["UDP_SEGMENT", "mtu", "port", "neighbour", "path MTU", "datapath"] {
        assert_eq!(state(name), Some(&"ok".into()), "{name}: {report:#}");
    }
    for name in [
        "kernel",
        "CAP_NET_RAW",
        "AF_XDP",
        "driver",
        "offloads",
        "XDP",
        "rmem_max",
        "firewall",
        "segmentation",
    ] {
        assert!(state(name).is_some(), "{name}: {report:#}");
    }
}

#[test]
fn a_taken_port_names_its_owner_and_is_exit_code_1() {
    let taken = std::net::UdpSocket::bind("127.0.0.85:24812").expect("free");
    let output = Command::new(PROGRAM)
        .args("doctor -q --address 127.0.0.85 --roce-port 24812".split(' '))
        .output()
        .expect("built");
    drop(taken);
    let all = text(&output);
    assert_eq!(output.status.code(), Some(1), "{all}");
    let me = std::process::id();
    let port = line(&all, "port");
    assert!(port.starts_with("PROBLEM") && port.ends_with(&format!("-> kill {me}")), "{port}");
    assert!(!all.lines().any(|line| line.starts_with("ok ")), "-q leaves the rest out: {all}");
}

/// A firewall's rules as `nft -j` prints them; nobody else's rules are seen.
fn with_rules(rules: &str, words: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    // Written by another process: what this one has open for writing, a child of another test may have, too, and then it
    // cannot be run.
    let program = |name: &str, text: &str| {
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;
        let words = ["-c", write, "sh"];
        let file = folder.path().join(name);
        let done = Command::new("sh").args(words).arg(file).arg(text).status().expect("a shell");
        assert!(done.success(), "{name}");
    };
    program("nft", &format!("echo '{{\"nftables\": [{rules}]}}'"));
    program("iptables-save", "");
    program("ip6tables-save", "");
    let output = Command::new(PROGRAM)
        .args(["doctor"])
        .args(words.split_whitespace())
        .env("PATH", folder.path())
        .output()
        .expect("built");
    (output.status.code(), text(&output))
}

/// What is true of a packet of another protocol, family or interface says nothing about RoCE's.
#[test]
fn rules_about_other_packets_are_no_problem() {
    let chain = |rest: &str| format!(r#"{{"chain": {{"table": "f", "name": "c", {rest}}}}}"#);
    let rule = |parts: &str| {
        format!(
            r#"{{"rule": {{"family": "inet", "table": "f", "chain": "c", "handle": 5, "expr": [{parts}]}}}}"#
        )
    };
    let input = |policy: &str| {
        chain(&format!(
            r#""family": "inet", "type": "filter", "hook": "input", "policy": "{policy}""#
        ))
    };
    let ports = r#"{"match": {"op": "!=", "left": {"payload": {"protocol": "tcp", "field": "dport"}},
                    "right": {"set": [22, 80]}}}, {"drop": null}"#;
    let names = r#"{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "l*"}}, {"accept": null}"#;
    for rules in [
        format!("{}, {}", input("accept"), rule(ports)),
        format!("{}, {}", input("drop"), rule(names)),
        chain(r#""family": "ip6", "type": "filter", "hook": "input", "policy": "drop""#),
        chain(
            r#""family": "netdev", "type": "filter", "hook": "ingress", "dev": "eth7", "policy": "drop""#,
        ),
        format!(
            "{}, {}",
            chain(r#""family": "ip", "type": "nat", "hook": "prerouting", "policy": "accept""#),
            r#"{"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"jump": {"target": "D"}}]}}"#
        ),
    ] {
        let (code, all) = with_rules(&rules, "--address 127.0.0.86 --roce-port 24813");
        assert!(line(&all, "firewall").starts_with("ok"), "{rules}: {all}");
        assert_eq!(code, Some(0), "{rules}: {all}");
    }
    let (code, all) = with_rules(&input("drop"), "--address 127.0.0.86 --roce-port 24813");
    assert!(line(&all, "firewall").starts_with("PROBLEM"), "{all}");
    assert_eq!(code, Some(1), "{all}");
}

/// CAP_NET_ADMIN of a user namespace lets nobody past the limits of socket buffers.
#[test]
fn a_user_namespace_has_no_unlimited_buffers() {
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", PROGRAM, "doctor", "--address", "127.0.0.87"])
        .args(["--roce-port", "24814"])
        .output()
        .expect("util-linux");
    let all = text(&output);
    if all.starts_with("unshare:") {
        println!("skipped: no user namespace may be made: {all}");
        return;
    }
    for limit in ["rmem_max", "wmem_max"] {
        assert!(!line(&all, limit).contains("does not hold"), "{all}");
    }
    assert!(line(&all, "CAP_NET_ADMIN").contains("stay within"), "{all}");
}

#[test]
fn an_address_of_nobody_is_exit_code_3() {
    let output = Command::new(PROGRAM)
        .args(["doctor", "--address", "198.51.100.9"])
        .output()
        .expect("built");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
}

/// Two namespaces with a veth pair between them.
struct Net(Namespaces);

impl Net {
    /// `tag` tells tests apart that run at the same time.
    fn new(tag: &str) -> Option<Net> {
        let net = Namespaces::new(&["a", "b"], tag)?;
        let [a, b] = [net.name(0), net.name(1)];
        ip(&format!("link add ve0 netns {a} type veth peer name ve0 netns {b}"));
        net.ip(0, "addr add 10.83.0.1/24 dev ve0");
        net.ip(1, "addr add 10.83.0.2/24 dev ve0");
        net.ip(0, "link set ve0 up");
        net.ip(1, "link set ve0 up");
        Some(Net(net))
    }

    /// `ip` in the first namespace.
    fn change(&self, words: &str) {
        self.0.ip(0, words);
    }

    /// Runs a program in the first namespace.
    fn run(&self, program: &str, words: &str) -> Output {
        self.0.command(0, program).args(words.split_whitespace()).output().expect("iproute2")
    }

    fn doctor(&self, words: &str) -> (Option<i32>, String) {
        let output = self.run(PROGRAM, &format!("doctor --address 10.83.0.1 {words}"));
        (output.status.code(), text(&output))
    }
}

#[test]
fn a_link_is_examined_and_its_repairs_work() {
    let Some(net) = Net::new("link") else { return };
    let (code, all) = net.doctor("--peer 10.83.0.2");
    assert_eq!(code, Some(0), "{all}");
    assert!(line(&all, "driver").contains("veth, queues: "), "{all}");
    let path = line(&all, "path MTU");
    assert!(path.starts_with("ok") && path.contains("a packet of that size arrived"), "{all}");
    assert!(line(&all, "neighbour").contains("packets to 10.83.0.2 go to "), "{all}");

    let (code, all) = net.doctor("--peer 10.83.0.77");
    assert_eq!(code, Some(1), "nobody is there: {all}");
    assert!(line(&all, "neighbour").starts_with("PROBLEM"), "{all}");

    let output = net.run(PROGRAM, "doctor --peer 203.0.113.7");
    let all = text(&output);
    assert_eq!(output.status.code(), Some(1), "no route: {all}");
    let neighbour = line(&all, "neighbour");
    assert!(neighbour.starts_with("PROBLEM") && neighbour.contains("203.0.113.7"), "{all}");

    net.change("link set ve0 mtu 300");
    let (code, all) = net.doctor("");
    assert_eq!(code, Some(1), "{all}");
    let mtu = line(&all, "mtu");
    assert!(mtu.starts_with("PROBLEM"), "{all}");
    let repair = mtu.split_once("-> sudo ip ").expect("a command").1;
    net.change(repair);
    assert!(line(&net.doctor("").1, "mtu").starts_with("ok"), "{repair}");
}

/// `nsenter` changes the network namespace only, so /sys stays that of another one.
#[test]
fn a_namespace_without_a_sysfs_of_its_own_is_examined_too() {
    let Some(net) = Net::new("sysfs") else { return };
    let output = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{}", net.0.name(0)))
        .args([PROGRAM, "doctor", "--address", "10.83.0.1"])
        .output()
        .expect("util-linux");
    let all = text(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    let driver = line(&all, "driver");
    assert!(driver.contains("veth") && driver.contains("/sys is not that of"), "{all}");
    assert!(!line(&all, "offloads").contains("cannot see"), "{all}");
}

/// The kernel sends what a UDP socket is given into a tunnel, which has no hardware addresses.
#[test]
fn an_interface_without_ethernet_frames_needs_no_neighbour() {
    let Some(net) = Net::new("tun") else { return };
    let made = net.run("ip", "tuntap add tun0 mode tun");
    if !made.status.success() {
        println!("skipped: no tun device can be made: {}", text(&made));
        return;
    }
    net.change("addr add 10.85.0.1/24 dev tun0");
    net.change("link set tun0 up");
    let examine = |words: &str| {
        let words = format!("doctor --address 10.85.0.1 --peer 10.85.0.2 {words}");
        text(&net.run(PROGRAM, &words))
    };
    let all = examine("");
    let neighbour = line(&all, "neighbour");
    assert!(neighbour.starts_with("ok") && neighbour.contains("needs none"), "{all}");
    let all = examine("--datapath packet");
    let neighbour = line(&all, "neighbour");
    assert!(neighbour.starts_with("PROBLEM") && neighbour.contains("--datapath udp"), "{all}");
}

#[test]
fn a_smaller_path_is_found() {
    let Some(net) = Net::new("path") else { return };
    net.change("link set ve0 mtu 9000");
    net.change("route add 10.84.0.0/24 via 10.83.0.2 mtu 1500");
    let (code, all) = net.doctor("--peer 10.84.0.1");
    assert_eq!(code, Some(1), "{all}");
    let path = line(&all, "path MTU");
    assert!(path.starts_with("PROBLEM") && path.contains("-m 1024"), "{all}");
}

#[test]
fn offloads_that_are_off_are_seen() {
    let Some(net) = Net::new("offload") else { return };
    let off = net.run("ethtool", "-K ve0 tx-udp-segmentation off");
    if !off.status.success() {
        assert!(std::env::var_os("CI").is_none(), "{}", text(&off));
        println!("skipped: ethtool is not installed, or veth cannot switch: {}", text(&off));
        return;
    }
    let (code, all) = net.doctor("");
    assert_eq!(code, Some(0), "a note is no problem: {all}");
    let offloads = line(&all, "offloads");
    let repair = offloads.split_once("-> sudo ethtool ").expect("a command").1;
    assert!(offloads.starts_with("note") && repair.contains("tx-udp-segmentation on"), "{all}");
    let on = net.run("ethtool", repair);
    assert!(on.status.success(), "{}", text(&on));
    assert!(line(&net.doctor("").1, "offloads").starts_with("ok"), "{repair}");
}
