//! Numbers of headers in words.

use uroce_cm::{RejReason, ServiceId, SidrStatus};
use uroce_wire::{Opcode, Syndrome, SyndromeKind, credit_count, rnr_timer_us};

fn known(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub(super) fn hex_number(number: u64) -> Option<String> {
    Some(format!("{number:#x}"))
}

pub(super) fn ethertype(number: u64) -> Option<String> {
    known(match number {
        0x0800 => "IPv4",
        0x86dd => "IPv6",
        0x8915 => "RoCEv1",
        0x8100 => "802.1Q",
        0x88a8 => "802.1ad",
        _ => return None,
    })
}

pub(super) fn cooked_type(number: u64) -> Option<String> {
    known(match number {
        0 => "to us",
        1 => "broadcast",
        2 => "multicast",
        3 => "to another host",
        4 => "sent by us",
        _ => return None,
    })
}

pub(super) fn protocol(number: u64) -> Option<String> {
    known(match number {
        6 => "TCP",
        17 => "UDP",
        44 => "fragment header",
        _ => return None,
    })
}

pub(super) fn ecn(number: u64) -> Option<String> {
    known(match number {
        0 => "not ECT",
        1 => "ECT(1)",
        2 => "ECT(0)",
        _ => "congestion experienced",
    })
}

pub(super) fn link_next_header(number: u64) -> Option<String> {
    known(match number {
        0 => "raw",
        1 => "IPv6",
        2 => "BTH",
        _ => "GRH",
    })
}

pub(super) fn opcode(number: u64) -> Option<String> {
    Some(Opcode(number as u8).to_string())
}

pub(super) fn qpn(number: u64) -> Option<String> {
    known(match number {
        0 => "subnet management",
        1 => "general services",
        0xff_ffff => "multicast",
        _ => return None,
    })
}

pub(super) fn syndrome(number: u64) -> Option<String> {
    Some(match Syndrome(number as u8).kind() {
        SyndromeKind::Ack { .. } => "ACK".to_owned(),
        SyndromeKind::Rnr { timer } => format!("RNR NAK, wait {} us", rnr_timer_us(timer)),
        SyndromeKind::Nak(code) => format!("NAK, {}", code.name()),
        SyndromeKind::ReservedNak(code) => format!("NAK with a reserved code, {code}"),
        SyndromeKind::Reserved(_) => "reserved".to_owned(),
    })
}

pub(super) fn credits(number: u64) -> Option<String> {
    Some(credit_count(number as u8).map_or("no limit".to_owned(), |count| count.to_string()))
}

pub(super) fn rnr_timer(number: u64) -> Option<String> {
    Some(format!("{} us", rnr_timer_us(number as u8)))
}

pub(super) fn nak(number: u64) -> Option<String> {
    match Syndrome(0x60 | number as u8 & 0x1f).kind() {
        SyndromeKind::Nak(code) => known(code.name()),
        _ => known("reserved"),
    }
}

pub(super) fn selectivity(number: u64) -> Option<String> {
    known(match number {
        0 => "range",
        1 => "whole region",
        _ => return None,
    })
}

pub(super) fn placement(number: u64) -> Option<String> {
    known(match number {
        1 => "global visibility",
        2 => "persistence",
        3 => "global visibility and persistence",
        _ => return None,
    })
}

pub(super) fn management_class(number: u64) -> Option<String> {
    known(match number {
        0x01 => "subnet management, LID routed",
        0x03 => "subnet administration",
        0x04 => "performance management",
        0x05 => "baseboard management",
        0x06 => "device management",
        0x07 => "communication management",
        0x08 => "SNMP tunneling",
        0x81 => "subnet management, directed route",
        0x09..=0x0f | 0x30..=0x4f => "vendor",
        0x10..=0x2f => "application",
        _ => return None,
    })
}

pub(super) fn method(number: u64) -> Option<String> {
    known(match number {
        0x01 => "Get",
        0x02 => "Set",
        0x03 => "Send",
        0x05 => "Trap",
        0x06 => "Report",
        0x07 => "TrapRepress",
        0x81 => "GetResp",
        0x86 => "ReportResp",
        _ => return None,
    })
}

pub(super) fn cm_attribute(number: u64) -> Option<String> {
    known(match number {
        0x01 => "ClassPortInfo",
        0x10 => "REQ",
        0x11 => "MRA",
        0x12 => "REJ",
        0x13 => "REP",
        0x14 => "RTU",
        0x15 => "DREQ",
        0x16 => "DREP",
        0x17 => "SIDR_REQ",
        0x18 => "SIDR_REP",
        0x19 => "LAP",
        0x1a => "APR",
        _ => return None,
    })
}

pub(super) fn pm_attribute(number: u64) -> Option<String> {
    known(match number {
        0x01 => "ClassPortInfo",
        0x10 => "PortSamplesControl",
        0x11 => "PortSamplesResult",
        0x12 => "PortCounters",
        0x1d => "PortCountersExtended",
        _ => return None,
    })
}

pub(super) fn service_id(number: u64) -> Option<String> {
    Some(ServiceId(number).to_string())
}

pub(super) fn mtu(number: u64) -> Option<String> {
    (1..=5).contains(&number).then(|| (128 << number).to_string())
}

pub(super) fn transport(number: u64) -> Option<String> {
    known(match number {
        0 => "RC",
        1 => "UC",
        2 => "RD",
        _ => "see extended transport",
    })
}

/// A time code of 5 bits: 4.096 us times a power of two.
pub(super) fn time_code(number: u64) -> Option<String> {
    let time = uroce_wire::ack_timeout_ns(number as u8)?;
    Some(crate::quantity::duration(std::time::Duration::from_nanos(time)))
}

pub(super) fn rej_reason(number: u64) -> Option<String> {
    known(RejReason(number as u16).words())
}

pub(super) fn rejected(number: u64) -> Option<String> {
    known(match number {
        0 => "REQ",
        1 => "REP",
        2 => "another",
        _ => return None,
    })
}

pub(super) fn sidr_status(number: u64) -> Option<String> {
    Some(SidrStatus(number as u8).to_string())
}

pub(super) fn apr_status(number: u64) -> Option<String> {
    known(match number {
        0 => "loaded",
        1 => "invalid communication id",
        2 => "alternate paths are not supported",
        3 => "refused by the application",
        4 => "the connection manager is elsewhere",
        5 => "it is the current path",
        6 => "wrong queue pair",
        7 => "invalid LID",
        8 => "invalid GID",
        9 => "invalid flow label",
        10 => "invalid traffic class",
        11 => "invalid hop limit",
        12 => "invalid packet rate",
        13 => "invalid service level",
        _ => return None,
    })
}

pub(super) fn decimal_number(number: u64) -> Option<String> {
    Some(number.to_string())
}
