//! Socket buffers: how large they may be, and whether they overflowed.

use std::collections::HashMap;

use super::finding::Finding;
use super::privilege::Capabilities;

/// What the UDP datapath asks for, in bytes.
const WANTED: u64 = 4 << 20;

/// Both limits, and what was lost so far.
pub fn examine(held: Capabilities) -> Vec<Finding> {
    let limit = |name: &'static str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        judge(name, text.ok().and_then(|text| text.trim().parse().ok()), held)
    };
    let snmp = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    vec![limit("rmem_max"), limit("wmem_max"), lost(&snmp)]
}

fn judge(name: &'static str, limit: Option<u64>, held: Capabilities) -> Finding {
    match limit {
        _ if held.net_admin() => Finding::ok(name, "does not hold here (CAP_NET_ADMIN)"),
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

fn lost(snmp: &str) -> Finding {
    let counters = udp_counters(snmp);
    let count = |name| counters.get(name).copied().unwrap_or(0);
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
        assert_eq!(lost(SNMP).state, State::Note);
        assert!(lost(SNMP).what.contains("1683"));
        assert_eq!(lost("").state, State::Ok);
        let broken = lost(&SNMP.replace("1683 0 0\n", "1683 0 9\n"));
        assert!(broken.what.contains("9 with a wrong checksum"), "{broken}");
    }

    #[test]
    fn a_small_limit_is_a_note_unless_it_does_not_hold() {
        let none = Capabilities::default();
        let small = judge("rmem_max", Some(212_992), none);
        assert_eq!(small.repair.as_deref(), Some("sudo sysctl -w net.core.rmem_max=4194304"));
        assert_eq!(judge("rmem_max", Some(WANTED), none).state, State::Ok);
        assert_eq!(judge("rmem_max", None, none).state, State::Note);
    }
}
