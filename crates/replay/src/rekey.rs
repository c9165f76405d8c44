//! Keys, addresses and queue pair numbers of the recording replaced by those of the queue pair of now.

use std::collections::HashMap;

use uroce_wire::{Bth, Feth, HeaderSet, Packet, Qpn};

use crate::request::target_of;

/// Where the key stands behind the address of RETH and AtomicETH.
const BEHIND_ADDRESS: usize = 8;
/// No memory has this key: it stands for one that is not known.
const NO_KEY: u32 = 0;
/// Where the destination queue pair number stands in the BTH.
const DEST_QPN: std::ops::Range<usize> = 5..8;

/// Writes the key of now, which `keys` tells, over that of the recording.
pub(crate) fn rekey(bytes: &mut [u8], keys: impl Fn(u32) -> Option<u32>) {
    let Some(at) = Packet::parse(bytes).ok().and_then(|packet| place_of_key(&packet)) else {
        return;
    };
    let Some(field) = bytes.get_mut(at..at + 4).and_then(|field| field.first_chunk_mut::<4>())
    else {
        return;
    };
    let key = keys(u32::from_be_bytes(*field)).unwrap_or(NO_KEY);
    *field = key.to_be_bytes();
}

/// Where memory of the recording lies now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Its first address in the recording.
    pub start: u64,
    /// Its first address now.
    pub va: u64,
    /// Its key now.
    pub rkey: u32,
}

/// Writes key and address of now over those of the recording. An address outside of the memory stays as far outside.
/// A key that is not known becomes one that nothing has.
pub(crate) fn relocate(bytes: &mut [u8], placed: &HashMap<u32, Placement>) {
    let found = Packet::parse(bytes).ok().and_then(|packet| {
        let target = target_of(&packet)?;
        Some((place_of_key(&packet)?, target.va, *placed.get(&target.rkey)?))
    });
    if let Some((at, va, now)) = found {
        let va = va.wrapping_sub(now.start).wrapping_add(now.va);
        if let Some(field) = bytes.get_mut(at - BEHIND_ADDRESS..at) {
            field.copy_from_slice(&va.to_be_bytes());
        }
    }
    rekey(bytes, |key| placed.get(&key).map(|now| now.rkey));
}

/// Writes the destination queue pair number.
pub(crate) fn set_dest_qpn(bytes: &mut [u8], qpn: Qpn) {
    if let Some(field) = bytes.get_mut(DEST_QPN) {
        field.copy_from_slice(&qpn.get().to_be_bytes()[1..]);
    }
}

fn place_of_key(packet: &Packet<'_>) -> Option<usize> {
    let headers = packet.info.headers;
    let feth = if headers.contains(HeaderSet::FETH) { size_of_feth() } else { 0 };
    if headers.intersects(HeaderSet::RETH | HeaderSet::ATOMIC_ETH) {
        return Some(bth_len() + feth + BEHIND_ADDRESS);
    }
    headers.contains(HeaderSet::IETH).then_some(bth_len())
}

const fn bth_len() -> usize {
    <Bth as uroce_wire::Header>::LEN
}

const fn size_of_feth() -> usize {
    <Feth as uroce_wire::Header>::LEN
}

#[cfg(test)]
mod tests {
    use uroce_wire::{Header, HeaderWriter, Ieth, Opcode, Psn, Qpn, Reth};

    use super::*;

    fn packet(opcode: Opcode, header: &impl Header) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let mut writer = HeaderWriter::new(&mut bytes);
        writer.put(&Bth::new(opcode, Qpn::new(9), Psn::new(1))).expect("room");
        writer.put(header).expect("room");
        let length = writer.len() + uroce_wire::ICRC_LEN;
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn keys_are_replaced_wherever_they_stand() {
        let keys = HashMap::from([(0x1234, 0x9999)]);
        let reth = Reth { va: 0x1234, rkey: 0x1234, length: 0x1234 };
        let mut read = packet(Opcode::RC_READ_REQUEST, &reth);
        rekey(&mut read, |key| keys.get(&key).copied());
        let parsed = Packet::parse(&read).expect("still a packet");
        assert_eq!(parsed.reth(), Some(Reth { rkey: 0x9999, ..reth }));
        let mut send = packet(Opcode::RC_SEND_ONLY_INV, &Ieth(0x1234));
        rekey(&mut send, |key| keys.get(&key).copied());
        assert_eq!(Packet::parse(&send).expect("still a packet").ieth(), Some(0x9999));
    }

    #[test]
    fn an_unknown_key_becomes_one_that_nothing_has() {
        let mut read = packet(Opcode::RC_READ_REQUEST, &Reth { va: 1, rkey: 2, length: 3 });
        rekey(&mut read, |_| None);
        let key = Packet::parse(&read).expect("still a packet").reth().map(|reth| reth.rkey);
        assert_eq!(key, Some(0));
    }

    #[test]
    fn an_address_keeps_its_distance_from_the_start_of_its_memory() {
        let placed = HashMap::from([(7, Placement { start: 0x1000, va: 0x7f00_0000, rkey: 9 })]);
        for (then, now) in [(0x1010, 0x7f00_0010), (0xff0, 0x7eff_fff0)] {
            let mut read = packet(Opcode::RC_READ_REQUEST, &Reth { va: then, rkey: 7, length: 3 });
            relocate(&mut read, &placed);
            set_dest_qpn(&mut read, Qpn::new(0x12_3456));
            let parsed = Packet::parse(&read).expect("still a packet");
            assert_eq!(parsed.reth(), Some(Reth { va: now, rkey: 9, length: 3 }));
            assert_eq!(parsed.bth.dest_qpn, Qpn::new(0x12_3456));
        }
    }
}
