//! Checks that need one packet only.

use std::net::IpAddr;

use uroce_wire::{
    ANY_PART, MORE_PARTS, NakCode, Opcode, OpcodeInfo, Operation, PayloadRule, Position, Qpn,
    Service, Syndrome, SyndromeKind, TAKES_GAP_LISTS, is_gap_list_length,
};

use super::finding::Ledger;
use super::rules::packet::{
    ATOMIC_MISALIGNED, DMA_LENGTH, GSI_LENGTH, GSI_QKEY, GSI_SERVICE, HOP_LIMIT, LENGTH_OF_OPCODE,
    LENGTH_TOO_LONG, MULTICAST_SERVICE, OPCODE_OTHER_SERVICE, OPCODE_UNDEFINED, PAD_WRONG,
    RESERVED_BITS, RESPONSE_WITH_NAK, SYNDROME_RESERVED, VERSION,
};
use super::sight::Sight;
use crate::{Encapsulation, Packet};

/// Bytes of payload that no path MTU exceeds.
const LARGEST_MTU: u32 = 4096;
/// Bytes of a message at most (R25).
const LARGEST_MESSAGE: u32 = 1 << 31;
/// The Q_Key of queue pair 1.
const GSI_QKEY_VALUE: u32 = uroce_cm::GSI_QKEY;
/// Bytes of a management datagram.
const MAD_BYTES: u32 = uroce_cm::MAD_LEN as u32;

/// Runs all of them.
pub(super) fn check(sight: &Sight<'_>, ledger: &mut Ledger) {
    check_bth(sight, ledger);
    let Some(info) = sight.packet.opcode_info else { return check_unknown(sight, ledger) };
    if sight.is_cnp() {
        return;
    }
    if let Some(length) = sight.length() {
        check_pad(sight, info, length, ledger);
        check_length(sight, info, length, ledger);
    }
    check_remote(sight, ledger);
    check_syndrome(sight, info, ledger);
    check_special_queue_pairs(sight, info, ledger);
}

fn check_bth(sight: &Sight<'_>, ledger: &mut Ledger) {
    let bth = &sight.packet.bth;
    if bth.tver != 0 {
        sight.breaks(&VERSION, ledger, || format!("transport version {}", bth.tver));
    }
    // Our NIC asks for gap lists by one of them (ADR 33), asks and tells whether any part of a READ is answered (ADR 34), and tells
    // that a WRITE ONLY goes on in the next one (ADR 36).
    let write_only = matches!(bth.opcode, Opcode::RC_WRITE_ONLY | Opcode::XRC_WRITE_ONLY);
    let of_parts = if write_only { MORE_PARTS } else { 0 };
    let is_ours = bth.reserved7 & !(TAKES_GAP_LISTS | ANY_PART | of_parts) == 0;
    if bth.reserved6 != 0 || !is_ours {
        sight.breaks(&RESERVED_BITS, ledger, || {
            format!("byte 4 has {:#04x}, byte 8 has {:#04x}", bth.reserved6, bth.reserved7)
        });
    }
    if sight.packet.hop_limit < 2 && has_hop_limit(sight.packet) {
        sight.breaks(&HOP_LIMIT, ledger, || format!("hop limit {}", sight.packet.hop_limit));
    }
}

/// The specification does not define the opcode, and leaves it to nobody: 0x40 to 0x5f are RD, whose numbers DC uses
/// too; those from 0xc0 belong to makers.
pub(crate) fn is_undefined(opcode: Opcode) -> bool {
    !matches!(opcode.0, 0x40..=0x5f | 0xc0..) && opcode.info().is_none()
}

/// On an InfiniBand link only what has a GRH has a hop limit; the addresses of the rest are LIDs.
fn has_hop_limit(packet: &Packet) -> bool {
    let is_lid = matches!(packet.source_ip(), IpAddr::V6(ip) if ip.to_bits() <= u16::MAX.into());
    packet.encapsulation != Encapsulation::Infiniband || !is_lid
}

fn check_unknown(sight: &Sight<'_>, ledger: &mut Ledger) {
    let opcode = sight.packet.bth.opcode;
    let rule = if is_undefined(opcode) { &OPCODE_UNDEFINED } else { &OPCODE_OTHER_SERVICE };
    sight.breaks(rule, ledger, || opcode.to_string());
}

fn check_pad(sight: &Sight<'_>, info: &OpcodeInfo, length: u32, ledger: &mut Ledger) {
    let pad = sight.packet.bth.pad;
    if (length.wrapping_add(u32::from(pad))) % 4 != 0 {
        sight.breaks(&PAD_WRONG, ledger, || format!("{pad} pad bytes behind {length} bytes"));
    } else if pad != 0 && !(info.carries_payload() && info.ends()) {
        sight.breaks(&PAD_WRONG, ledger, || format!("{pad} pad bytes in {}", info.name));
    }
}

fn check_length(sight: &Sight<'_>, info: &OpcodeInfo, length: u32, ledger: &mut Ledger) {
    let is_allowed = match info.payload {
        PayloadRule::None => length == 0 || is_gap_list(sight, length),
        PayloadRule::Exact(bytes) => length == u32::from(bytes),
        PayloadRule::Any => length > 0 || matches!(info.position, Position::Only),
    };
    if !is_allowed {
        let text = || format!("{} with {length} bytes of payload", info.name);
        sight.breaks(&LENGTH_OF_OPCODE, ledger, text);
    } else if length > LARGEST_MTU {
        sight.breaks(&LENGTH_TOO_LONG, ledger, || format!("{length} bytes of payload"));
    }
}

/// A sequence NAK of our NIC may tell of more gaps (ADR 33).
fn is_gap_list(sight: &Sight<'_>, length: u32) -> bool {
    let nak = Syndrome::nak(NakCode::PsnSequence);
    sight.packet.aeth.is_some_and(|aeth| aeth.syndrome == nak)
        && is_gap_list_length(length as usize)
}

fn check_remote(sight: &Sight<'_>, ledger: &mut Ledger) {
    if let Some(reth) = sight.packet.reth.filter(|reth| reth.length > LARGEST_MESSAGE) {
        sight.breaks(&DMA_LENGTH, ledger, || format!("length {}", reth.length));
    }
    if let Some(atomic) = sight.packet.atomic_eth.filter(|atomic| atomic.va % 8 != 0) {
        sight.breaks(&ATOMIC_MISALIGNED, ledger, || format!("address {:#x}", atomic.va));
    }
}

fn check_syndrome(sight: &Sight<'_>, info: &OpcodeInfo, ledger: &mut Ledger) {
    let Some(aeth) = sight.packet.aeth else { return };
    let kind = aeth.syndrome.kind();
    let is_ack = matches!(kind, SyndromeKind::Ack { .. });
    if matches!(kind, SyndromeKind::Reserved(_) | SyndromeKind::ReservedNak(_)) {
        let text = || format!("syndrome {:#04x} in {}", aeth.syndrome.0, info.name);
        sight.breaks(&SYNDROME_RESERVED, ledger, text);
    } else if info.operation == Operation::ReadResponse && !is_ack {
        let text = || format!("{} with syndrome {:#04x}", info.name, aeth.syndrome.0);
        sight.breaks(&RESPONSE_WITH_NAK, ledger, text);
    }
}

fn check_special_queue_pairs(sight: &Sight<'_>, info: &OpcodeInfo, ledger: &mut Ledger) {
    let qpn = sight.packet.bth.dest_qpn;
    let is_datagram = info.service == Service::Ud;
    if qpn == Qpn::MULTICAST && !is_datagram {
        sight.breaks(&MULTICAST_SERVICE, ledger, || info.name.to_owned());
    } else if qpn == Qpn::GSI && !is_datagram {
        sight.breaks(&GSI_SERVICE, ledger, || info.name.to_owned());
    } else if qpn == Qpn::GSI {
        check_mad(sight, ledger);
    }
}

fn check_mad(sight: &Sight<'_>, ledger: &mut Ledger) {
    if let Some(deth) = sight.packet.deth.filter(|deth| deth.qkey != GSI_QKEY_VALUE) {
        sight.breaks(&GSI_QKEY, ledger, || format!("Q_Key {:#010x}", deth.qkey));
    }
    if let Some(length) = sight.length().filter(|length| *length != MAD_BYTES) {
        sight.breaks(&GSI_LENGTH, ledger, || format!("{length} bytes"));
    }
}
