//! A packet in one line, for people.

use core::fmt;

use crate::{AtomicEth, Opcode, Operation, Packet, Reth, SyndromeKind, credit_count, rnr_timer_us};

/// A packet with the verdict on its ICRC; its `Display` is one line, as in
/// `RC_WRITE_FIRST qpn 0x000011 psn 0x1a2b va 0x1000 rkey 0x783 len 65536 payload 1024 icrc ok`.
#[derive(Debug, Clone, Copy)]
pub struct Line<'p, 'a> {
    packet: &'p Packet<'a>,
    icrc_ok: Option<bool>,
}

/// A packet in one line. `icrc_ok` is the verdict, if there is one.
pub fn line<'p, 'a>(packet: &'p Packet<'a>, icrc_ok: Option<bool>) -> Line<'p, 'a> {
    Line { packet, icrc_ok }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(self, None).fmt(f)
    }
}

impl fmt::Display for Line<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = self.packet;
        let bth = &packet.bth;
        write!(f, "{} qpn {} psn {}", packet.info.name, bth.dest_qpn, bth.psn)?;
        write_headers(f, packet)?;
        if packet.info.carries_payload() && bth.opcode != Opcode::CNP {
            write!(f, " payload {}", packet.payload().len())?;
        }
        write_marks(f, packet)?;
        match self.icrc_ok {
            Some(true) => f.write_str(" icrc ok"),
            Some(false) => write!(f, " icrc {:#010x} bad", packet.icrc()),
            None => Ok(()),
        }
    }
}

fn write_headers(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    if let Some(xrceth) = packet.xrceth() {
        write!(f, " srq {:#x}", xrceth.srqn)?;
    }
    if let Some(deth) = packet.deth() {
        write!(f, " from {} qkey {:#x}", deth.src_qpn, deth.qkey)?;
    }
    if let Some(feth) = packet.feth() {
        write!(f, " placement {} selectivity {}", feth.placement, feth.selectivity)?;
    }
    if let Some(Reth { va, rkey, length }) = packet.reth() {
        write!(f, " va {va:#x} rkey {rkey:#x} len {length}")?;
    }
    if let Some(atomic) = packet.atomic_eth() {
        write_atomic(f, packet.info.operation, &atomic)?;
    }
    if let Some(aeth) = packet.aeth() {
        write_syndrome(f, aeth.syndrome.kind())?;
        write!(f, " msn {}", aeth.msn)?;
    }
    if let Some(ack) = packet.atomic_ack_eth() {
        write!(f, " original {:#x}", ack.original)?;
    }
    if let Some(imm) = packet.immdt() {
        write!(f, " imm {imm:#x}")?;
    }
    match packet.ieth() {
        Some(rkey) => write!(f, " invalidate {rkey:#x}"),
        None => Ok(()),
    }
}

fn write_atomic(
    f: &mut fmt::Formatter<'_>,
    operation: Operation,
    atomic: &AtomicEth,
) -> fmt::Result {
    let AtomicEth { va, rkey, swap_add, compare } = *atomic;
    write!(f, " va {va:#x} rkey {rkey:#x}")?;
    match operation {
        Operation::CompareSwap => write!(f, " compare {compare:#x} swap {swap_add:#x}"),
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

fn write_marks(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    let bth = &packet.bth;
    let marks = [
        (bth.solicited, " solicited"),
        (bth.ack_req, " ackreq"),
        (bth.fecn, " fecn"),
        (bth.becn, " becn"),
    ];
    for (set, mark) in marks {
        if set {
            f.write_str(mark)?;
        }
    }
    if bth.pkey != 0xffff {
        write!(f, " pkey {:#06x}", bth.pkey)?;
    }
    Ok(())
}
