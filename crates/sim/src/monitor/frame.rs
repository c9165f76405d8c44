//! The form of one packet, judged without the parser's and the ICRC's code of the NIC where it matters.

use std::net::{IpAddr, SocketAddr};

use uroce_wire::{
    ANY_PART, MORE_PARTS, NakCode, Operation, Packet, PayloadRule, Syndrome, TAKES_GAP_LISTS,
    is_gap_list_length,
};

use crate::violation::{Check, Invariant, ensure};

/// Bytes of the ICRC.
const ICRC_LEN: usize = 4;

/// I12: a frame that a NIC has emitted, as every receiver must understand it.
pub(super) fn check_emitted<'a>(
    src: SocketAddr,
    dst: SocketAddr,
    bytes: &'a [u8],
) -> Result<Packet<'a>, (Invariant, String)> {
    let packet = Packet::parse(bytes)
        .map_err(|error| (Invariant::Frames, format!("a packet cannot be parsed: {error}")))?;
    let name = packet.info.name;
    ensure(has_good_icrc(src, dst, bytes), Invariant::Frames, || {
        format!("a {name} has a wrong ICRC")
    })?;
    check_payload(&packet, bytes)?;
    let bth = &packet.bth;
    let says = match packet.info.operation {
        Operation::ReadResponse => ANY_PART,
        Operation::Write if packet.info.starts() && packet.info.ends() => {
            TAKES_GAP_LISTS | MORE_PARTS
        }
        _ if packet.info.is_request() => TAKES_GAP_LISTS | ANY_PART,
        _ => 0,
    };
    let plain = bth.reserved7 & !says == 0;
    ensure(bth.reserved6 == 0 && plain, Invariant::Frames, || {
        format!("a {name} has reserved bits: {:#x}, {:#x}", bth.reserved6, bth.reserved7)
    })?;
    ensure(src.port() >= 0xc000, Invariant::Frames, || {
        format!("a {name} leaves from UDP port {}", src.port())
    })?;
    Ok(packet)
}

fn check_payload(packet: &Packet<'_>, bytes: &[u8]) -> Check {
    let (name, length) = (packet.info.name, packet.payload().len());
    let holds = match packet.info.payload {
        PayloadRule::None => length == 0 || is_sequence_nak(packet) && is_gap_list_length(length),
        PayloadRule::Any => true,
        PayloadRule::Exact(exact) => length == usize::from(exact),
    };
    ensure(holds, Invariant::Frames, || format!("a {name} has {length} bytes of payload"))?;
    ensure(bytes.len().is_multiple_of(4), Invariant::Frames, || {
        format!("a {name} of {} bytes is not padded", bytes.len())
    })?;
    let end = bytes.len() - ICRC_LEN;
    let pad = &bytes[end - usize::from(packet.bth.pad)..end];
    ensure(pad.iter().all(|byte| *byte == 0), Invariant::Frames, || {
        format!("the pad of a {name} is not zero")
    })
}

fn is_sequence_nak(packet: &Packet<'_>) -> bool {
    let nak = Syndrome::nak(NakCode::PsnSequence);
    packet.info.operation == Operation::Acknowledge
        && packet.aeth().is_some_and(|aeth| aeth.syndrome == nak)
}

/// True if the last four bytes are the CRC-32 of the packet with everything masked that a router may change
/// (IBTA annex 17).
pub(crate) fn has_good_icrc(src: SocketAddr, dst: SocketAddr, bytes: &[u8]) -> bool {
    let Some((covered, icrc)) = bytes.split_last_chunk::<ICRC_LEN>() else { return false };
    u32::from_le_bytes(*icrc) == icrc_of(src, dst, covered)
}

/// The ICRC of a packet without one.
pub(crate) fn icrc_of(src: SocketAddr, dst: SocketAddr, covered: &[u8]) -> u32 {
    let udp_len = (8 + covered.len() + ICRC_LEN) as u16;
    let mut front = [0xff; 8 + 40 + 8];
    let ip_len = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = &mut front[8..28];
            // Traffic class, time to live and checksum are masked.
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
            ip[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
            ip[9] = 17;
            ip[12..16].copy_from_slice(&src.octets());
            ip[16..20].copy_from_slice(&dst.octets());
            20
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = &mut front[8..48];
            // Traffic class, flow label and hop limit are masked.
            ip[0] = 0x6f;
            ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
            ip[6] = 17;
            ip[8..24].copy_from_slice(&src.octets());
            ip[24..40].copy_from_slice(&dst.octets());
            40
        }
        _ => return 0,
    };
    let udp = &mut front[8 + ip_len..16 + ip_len];
    udp[0..2].copy_from_slice(&src.port().to_be_bytes());
    udp[2..4].copy_from_slice(&dst.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&front[..16 + ip_len]);
    // The byte with FECN and BECN is masked.
    crc.update(covered.get(..4).unwrap_or_default());
    crc.update(&[0xff]);
    crc.update(covered.get(5..).unwrap_or_default());
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use uroce_wire::{Flow, icrc_bitwise};

    use super::*;

    #[test]
    fn icrc_is_that_of_the_bitwise_form() {
        let bytes: Vec<u8> = (0..64).collect();
        for (src, dst) in [("10.0.0.1:49152", "10.0.0.2:4791"), ("[fe80::1]:5", "[fe80::2]:4791")] {
            let (src, dst): (SocketAddr, SocketAddr) =
                (src.parse().expect("an address"), dst.parse().expect("an address"));
            let (src_port, dst_port) = (src.port(), dst.port());
            let flow = Flow { src: src.ip(), dst: dst.ip(), src_port, dst_port };
            assert_eq!(icrc_of(src, dst, &bytes), icrc_bitwise(&flow, 0, &bytes));
        }
    }
}
