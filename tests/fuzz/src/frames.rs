//! Bytes from a wire: frames, packets and their headers.

use uroce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Header, Ieth, ImmDt, Network, Packet, Rdeth,
    Reth, XrcEth, parse_ethernet, parse_ip, pretty,
};

/// Reads the bytes as an Ethernet frame, as an IP packet, as what stands behind UDP, and as each header.
pub(crate) fn run(bytes: &[u8]) {
    for frame in [parse_ethernet(bytes), parse_ip(bytes)].into_iter().flatten() {
        let (source, destination) = frame.addresses();
        match frame.ip {
            Network::V4(_) => assert!(source.is_ipv4() && destination.is_ipv4()),
            Network::V6(_) => assert!(source.is_ipv6() && destination.is_ipv6()),
            // Each GID of RoCEv1 is that of an IPv4 address or not, whatever the other is.
            Network::Grh(grh) => {
                assert_eq!((source, destination), (grh.src.to_ip(), grh.dst.to_ip()))
            }
        }
        let found = frame.transport.last_chunk().map(|icrc| u32::from_le_bytes(*icrc));
        assert_eq!(frame.icrc_is_right(), found.is_some() && frame.expected_icrc() == found);
        assert!(frame.transport.len() <= bytes.len());
        packet(frame.transport);
    }
    packet(bytes);
    headers(bytes);
}

/// What a packet promises is there, and its parts lie inside it, one behind the other.
fn packet(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    let parts = packet.info.header_len + packet.payload().len() + usize::from(packet.bth.pad) + 4;
    assert_eq!(parts, bytes.len());
    assert_eq!(packet.covered().len() + 4, bytes.len());
    let promised = usize::from(packet.deth().is_some()) * Deth::LEN
        + usize::from(packet.xrceth().is_some()) * XrcEth::LEN
        + usize::from(packet.feth().is_some()) * Feth::LEN
        + usize::from(packet.reth().is_some()) * Reth::LEN
        + usize::from(packet.aeth().is_some()) * Aeth::LEN
        + usize::from(packet.atomic_eth().is_some()) * AtomicEth::LEN
        + usize::from(packet.atomic_ack_eth().is_some()) * AtomicAckEth::LEN
        + usize::from(packet.immdt().is_some()) * ImmDt::LEN
        + usize::from(packet.ieth().is_some()) * Ieth::LEN;
    assert!(promised + Bth::LEN <= packet.info.header_len, "{}", packet.info.name);
    assert!(!pretty::line(&packet, None).to_string().is_empty());
}

fn headers(bytes: &[u8]) {
    round_trip::<Bth>(bytes);
    round_trip::<Deth>(bytes);
    round_trip::<XrcEth>(bytes);
    round_trip::<Rdeth>(bytes);
    round_trip::<Reth>(bytes);
    round_trip::<Aeth>(bytes);
    round_trip::<AtomicEth>(bytes);
    round_trip::<AtomicAckEth>(bytes);
    round_trip::<ImmDt>(bytes);
    round_trip::<Ieth>(bytes);
    round_trip::<Feth>(bytes);
}

/// A header that was read and written is read as the same again, and written as the same bytes.
fn round_trip<H: Header>(bytes: &[u8]) {
    let Some(header) = H::read(bytes) else {
        assert!(bytes.len() < H::LEN);
        return;
    };
    let (mut first, mut second) = ([0xa5; 64], [0x5a; 64]);
    header.write(&mut first).expect("room");
    let again = H::read(&first).expect("a whole header");
    again.write(&mut second).expect("room");
    assert_eq!(first[..H::LEN], second[..H::LEN], "{}", H::NAME);
    assert_eq!(header.write(&mut [0; 64][..H::LEN - 1]), None);
}
