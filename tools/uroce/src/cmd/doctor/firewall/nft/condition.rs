//! Whether one part of a rule of nftables holds for a packet.

use std::cmp::Ordering;

use serde_json::Value;

use super::super::verdict::{Applies, Packet};

/// Headers of a protocol other than UDP.
const OTHER_HEADERS: [&str; 11] =
    ["tcp", "udplite", "sctp", "dccp", "icmp", "icmpv6", "igmp", "esp", "ah", "comp", "arp"];

/// Whether one part of a rule holds for the packet; what is no condition always does.
pub fn applies(part: &Value, packet: &Packet) -> Applies {
    let Some(condition) = part.get("match") else {
        let known = ["accept", "drop", "reject", "counter", "log", "jump", "goto", "return"];
        let is_known = known.iter().any(|name| part.get(name).is_some());
        return if is_known { Applies::Yes } else { Applies::Perhaps };
    };
    let (left, right) = (&condition["left"], &condition["right"]);
    if is_absent(left, packet) {
        return Applies::No;
    }
    let field = field(left, packet);
    let holds = match condition["op"].as_str() {
        Some("!=" | "!") => contains(right, &field).map(|found| !found),
        Some("<") => compare(&field, right).map(Ordering::is_lt),
        Some("<=") => compare(&field, right).map(Ordering::is_le),
        Some(">") => compare(&field, right).map(Ordering::is_gt),
        Some(">=") => compare(&field, right).map(Ordering::is_ge),
        _ => contains(right, &field),
    };
    match holds {
        None => Applies::Perhaps,
        Some(true) => Applies::Yes,
        Some(false) => Applies::No,
    }
}

/// Whether the condition looks into a header that the packet does not have. nft asks for the protocol first, so such
/// a condition does not hold, whatever its operator is.
fn is_absent(left: &Value, packet: &Packet) -> bool {
    // `tcp flags & (fin | syn)`
    let masked = ["&", "|", "^", "<<", ">>"].iter().find_map(|mask| left.get(mask)?.get(0));
    if let Some(masked) = masked {
        return is_absent(masked, packet);
    }
    match left["payload"]["protocol"].as_str() {
        Some("ip") => !packet.is_ipv4,
        Some("ip6") => packet.is_ipv4,
        Some(name) => OTHER_HEADERS.contains(&name),
        None => ["tcp option", "sctp chunk"].iter().any(|name| left.get(name).is_some()),
    }
}

/// What the packet has where a condition looks.
enum PacketField<'a> {
    Number(u16),
    Word(&'a str),
    Interface(&'a str),
    Unknown,
}

fn field<'a>(left: &Value, packet: &'a Packet) -> PacketField<'a> {
    let by_version = |v4, v6| PacketField::Word(if packet.is_ipv4 { v4 } else { v6 });
    let (payload, meta) = (&left["payload"], left["meta"]["key"].as_str());
    match (payload["protocol"].as_str(), payload["field"].as_str(), meta) {
        (Some("udp" | "th"), Some("dport"), _) => PacketField::Number(packet.port),
        (Some("ip"), Some("protocol"), _) | (Some("ip6"), Some("nexthdr"), _) => {
            PacketField::Word("udp")
        }
        (_, _, Some("l4proto")) => PacketField::Word("udp"),
        (_, _, Some("nfproto")) => by_version("ipv4", "ipv6"),
        (_, _, Some("protocol")) => by_version("ip", "ip6"),
        (_, _, Some("iifname" | "iif" | "oifname" | "oif")) => {
            PacketField::Interface(&packet.netdev)
        }
        _ if left["ct"]["key"] == "state" => PacketField::Word("new"),
        _ => PacketField::Unknown,
    }
}

fn compare(field: &PacketField<'_>, right: &Value) -> Option<Ordering> {
    match field {
        PacketField::Number(number) => Some(u64::from(*number).cmp(&right.as_u64()?)),
        _ => None,
    }
}

/// Whether a value is, or a set or range has, what the packet has; `None` for what is not understood.
fn contains(right: &Value, field: &PacketField<'_>) -> Option<bool> {
    if let Some(set) = right.get("set").and_then(Value::as_array).or(right.as_array()) {
        let each: Vec<_> = set.iter().map(|value| contains(value, field)).collect();
        let any = each.contains(&Some(true));
        return if !any && each.contains(&None) { None } else { Some(any) };
    }
    if let Some([from, to]) = right.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        let outside = compare(field, from)?.is_lt() || compare(field, to)?.is_gt();
        return Some(!outside);
    }
    match (field, right) {
        (PacketField::Unknown, _) => None,
        (_, Value::String(name)) if name.starts_with('@') => None,
        (PacketField::Number(number), Value::Number(_)) => Some(right == number),
        (PacketField::Word(word), Value::String(name)) => Some(word == name),
        (PacketField::Interface(netdev), Value::String(name)) => {
            Some(matches_interface(name, netdev))
        }
        // The number of an interface that went away: nft has no name for it.
        (PacketField::Interface(_), Value::Number(_)) => Some(false),
        _ => None,
    }
}

/// Whether one of the interfaces is this one; `None` where none is named.
pub fn names_interface(interfaces: &Value, netdev: &str) -> Option<bool> {
    contains(interfaces, &PacketField::Interface(netdev))
}

/// `eth0`, or `eth*` for all that start so; `eth\*` is the name with a star.
fn matches_interface(pattern: &str, netdev: &str) -> bool {
    match (pattern.strip_suffix("\\*"), pattern.strip_suffix('*')) {
        (Some(start), _) => netdev.strip_prefix(start) == Some("*"),
        (None, Some(start)) => netdev.starts_with(start),
        (None, None) => pattern == netdev,
    }
}
