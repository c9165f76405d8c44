//! A packet, or a frame without one, as a line of JSON.

use std::net::IpAddr;

use serde::Serialize;
use uroce_analyze::{
    Direction, Encapsulation, Frame, IcrcStatus, Layer, Packet, PacketSummary, printable,
};

/// Version of the format: it rises when a key changes its meaning or goes away.
const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct JsonLine<'l> {
    version: u32,
    frame: u64,
    /// Nanoseconds since 1970.
    time_ns: u64,
    interface: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    wire_len: u32,
    /// What the frame is, if it has no packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<String>,
    #[serde(flatten)]
    packet: Option<Facts>,
    #[serde(skip_serializing_if = "str::is_empty")]
    comment: std::borrow::Cow<'l, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<&'l [Layer]>,
}

#[derive(Debug, Serialize)]
struct Facts {
    segment: u16,
    encapsulation: &'static str,
    source: IpAddr,
    source_port: u16,
    destination: IpAddr,
    destination_port: u16,
    traffic_class: u8,
    opcode: u8,
    opcode_name: String,
    destination_qp: u32,
    psn: u32,
    solicited: bool,
    ack_request: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reth: Option<Reth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aeth: Option<Aeth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_qp: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qkey: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic: Option<AtomicFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_original: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    immediate: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invalidate_rkey: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    xrc_srq: Option<u32>,
    payload_len: u32,
    cut: bool,
    icrc: Icrc,
    summary: String,
}

#[derive(Debug, Serialize)]
struct Reth {
    va: u64,
    rkey: u32,
    length: u32,
}

#[derive(Debug, Serialize)]
struct Aeth {
    syndrome: u8,
    msn: u32,
}

#[derive(Debug, Serialize)]
struct AtomicFields {
    va: u64,
    rkey: u32,
    swap_add: u64,
    compare: u64,
}

#[derive(Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
enum Icrc {
    Right,
    Wrong { found: u32, expected: u32 },
    RightWithSourcePort { source_port: u16 },
    RightWithIpId { ip_id: u16 },
    NotChecked { why: String },
}

impl<'l> JsonLine<'l> {
    /// Of a frame that has no packet; `what` it is instead.
    pub(super) fn of_frame(
        frame: &'l Frame<'_>,
        what: String,
        layers: Option<&'l [Layer]>,
    ) -> Self {
        Self {
            version: VERSION,
            frame: frame.number,
            time_ns: frame.time.as_nanos(),
            interface: frame.interface,
            direction: frame.direction.map(direction),
            wire_len: frame.original_len,
            other: Some(what),
            packet: None,
            comment: printable(frame.comment),
            layers,
        }
    }

    /// Of a packet of `frame`.
    pub(super) fn of_packet(
        frame: &'l Frame<'_>,
        packet: &Packet,
        payload: &[u8],
        layers: Option<&'l [Layer]>,
    ) -> Self {
        Self {
            wire_len: packet.wire_len,
            direction: packet.direction.map(direction),
            other: None,
            packet: Some(facts(packet, payload)),
            ..Self::of_frame(frame, String::new(), layers)
        }
    }
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Inbound => "inbound",
        Direction::Outbound => "outbound",
    }
}

fn facts(packet: &Packet, payload: &[u8]) -> Facts {
    let bth = &packet.bth;
    Facts {
        segment: packet.segment,
        encapsulation: match packet.encapsulation {
            Encapsulation::RoceV2 => "rocev2",
            Encapsulation::RoceV1 => "rocev1",
            Encapsulation::Infiniband => "infiniband",
        },
        source: packet.source.ip(),
        source_port: packet.source.port(),
        destination: packet.destination.ip(),
        destination_port: packet.destination.port(),
        traffic_class: packet.traffic_class,
        opcode: bth.opcode.0,
        opcode_name: bth.opcode.to_string(),
        destination_qp: bth.dest_qpn.get(),
        psn: bth.psn.get(),
        solicited: bth.solicited,
        ack_request: bth.ack_req,
        reth: packet.reth.map(|reth| Reth { va: reth.va, rkey: reth.rkey, length: reth.length }),
        aeth: packet.aeth.map(|aeth| Aeth { syndrome: aeth.syndrome.0, msn: aeth.msn }),
        source_qp: packet.deth.map(|deth| deth.src_qpn.get()),
        qkey: packet.deth.map(|deth| deth.qkey),
        atomic: packet.atomic_eth.map(|atomic| AtomicFields {
            va: atomic.va,
            rkey: atomic.rkey,
            swap_add: atomic.swap_add,
            compare: atomic.compare,
        }),
        atomic_original: packet.atomic_ack,
        immediate: packet.immediate,
        invalidate_rkey: packet.invalidate_rkey,
        xrc_srq: packet.xrc_srqn,
        payload_len: packet.payload_len,
        cut: packet.is_cut,
        icrc: icrc(packet.icrc),
        summary: PacketSummary::new(packet, payload).to_string(),
    }
}

fn icrc(status: IcrcStatus) -> Icrc {
    match status {
        IcrcStatus::Right => Icrc::Right,
        IcrcStatus::Wrong { found, expected } => Icrc::Wrong { found, expected },
        IcrcStatus::RightWithSourcePort(source_port) => Icrc::RightWithSourcePort { source_port },
        IcrcStatus::RightWithIpId(ip_id) => Icrc::RightWithIpId { ip_id },
        IcrcStatus::NotChecked(_) => Icrc::NotChecked { why: status.to_string() },
    }
}
