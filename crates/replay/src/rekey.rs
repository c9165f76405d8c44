//! Keys of the recording replaced by those of the queue pair of now.

use std::collections::HashMap;

use uroce_wire::{Bth, Feth, HeaderSet, Packet};

/// Where the key stands behind the address of RETH and AtomicETH.
const BEHIND_ADDRESS: usize = 8;

/// Writes the key of now over that of the recording. A key that is not known becomes 0, which no
/// memory has.
pub(crate) fn rekey(bytes: &mut [u8], keys: &HashMap<u32, u32>) {
    let Some(at) = Packet::parse(bytes).ok().and_then(|packet| place_of_key(&packet)) else {
        return;
    };
    let Some(field) = bytes.get_mut(at..at + 4).and_then(|field| field.first_chunk_mut::<4>())
    else {
        return;
    };
    let key = keys.get(&u32::from_be_bytes(*field)).copied().unwrap_or(0);
    *field = key.to_be_bytes();
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
    use super::*;
    use uroce_wire::{Header, HeaderWriter, Ieth, Opcode, Psn, Qpn, Reth};

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
        rekey(&mut read, &keys);
        let parsed = Packet::parse(&read).expect("still a packet");
        assert_eq!(parsed.reth(), Some(Reth { rkey: 0x9999, ..reth }));
        let mut send = packet(Opcode::RC_SEND_ONLY_INV, &Ieth(0x1234));
        rekey(&mut send, &keys);
        assert_eq!(Packet::parse(&send).expect("still a packet").ieth(), Some(0x9999));
    }

    #[test]
    fn an_unknown_key_becomes_one_that_nothing_has() {
        let mut read = packet(Opcode::RC_READ_REQUEST, &Reth { va: 1, rkey: 2, length: 3 });
        rekey(&mut read, &HashMap::new());
        let key = Packet::parse(&read).expect("still a packet").reth().map(|reth| reth.rkey);
        assert_eq!(key, Some(0));
    }
}
