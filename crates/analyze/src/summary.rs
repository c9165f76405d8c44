//! A packet in one line.

use std::fmt;

use uroce_cm::{MAD_LEN, Mad, Message};
use uroce_wire::{AtomicEth, Opcode, Operation, Qpn, SyndromeKind, credit_count, rnr_timer_us};

use crate::{IcrcStatus, Packet};

/// What a packet says, in one line without its addresses and time: `RC_WRITE_FIRST qp 0x000011 psn
/// 0x1a2b va 0x1000 rkey 0x783 len 65536 payload 1024 icrc ok`.
#[derive(Debug, Clone, Copy)]
pub struct PacketSummary<'p> {
    packet: &'p Packet,
    payload: &'p [u8],
}

impl<'p> PacketSummary<'p> {
    /// Of `packet` with the payload `payload`, as far as it was captured.
    pub const fn new(packet: &'p Packet, payload: &'p [u8]) -> Self {
        Self { packet, payload }
    }
}

impl fmt::Display for PacketSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packet, payload } = *self;
        let bth = &packet.bth;
        write!(f, "{} qp {} psn {}", bth.opcode, bth.dest_qpn, bth.psn)?;
        write_headers(f, packet)?;
        if packet.payload_len > 0 && bth.opcode != Opcode::CNP {
            write!(f, " payload {}", packet.payload_len)?;
        }
        write_marks(f, packet)?;
        write_message(f, packet, payload)?;
        write_icrc(f, packet)
    }
}

fn write_headers(f: &mut fmt::Formatter<'_>, packet: &Packet) -> fmt::Result {
    if let Some(srqn) = packet.xrc_srqn {
        write!(f, " srq {srqn:#x}")?;
    }
    if let Some(deth) = packet.deth {
        write!(f, " from {} qkey {:#x}", deth.src_qpn, deth.qkey)?;
    }
    if let Some(feth) = packet.feth {
        write!(f, " placement {} selectivity {}", feth.placement, feth.selectivity)?;
    }
    if let Some(reth) = packet.reth {
        write!(f, " va {:#x} rkey {:#x} len {}", reth.va, reth.rkey, reth.length)?;
    }
    if let Some(atomic) = packet.atomic_eth {
        write_atomic(f, packet, &atomic)?;
    }
    if let Some(aeth) = packet.aeth {
        write_syndrome(f, aeth.syndrome.kind())?;
        write!(f, " msn {}", aeth.msn)?;
    }
    if let Some(original) = packet.atomic_ack {
        write!(f, " original {original:#x}")?;
    }
    if let Some(immediate) = packet.immediate {
        write!(f, " imm {immediate:#x}")?;
    }
    packet.invalidate_rkey.map_or(Ok(()), |rkey| write!(f, " invalidate {rkey:#x}"))
}

fn write_atomic(f: &mut fmt::Formatter<'_>, packet: &Packet, atomic: &AtomicEth) -> fmt::Result {
    let AtomicEth { va, rkey, swap_add, compare } = *atomic;
    write!(f, " va {va:#x} rkey {rkey:#x}")?;
    match packet.opcode_info.map(|info| info.operation) {
        Some(Operation::CompareSwap) => write!(f, " compare {compare:#x} swap {swap_add:#x}"),
        _ => write!(f, " add {swap_add:#x}"),
    }
}

fn write_syndrome(f: &mut fmt::Formatter<'_>, kind: SyndromeKind) -> fmt::Result {
    match kind {
        SyndromeKind::Ack { credits } => match credit_count(credits) {
            None => f.write_str(" ack"),
            Some(count) => write!(f, " ack credits {count}"),
        },
        SyndromeKind::Rnr { timer } => write!(f, " rnr wait {} us", rnr_timer_us(timer)),
        SyndromeKind::Nak(code) => write!(f, " nak {}", code.name()),
        SyndromeKind::ReservedNak(code) => write!(f, " nak reserved {code}"),
        SyndromeKind::Reserved(raw) => write!(f, " syndrome {raw:#04x} reserved"),
    }
}

fn write_marks(f: &mut fmt::Formatter<'_>, packet: &Packet) -> fmt::Result {
    let bth = &packet.bth;
    let marks = [
        (bth.solicited, " solicited"),
        (bth.ack_req, " ackreq"),
        (bth.fecn, " fecn"),
        (bth.becn, " becn"),
        (packet.is_congestion_experienced(), " ce"),
    ];
    for (_, mark) in marks.into_iter().filter(|(set, _)| *set) {
        f.write_str(mark)?;
    }
    if bth.tver != 0 {
        write!(f, " tver {}", bth.tver)?;
    }
    if bth.pkey != 0xffff {
        write!(f, " pkey {:#06x}", bth.pkey)?;
    }
    Ok(())
}

/// Name of the message of connection management that `packet` carries: `REQ`, `REP`, `RTU`.
pub fn cm_message(packet: &Packet, payload: &[u8]) -> Option<&'static str> {
    let mad = is_management(packet).then(|| Mad::parse(payload).ok()).flatten()?;
    Some(mad.message.name())
}

fn is_management(packet: &Packet) -> bool {
    packet.bth.dest_qpn == Qpn::GSI && packet.bth.opcode == Opcode::UD_SEND_ONLY
}

/// The message of connection management, if the packet carries one.
fn write_message(f: &mut fmt::Formatter<'_>, packet: &Packet, payload: &[u8]) -> fmt::Result {
    if !is_management(packet) {
        return Ok(());
    }
    let Ok(Mad { message, .. }) = Mad::parse(payload) else {
        return match payload.len() == MAD_LEN {
            true => f.write_str(" other management datagram"),
            false => Ok(()),
        };
    };
    write!(f, " cm {}", message.name())?;
    match message {
        Message::Req(req) => write!(
            f,
            " to {} qpn {} starting psn {}",
            req.service_id, req.local_qpn, req.starting_psn
        ),
        Message::Rep(rep) => write!(f, " qpn {} starting psn {}", rep.qpn(), rep.starting_psn),
        Message::Rej(rej) => write!(f, " {}", rej.reason),
        Message::Dreq(dreq) => write!(f, " qpn {}", dreq.remote_qpn),
        Message::SidrReq(req) => write!(f, " to {}", req.service_id),
        Message::SidrRep(rep) => write!(f, " {} qpn {}", rep.status, rep.qpn),
        _ => Ok(()),
    }
}

fn write_icrc(f: &mut fmt::Formatter<'_>, packet: &Packet) -> fmt::Result {
    match packet.icrc {
        IcrcStatus::Right => f.write_str(" icrc ok"),
        IcrcStatus::Wrong { .. } | IcrcStatus::NotChecked(_) => write!(f, " icrc {}", packet.icrc),
        IcrcStatus::RightWithSourcePort(port) => write!(f, " icrc ok with source port {port}"),
        IcrcStatus::RightWithIpId(id) => write!(f, " icrc ok with IPv4 identification {id:#06x}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{CaptureReader, Dissector, DissectorConfig};

    fn lines(capture: &[u8]) -> Vec<String> {
        let mut reader = CaptureReader::new(capture).expect("a capture");
        let mut dissector = Dissector::new(DissectorConfig::default());
        let mut lines = Vec::new();
        while let Some(frame) = reader.next_frame().expect("it is whole") {
            dissector.dissect(&frame, &mut |packet, payload, _| {
                lines.push(PacketSummary::new(packet, payload).to_string());
            });
        }
        lines
    }

    #[test]
    fn a_line_has_what_the_headers_say() {
        let lines = lines(include_bytes!("../../../pcaps/fetch-add.pcap"));
        assert_eq!(
            lines[0],
            "RC_FETCH_ADD qp 0x000015 psn 0xc20d23 va 0x561d69299000 rkey 0x685 add 0x1 ackreq icrc ok"
        );
        assert_eq!(
            lines[1],
            "RC_ATOMIC_ACKNOWLEDGE qp 0x3e3450 psn 0xc20d23 ack msn 1 original 0x838add978d45cdba icrc ok"
        );
    }

    #[test]
    fn a_nak_tells_its_code() {
        let lines = lines(include_bytes!("../../../pcaps/loss.pcap"));
        let naks: BTreeSet<_> = lines.iter().filter(|line| line.contains(" nak ")).collect();
        assert!(!naks.is_empty());
        assert!(naks.iter().all(|line| line.contains("nak PSN sequence error msn")), "{naks:?}");
    }
}
