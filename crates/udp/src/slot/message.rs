//! Redirect messages: packets from the process that received them to the process that owns their
//! queue pair. A head with the fields of their IP and UDP headers, then their payloads.

use std::net::SocketAddr;

use uroce_datapath::{IpId, RxPacket};
use uroce_host::address::{self, NAME, Name};
use uroce_wire::Slot;

use crate::sys::udp::{RECV_ROOM, SUPER_ROOM};

/// Bytes before the first payload.
pub(crate) const HEAD: usize = SIZE + 2;

/// Bytes of the longest message.
pub(crate) const LONGEST: usize = HEAD + SUPER_ROOM;

const CLASS: usize = 0;
const HOPS: usize = 1;
/// Where the kind of identification stands.
pub(crate) const ID_KIND: usize = 2;
const ID: usize = 4;
const SRC: usize = 6;
const DST: usize = SRC + NAME;
/// Bytes of each packet but the last, which may be shorter.
const SIZE: usize = DST + NAME;

const HIDDEN: u8 = 0;
const NOT_PRESENT: u8 = 1;
const KNOWN: u8 = 2;
/// The message has no packets, but the answer to a [`steering_probe`](super::steering_probe).
pub(crate) const ANSWER: u8 = 0xff;

/// Packets of one sender to one process, as long as they fit into one message.
#[derive(Debug)]
pub(crate) struct RedirectMessage {
    bytes: Box<[u8]>,
    len: usize,
    to: Option<Slot>,
    packets: u64,
    /// The last packet was shorter than those before: none may follow.
    closed: bool,
}

impl RedirectMessage {
    /// An empty message.
    pub(crate) fn new() -> Self {
        let bytes = vec![0; LONGEST].into_boxed_slice();
        Self { bytes, len: 0, to: None, packets: 0, closed: false }
    }

    /// Adds a packet; `false` when it needs another message.
    pub(crate) fn add(&mut self, to: Slot, rx: &RxPacket<'_>) -> bool {
        let head = head(rx);
        if self.to.is_none() {
            self.bytes[..HEAD].copy_from_slice(&head);
            (self.to, self.len) = (Some(to), HEAD);
        } else if !self.takes(to, &head, rx.payload.len()) {
            return false;
        }
        self.closed = rx.payload.len() < self.size();
        let end = self.len + rx.payload.len();
        self.bytes[self.len..end].copy_from_slice(rx.payload);
        self.len = end;
        self.packets += 1;
        true
    }

    /// Whether a packet with that head may be appended.
    fn takes(&self, to: Slot, head: &[u8; HEAD], len: usize) -> bool {
        self.to == Some(to)
            && !self.closed
            && len <= self.size()
            && self.bytes[..SIZE] == head[..SIZE]
            && len <= self.bytes.len() - self.len
    }

    fn size(&self) -> usize {
        let size = self.bytes[SIZE..].first_chunk().map_or([0; 2], |size| *size);
        u16::from_ne_bytes(size).into()
    }

    /// Destination, bytes and number of packets; `None` for an empty message.
    pub(crate) fn sealed(&self) -> Option<(Slot, &[u8], u64)> {
        Some((self.to?, &self.bytes[..self.len], self.packets))
    }

    /// Empties the message.
    pub(crate) fn clear(&mut self) {
        (self.len, self.to, self.packets, self.closed) = (0, None, 0, false);
    }
}

/// A message with this one packet.
pub(crate) fn single(rx: &RxPacket<'_>) -> Vec<u8> {
    [&head(rx)[..], rx.payload].concat()
}

fn head(rx: &RxPacket<'_>) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let (kind, id) = match rx.ip_id {
        IpId::Hidden(_) => (HIDDEN, 0),
        IpId::NotPresent => (NOT_PRESENT, 0),
        IpId::Known(id) => (KNOWN, id),
    };
    (head[CLASS], head[HOPS], head[ID_KIND]) = (rx.traffic_class, rx.hop_limit, kind);
    head[ID..SRC].copy_from_slice(&id.to_ne_bytes());
    head[SRC..DST].copy_from_slice(&name(&rx.src));
    head[DST..SIZE].copy_from_slice(&name(&rx.dst));
    // What the datapath hands over is never longer than RECV_ROOM.
    let size = u16::try_from(rx.payload.len()).unwrap_or(u16::MAX);
    head[SIZE..].copy_from_slice(&size.to_ne_bytes());
    head
}

fn name(addr: &SocketAddr) -> Name {
    let mut name = [0; NAME];
    address::encode(addr, &mut name);
    name
}

/// The packets of a message as one, and the size of each but the last; `None` for a malformed
/// message.
pub(crate) fn read(bytes: &[u8]) -> Option<(RxPacket<'_>, usize)> {
    let (head, payload) = bytes.split_first_chunk::<HEAD>()?;
    let [.., low, high] = *head;
    let size = usize::from(u16::from_ne_bytes([low, high]));
    if payload.is_empty() || size == 0 || size > RECV_ROOM {
        return None;
    }
    let ip_id = match head[ID_KIND] {
        HIDDEN => IpId::Hidden(0),
        NOT_PRESENT => IpId::NotPresent,
        KNOWN => IpId::Known(u16::from_ne_bytes([head[ID], head[ID + 1]])),
        _ => return None,
    };
    let whole = RxPacket {
        src: address::decode(&head[SRC..DST])?,
        dst: address::decode(&head[DST..SIZE])?,
        traffic_class: head[CLASS],
        hop_limit: head[HOPS],
        ip_id,
        icrc_checked: false,
        fate: None,
        following: None,
        payload,
    };
    Some((whole, size))
}

#[cfg(test)]
mod travel;
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot(number: u8) -> Slot {
        Slot::new(number).expect("a slot")
    }

    fn packet(payload: &[u8], ip_id: IpId) -> RxPacket<'_> {
        RxPacket {
            src: "10.0.0.2:50000".parse().expect("address"),
            dst: "10.0.0.1:4791".parse().expect("address"),
            traffic_class: 0x6a,
            hop_limit: 63,
            ip_id,
            icrc_checked: false,
            following: None,
            fate: None,
            payload,
        }
    }

    #[test]
    fn packets_arrive_as_they_left() {
        for ip_id in [IpId::Hidden(0), IpId::NotPresent, IpId::Known(0xbeef)] {
            let bytes = single(&packet(b"payload", ip_id));
            let (read, size) = read(&bytes).expect("a message");
            assert_eq!((read.payload, size), (&b"payload"[..], 7));
            assert_eq!((read.src.port(), read.dst.port()), (50_000, 4791));
            assert_eq!((read.traffic_class, read.hop_limit, read.ip_id), (0x6a, 63, ip_id));
        }
    }

    #[test]
    fn a_train_travels_in_one_letter_up_to_its_short_end() {
        let mut message = RedirectMessage::new();
        let (long, short) = ([1; 100], [2; 40]);
        assert!(message.add(slot(3), &packet(&long, IpId::Hidden(0))));
        assert!(message.add(slot(3), &packet(&long, IpId::Hidden(0))));
        assert!(message.add(slot(3), &packet(&short, IpId::Hidden(0))));
        assert!(
            !message.add(slot(3), &packet(&short, IpId::Hidden(0))),
            "a short one was the last"
        );
        let (to, bytes, packets) = message.sealed().expect("sealed");
        assert_eq!((to, packets), (slot(3), 3));
        let (whole, size) = read(bytes).expect("a message");
        let sizes: Vec<usize> = whole.payload.chunks(size).map(<[u8]>::len).collect();
        assert_eq!(sizes, [100, 100, 40]);
    }

    #[test]
    fn what_differs_goes_into_another_letter() {
        let mut message = RedirectMessage::new();
        let first = packet(&[1; 100], IpId::Hidden(0));
        assert!(message.add(slot(3), &first));
        assert!(!message.add(slot(4), &first));
        assert!(!message.add(slot(3), &RxPacket { hop_limit: 1, ..first }));
        assert!(!message.add(slot(3), &RxPacket { src: first.dst, ..first }));
        assert!(
            !message.add(slot(3), &packet(&[1; 101], IpId::Hidden(0))),
            "longer than the first"
        );
        message.clear();
        assert!(message.sealed().is_none());
        assert!(message.add(slot(4), &first));
    }

    #[test]
    fn a_letter_is_never_longer_than_its_room() {
        let mut message = RedirectMessage::new();
        let payload = [7; RECV_ROOM];
        let taken =
            (0..100).take_while(|_| message.add(slot(1), &packet(&payload, IpId::Hidden(0))));
        assert_eq!(taken.count(), SUPER_ROOM / RECV_ROOM);
    }

    proptest! {
        #[test]
        fn a31_any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some((whole, size)) = read(&bytes) {
                prop_assert!(size > 0 && whole.payload.len() == bytes.len() - HEAD);
            }
        }
    }
}
