//! The layers of a frame, one on the other.

use std::fmt::Display;

use uroce_wire::{HeaderSet, Opcode};

use super::spec::{Spec, plain_hex, read_all};
use super::{Field, Layer, link, mad, transport};
use crate::dissect::{LinkLayer, Walked, link_layer};
use crate::{Frame, IcrcStatus, LinkType};

/// Fields that stand in no table.
pub(super) const NAMES: [&str; 21] = [
    "frame.number",
    "frame.interface_id",
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "frame.comment",
    "infiniband.bth",
    "infiniband.rdeth",
    "infiniband.deth",
    "infiniband.feth",
    "infiniband.reth",
    "infiniband.atomiceth",
    "infiniband.aeth",
    "infiniband.atomicacketh",
    "infiniband.payload",
    "infiniband.invariant.crc",
    "uroce.xrceth",
    "uroce.icrc.status",
    "uroce.icrc.expected",
    "uroce.malformed",
    "uroce.iwarp",
];

/// What the capture says about the frame.
pub(super) fn frame(frame: &Frame<'_>) -> Layer {
    let field = |name, label: &str, value: String| Field {
        name,
        text: format!("{label}: {value}"),
        value,
        range: 0..0,
        children: Vec::new(),
    };
    let nanoseconds = frame.time.as_nanos();
    let time = format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let mut fields = vec![
        field("frame.number", "Number", frame.number.to_string()),
        field("frame.interface_id", "Interface", frame.interface.to_string()),
        field("frame.time_epoch", "Time", time),
        field("frame.len", "Length on the wire", frame.original_len.to_string()),
        field("frame.cap_len", "Captured length", frame.data.len().to_string()),
    ];
    if !frame.comment.is_empty() {
        fields.push(field(
            "frame.comment",
            "Comment",
            crate::printable(frame.comment).into_owned(),
        ));
    }
    let title = format!("Frame {}", frame.number);
    Layer { name: "frame", title, fields, range: 0..frame.data.len() }
}

/// A sentence about the whole frame.
pub(super) fn note(frame: &Frame<'_>, name: &'static str, what: impl Display) -> Layer {
    let (text, range) = (what.to_string(), 0..frame.data.len());
    let value = text.clone();
    let field = Field { name, value, text, range: range.clone(), children: Vec::new() };
    Layer { name, title: field.text.clone(), fields: vec![field], range }
}

/// A layer of `length` bytes at `at`, by its table.
fn layer(
    frame: &Frame<'_>,
    (name, title): (&'static str, &str),
    (at, length): (usize, usize),
    specs: &[Spec],
) -> Option<Layer> {
    let from = at.min(frame.data.len());
    let range = from..frame.data.len().min(at.saturating_add(length));
    let fields = read_all(specs, frame.data.get(range.clone())?, at);
    (!fields.is_empty()).then(|| Layer { name, title: title.to_owned(), fields, range })
}

/// Link, network and UDP headers.
pub(super) fn below_transport(frame: &Frame<'_>) -> Vec<Layer> {
    let Some(stack) = link_layer(frame.link_type, frame.data, frame.original_len) else {
        return Vec::new();
    };
    let mut layers = Vec::new();
    layers.extend(link_header(frame));
    let tags = stack.tags.clone().map(|at| layer(frame, ("vlan", "VLAN tag"), (at, 4), link::VLAN));
    layers.extend(tags.flatten());
    layers.extend(network(frame, &stack));
    layers
}

fn link_header(frame: &Frame<'_>) -> Option<Layer> {
    let of = |names, length, specs| layer(frame, names, (0, length), specs);
    match frame.link_type {
        LinkType::Ethernet => of(("eth", "Ethernet"), 14, link::ETHERNET),
        LinkType::LinuxSll => of(("sll", "Linux cooked capture"), 16, link::SLL),
        LinkType::LinuxSll2 => of(("sll", "Linux cooked capture v2"), 20, link::SLL2),
        LinkType::Erf => of(("erf", "ERF record"), 16, link::ERF),
        _ => None,
    }
}

fn network(frame: &Frame<'_>, stack: &LinkLayer) -> Vec<Layer> {
    let at = stack.network;
    let of = |names, specs, at, length| layer(frame, names, (at, length), specs);
    let mut layers = Vec::new();
    if let Some(lrh) = stack.lrh {
        layers.extend(of(("infiniband", "Local route header"), link::LRH, lrh, 8));
    }
    if stack.is_grh {
        layers.extend(of(("infiniband", "Global route header"), link::GRH, at, 40));
        return layers;
    }
    match frame.data.get(at).map(|first| first >> 4) {
        Some(4) if stack.is_ip => layers.extend(of(("ip", "IPv4"), link::IPV4, at, 20)),
        Some(6) if stack.is_ip => layers.extend(of(("ipv6", "IPv6"), link::IPV6, at, 40)),
        _ => return layers,
    }
    if let Some(udp) = stack.udp {
        layers.extend(of(("udp", "UDP"), link::UDP, udp, 8));
    }
    layers
}

/// The layers of one packet: transport headers, and a MAD if it carries one.
pub(super) fn packet(frame: &Frame<'_>, walked: &Walked) -> Vec<Layer> {
    let data = &frame.data[walked.captured.clone()];
    let start = walked.captured.start;
    let mut fields = Vec::new();
    let mut at = 0;
    for (name, label, length, specs) in headers(walked, data) {
        let header = data.get(at..).unwrap_or(&[]);
        fields.extend(group(
            (name, label),
            header.get(..length).unwrap_or(header),
            start + at,
            specs,
        ));
        at += length;
    }
    let payload = &frame.data[walked.payload.clone()];
    if !payload.is_empty() && walked.packet.bth.opcode != Opcode::CNP {
        fields.push(payload_field(payload, walked));
    }
    fields.extend(icrc(data, walked));
    let title = format!("InfiniBand, {}", walked.packet.bth.opcode);
    let mut layers =
        vec![Layer { name: "infiniband", title, fields, range: walked.captured.clone() }];
    if is_management(walked) {
        layers.extend(mad::layers(payload, walked.payload.start));
    }
    layers
}

/// Datagrams to the queue pairs of management, which carry nothing else.
fn is_management(walked: &Walked) -> bool {
    let bth = &walked.packet.bth;
    bth.opcode == Opcode::UD_SEND_ONLY
        && bth.dest_qpn.get() <= 1
        && walked.packet.payload_len as usize == mad::LEN
}

type Header = (&'static str, &'static str, usize, &'static [Spec]);

/// The headers of a packet in the order of the wire.
fn headers(walked: &Walked, data: &[u8]) -> Vec<Header> {
    let mut headers: Vec<Header> =
        vec![("infiniband.bth", "Base transport header", 12, transport::BTH)];
    let Some(info) = walked.packet.opcode_info else {
        // RD has a header of its own in front of all others; DC has another one there.
        if data.first().is_some_and(|opcode| opcode >> 5 == 2) {
            headers.push(("infiniband.rdeth", "RDETH, if this is RD", 4, transport::RDETH));
        }
        return headers;
    };
    let syndrome = data.get(12).copied().unwrap_or(0);
    let all: [(HeaderSet, Header); 9] = [
        (HeaderSet::XRCETH, ("uroce.xrceth", "XRCETH", 4, transport::XRCETH)),
        (HeaderSet::DETH, ("infiniband.deth", "DETH", 8, transport::DETH)),
        (HeaderSet::FETH, ("infiniband.feth", "FETH", 4, transport::FETH)),
        (HeaderSet::RETH, ("infiniband.reth", "RETH", 16, transport::RETH)),
        (HeaderSet::ATOMIC_ETH, ("infiniband.atomiceth", "AtomicETH", 28, transport::ATOMIC_ETH)),
        (HeaderSet::AETH, ("infiniband.aeth", "AETH", 4, transport::aeth(syndrome))),
        (
            HeaderSet::ATOMIC_ACK_ETH,
            ("infiniband.atomicacketh", "AtomicAckETH", 8, transport::ATOMIC_ACK_ETH),
        ),
        (HeaderSet::IMMDT, ("", "", 4, transport::IMMDT)),
        (HeaderSet::IETH, ("", "", 4, transport::IETH)),
    ];
    headers.extend(
        all.into_iter().filter(|(flag, _)| info.headers.contains(*flag)).map(|(_, header)| header),
    );
    if info.opcode == Opcode::CNP {
        headers.push(("", "", 16, transport::CNP));
    }
    headers
}

/// A header as a field with its fields within; one without a name is its only field itself.
fn group(
    (name, label): (&'static str, &str),
    header: &[u8],
    at: usize,
    specs: &[Spec],
) -> Vec<Field> {
    let children = read_all(specs, header, at);
    if name.is_empty() || children.is_empty() {
        return children;
    }
    let range = at..at + header.len();
    vec![Field { name, value: plain_hex(header), text: label.to_owned(), range, children }]
}

fn payload_field(payload: &[u8], walked: &Walked) -> Field {
    Field {
        name: "infiniband.payload",
        value: plain_hex(payload),
        text: format!("Payload: {} bytes", walked.packet.payload_len),
        range: walked.payload.clone(),
        children: Vec::new(),
    }
}

/// The ICRC and what is known about it.
fn icrc(data: &[u8], walked: &Walked) -> Option<Field> {
    let status = walked.packet.icrc;
    let end = walked.captured.end;
    let verdict = |name, value: String, label: &str| Field {
        name,
        text: format!("{label}: {value}"),
        value,
        range: end..end,
        children: Vec::new(),
    };
    let mut children = vec![verdict("uroce.icrc.status", status.to_string(), "Verdict")];
    if let IcrcStatus::Wrong { expected, .. } = status {
        children.push(verdict("uroce.icrc.expected", format!("{expected:#010x}"), "Expected"));
    }
    if walked.packet.is_cut {
        return children.into_iter().next();
    }
    let raw = data.last_chunk::<4>()?;
    let value = format!("{:#010x}", u32::from_be_bytes(*raw));
    let text = format!("Invariant CRC: {value} ({status})");
    Some(Field { name: "infiniband.invariant.crc", value, text, range: end - 4..end, children })
}
