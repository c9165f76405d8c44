//! Heads of the packets in a ring.

use std::net::{IpAddr, SocketAddr};

use uroce_datapath::{IpId, PACKET_ROOM};

/// Bytes of a head. Everything in a ring begins at a multiple of it.
pub(crate) const HEAD: usize = 64;

/// Longest payload in a ring: BTH to ICRC.
pub(crate) const MAX_PAYLOAD: usize = PACKET_ROOM;

/// Shortest payload: BTH and ICRC.
pub(crate) const MIN_PAYLOAD: usize = 12 + 4;

/// A head as it stands in the ring.
pub(crate) type HeadBytes = [u8; HEAD];

/// A packet follows.
const PACKET: u8 = 1;
/// Nothing follows up to the end of the ring.
const PAD: u8 = 2;

const KIND: usize = 0;
const CLASS: usize = 1;
const HOPS: usize = 2;
const FLAGS: usize = 3;
const LEN: usize = 4;
const ID: usize = 6;
const PORT: usize = 8;
const FAMILY: usize = 10;
const FIRST: usize = 12;
const SECOND: usize = 28;
const LINK: usize = 44;

/// Sent packets: it starts a GSO batch.
const BREAK: u8 = 1;
/// Sent packets: the client has written the ICRC, for the source port it names and identification 0.
const SEALED: u8 = 2;
/// Received packets: the ICRC was verified.
const CHECKED: u8 = 1;
/// Both: no packet, but a mark in the order of packets. Those for the client at the other end of a link come over the
/// link from here on.
const SWITCH: u8 = 0x80;
/// Received packets: what [`ID`] is.
const ID_KINDS: [u8; 3] = [0, 2, 4];

/// Fields of a packet that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentHead {
    pub(crate) dst: IpAddr,
    /// The UDP source port that the client asks for.
    pub(crate) src_port: u16,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) starts_batch: bool,
    pub(crate) sealed: bool,
    pub(crate) len: usize,
}

/// Fields of a packet for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArrivedHead {
    pub(crate) src: SocketAddr,
    pub(crate) dst: IpAddr,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) ip_id: IpId,
    pub(crate) icrc_checked: bool,
    pub(crate) len: usize,
}

/// The head before the unused end of a ring.
pub(crate) fn pad() -> HeadBytes {
    let mut bytes = [0; HEAD];
    bytes[KIND] = PAD;
    bytes
}

/// True if nothing follows the head up to the end of the ring.
pub(crate) fn is_pad(bytes: &HeadBytes) -> bool {
    bytes[KIND] == PAD
}

/// The length of the payload behind a head; `None` if it is no head of a packet.
pub(crate) fn payload_len(bytes: &HeadBytes) -> Option<usize> {
    let len = usize::from(u16::from_ne_bytes([bytes[LEN], bytes[LEN + 1]]));
    (bytes[KIND] == PACKET && (MIN_PAYLOAD..=MAX_PAYLOAD).contains(&len)).then_some(len)
}

/// The head of a mark: packets from this client to the other end of link `number` come over the link from here on.
/// [`MIN_PAYLOAD`] bytes without a meaning follow.
pub(crate) fn switch(number: u32) -> HeadBytes {
    let mut bytes = common(0, 0, SWITCH, MIN_PAYLOAD, 0);
    bytes[LINK..LINK + 4].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// The number of the link if it is the head of a mark.
#[inline]
pub(crate) fn switched(bytes: &HeadBytes) -> Option<u32> {
    let is_mark = bytes[FLAGS] == SWITCH && payload_len(bytes) == Some(MIN_PAYLOAD);
    let number = bytes[LINK..].first_chunk().filter(|_| is_mark)?;
    Some(u32::from_ne_bytes(*number))
}

fn put_address(bytes: &mut HeadBytes, at: usize, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            bytes[FAMILY] = 4;
            bytes[at..at + 4].copy_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes[FAMILY] = 6;
            bytes[at..at + 16].copy_from_slice(&v6.octets());
        }
    }
}

fn address(bytes: &HeadBytes, at: usize) -> Option<IpAddr> {
    match bytes[FAMILY] {
        4 => Some(IpAddr::from(*bytes[at..].first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*bytes[at..].first_chunk::<16>()?)),
        _ => None,
    }
}

fn number(bytes: &HeadBytes, at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn common(class: u8, hops: u8, flags: u8, len: usize, port: u16) -> HeadBytes {
    let mut bytes = [0; HEAD];
    (bytes[KIND], bytes[CLASS], bytes[HOPS], bytes[FLAGS]) = (PACKET, class, hops, flags);
    // Callers have checked that it is at most `MAX_PAYLOAD`.
    bytes[LEN..ID].copy_from_slice(&(len as u16).to_ne_bytes());
    bytes[PORT..FAMILY].copy_from_slice(&port.to_ne_bytes());
    bytes
}

impl SentHead {
    pub(crate) fn encode(&self) -> HeadBytes {
        let flags = (u8::from(self.starts_batch) * BREAK) | (u8::from(self.sealed) * SEALED);
        let (class, hops) = (self.traffic_class, self.hop_limit);
        let mut bytes = common(class, hops, flags, self.len, self.src_port);
        put_address(&mut bytes, FIRST, self.dst);
        bytes
    }

    /// `None` if it cannot be the head of a packet.
    pub(crate) fn decode(bytes: &HeadBytes) -> Option<Self> {
        Some(Self {
            dst: address(bytes, FIRST)?,
            src_port: number(bytes, PORT),
            hop_limit: bytes[HOPS],
            traffic_class: bytes[CLASS],
            starts_batch: bytes[FLAGS] & BREAK != 0,
            sealed: bytes[FLAGS] & SEALED != 0,
            len: payload_len(bytes)?,
        })
    }
}

impl ArrivedHead {
    pub(crate) fn encode(&self) -> HeadBytes {
        let (kind, id) = match self.ip_id {
            IpId::Known(id) => (ID_KINDS[0], id),
            IpId::Hidden(place) => (ID_KINDS[1], place),
            IpId::NotPresent => (ID_KINDS[2], 0),
        };
        let flags = kind | (u8::from(self.icrc_checked) * CHECKED);
        let (class, hops) = (self.traffic_class, self.hop_limit);
        let mut bytes = common(class, hops, flags, self.len, self.src.port());
        bytes[ID..PORT].copy_from_slice(&id.to_ne_bytes());
        put_address(&mut bytes, FIRST, self.src.ip());
        put_address(&mut bytes, SECOND, self.dst);
        bytes
    }

    /// `None` if it cannot be the head of a packet.
    pub(crate) fn decode(bytes: &HeadBytes) -> Option<Self> {
        let id = number(bytes, ID);
        let kind = bytes[FLAGS] & !CHECKED;
        let ip_id = match ID_KINDS.iter().position(|known| *known == kind)? {
            0 => IpId::Known(id),
            1 => IpId::Hidden(id),
            _ => IpId::NotPresent,
        };
        Some(Self {
            src: SocketAddr::new(address(bytes, FIRST)?, number(bytes, PORT)),
            dst: address(bytes, SECOND)?,
            hop_limit: bytes[HOPS],
            traffic_class: bytes[CLASS],
            ip_id,
            icrc_checked: bytes[FLAGS] & CHECKED != 0,
            len: payload_len(bytes)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ips(v6: bool) -> [IpAddr; 2] {
        let texts = if v6 { ["fd00::7", "ff12::1"] } else { ["10.0.0.7", "239.1.2.3"] };
        texts.map(|text| text.parse().expect("an address"))
    }

    proptest! {
        #[test]
        fn every_field_travels(
            v6: bool, port: u16, hop_limit: u8, traffic_class: u8, id: u16, kind in 0..3usize, yes: bool, no: bool,
            len in MIN_PAYLOAD..=MAX_PAYLOAD,
        ) {
            let [first, second] = ips(v6);
            let (src_port, starts_batch, sealed) = (port, yes, no);
            let sent = SentHead { dst: first, src_port, hop_limit, traffic_class, starts_batch, sealed, len };
            prop_assert_eq!(SentHead::decode(&sent.encode()), Some(sent));
            let ip_id = [IpId::Known(id), IpId::Hidden(id), IpId::NotPresent][kind];
            let src = SocketAddr::new(first, port);
            let arrived = ArrivedHead { src, dst: second, hop_limit, traffic_class, ip_id, icrc_checked: no, len };
            prop_assert_eq!(ArrivedHead::decode(&arrived.encode()), Some(arrived));
            prop_assert!(!is_pad(&sent.encode()) && payload_len(&pad()).is_none());
            prop_assert_eq!((switched(&sent.encode()), switched(&arrived.encode())), (None, None));
        }

        #[test]
        fn a_mark_is_no_packet(number: u32) {
            let mark = switch(number);
            prop_assert_eq!((switched(&mark), payload_len(&mark)), (Some(number), Some(MIN_PAYLOAD)));
            prop_assert!(SentHead::decode(&mark).is_none() && ArrivedHead::decode(&mark).is_none());
            prop_assert_eq!(switched(&pad()), None);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: [u8; 32]) {
            let mut head = [0; HEAD];
            head[..32].copy_from_slice(&bytes);
            for kind in [bytes[0], PACKET] {
                head[KIND] = kind;
                if let Some(sent) = SentHead::decode(&head) {
                    prop_assert!((MIN_PAYLOAD..=MAX_PAYLOAD).contains(&sent.len));
                }
                let _ = ArrivedHead::decode(&head);
            }
        }
    }
}
