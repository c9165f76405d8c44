//! Socket buffers: how large they may be, and whether they overflowed.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};

use rustix::net::sockopt::{
    set_socket_recv_buffer_size_force as force_receive,
    set_socket_send_buffer_size_force as force_send,
};

use super::finding::Finding;

/// What the UDP datapath asks for, in bytes.
const WANTED: u64 = 4 << 20;

/// Whether sockets of this process get larger buffers than the limits say. CAP_NET_ADMIN alone does not tell: one of
/// a user namespace is not enough.
pub fn are_unlimited() -> bool {
    let wanted = WANTED as usize;
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).is_ok_and(|socket| {
        force_receive(&socket, wanted).is_ok() && force_send(&socket, wanted).is_ok()
    })
}

/// Both limits, and what was lost so far.
pub fn examine(unlimited: bool) -> Vec<Finding> {
    let limit = |name: &'static str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        judge(name, text.ok().and_then(|text| text.trim().parse().ok()), unlimited)
    };
    let counters = |name| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    vec![limit("rmem_max"), limit("wmem_max"), lost(&counters("snmp"), &counters("snmp6"))]
}

fn judge(name: &'static str, limit: Option<u64>, unlimited: bool) -> Finding {
    match limit {
        _ if unlimited => Finding::ok(name, "does not hold here (CAP_NET_ADMIN)"),
        None => Finding::note(name, "cannot be read here, as in some containers"),
        Some(limit) if limit >= WANTED => Finding::ok(name, format!("{limit} bytes")),
        Some(limit) => Finding::note(
            name,
            format!("{limit} bytes, less than {WANTED}: bursts may be lost and sent again"),
        )
        .repair(format!("sudo sysctl -w net.core.{name}={WANTED}")),
    }
}

/// The UDP counters of /proc/net/snmp: a line of names, then a line of values.
fn udp_counters(snmp: &str) -> HashMap<&str, u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let values = values.split_whitespace().map(|value| value.parse().unwrap_or(0));
    names.split_whitespace().zip(values).collect()
}

/// A UDP counter of /proc/net/snmp6: a line of its name and its value.
fn udp6_counter(snmp6: &str, name: &str) -> u64 {
    let value = snmp6.lines().find_map(|line| line.strip_prefix("Udp6")?.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// The kernel counts IPv4 and IPv6 in two files.
fn lost(snmp: &str, snmp6: &str) -> Finding {
    let counters = udp_counters(snmp);
    let count = |name| counters.get(name).copied().unwrap_or(0) + udp6_counter(snmp6, name);
    let (full, broken) = (count("RcvbufErrors"), count("InCsumErrors"));
    match (full, broken) {
        (0, 0) => Finding::ok("UDP losses", "none on this host since it started"),
        (full, 0) => Finding::note(
            "UDP losses",
            format!("{full} datagrams since the start, as receive buffers were full"),
        ),
        (full, broken) => Finding::note(
            "UDP losses",
            format!(
                "since the start {full} datagrams as receive buffers were full, and {broken} with \
                 a wrong checksum: something on the way breaks packets, perhaps an offload"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    const SNMP: &str = "\
Tcp: RtoAlgorithm RtoMin\nTcp: 1 200
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors
Udp: 13267275 1733 1683 13272400 1683 0 0
UdpLite: InDatagrams\nUdpLite: 0\n";

    #[test]
    fn losses_are_read_from_the_counters() {
        assert_eq!(udp_counters(SNMP).get("RcvbufErrors"), Some(&1683));
        assert_eq!(lost(SNMP, "").state, State::Note);
        assert!(lost(SNMP, "").what.contains("1683"));
        assert_eq!(lost("", "").state, State::Ok);
        let broken = lost(&SNMP.replace("1683 0 0\n", "1683 0 9\n"), "");
        assert!(broken.what.contains("9 with a wrong checksum"), "{broken}");
    }

    #[test]
    fn losses_of_ipv6_are_counted_too() {
        let snmp6 = "Ip6InReceives    \t5\nUdp6InErrors     \t8\nUdp6RcvbufErrors \t7\n\
                     Udp6SndbufErrors \t3\nUdp6InCsumErrors \t2\nUdpLite6RcvbufErrors \t4\n";
        assert_eq!(udp6_counter(snmp6, "RcvbufErrors"), 7);
        let both = lost(SNMP, snmp6);
        assert!(both.what.contains("1690 datagrams") && both.what.contains("and 2 with"), "{both}");
        assert_eq!(lost("", "Udp6RcvbufErrors \t0\n").state, State::Ok);
    }

    #[test]
    fn a_small_limit_is_a_note_unless_it_does_not_hold() {
        let small = judge("rmem_max", Some(212_992), false);
        assert_eq!(small.repair.as_deref(), Some("sudo sysctl -w net.core.rmem_max=4194304"));
        assert_eq!(judge("rmem_max", Some(WANTED), false).state, State::Ok);
        assert_eq!(judge("rmem_max", None, false).state, State::Note);
        assert_eq!(judge("rmem_max", Some(212_992), true).state, State::Ok);
    }
}
