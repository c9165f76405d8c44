//! Messages between a client and the service, over their unix socket (SOCK_SEQPACKET). Each is one
//! datagram of a fixed layout in the byte order of the machine.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use uroce_datapath::{Caps, IcrcCaps, IcrcRx, IcrcTx};
use uroce_host::address::{self, NAME};
use uroce_wire::Slot;

use crate::status::{AddressCounts, ClientStatus};

/// Version of messages and rings; client and service must have the same.
const VERSION: u32 = 3;

/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 256;

/// Bytes of the secret by which a client gets its slot back.
pub(crate) const TOKEN: usize = 16;

/// A secret that only the service and one client know.
pub(crate) type SlotToken = [u8; TOKEN];

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientMessage {
    /// Does the service serve this address?
    Query(SocketAddr),
    /// A place on this address; the one that it had if it knows its secret.
    Attach(SocketAddr, Option<(Slot, SlotToken)>),
    /// A new packet, or room in a ring: the service slept.
    Wake,
    /// Requests to a service ID are for this client. Answered with its number, if that is not 0.
    Claim(u32, u64),
    /// They are no more.
    Release(u64),
    /// Packets to a multicast group are for this client, among others. Answered with its number, if that is not 0.
    Join(u32, IpAddr),
    /// They are no more.
    Leave(IpAddr),
    /// What clients there are, and what was counted.
    Status,
    /// The link with this number has ended: the other end wrote nonsense, or has gone.
    Unlink(u32),
}

/// What the service says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceMessage {
    /// The address is served.
    Serves(ServedAddress),
    /// The client has a place; the descriptor of the shared memory comes with it.
    Attached(Slot, SlotToken, ServedAddress),
    /// The client gets none.
    Refused(String),
    /// There is a packet: the client slept.
    Wake,
    /// A request was done (0), or not (errno).
    Done(u32, i32),
    /// An address, as part of the answer to [`ClientMessage::Status`], which ends with the connection; its datapath.
    Address(SocketAddr, AddressCounts, String),
    /// Packets of the last address that were dropped, and why.
    Drop(u64, String),
    /// A client of the last address.
    Client(ClientStatus),
    /// A link to another client; the descriptors of its memory and its socket come with it.
    Link(LinkEnd),
    /// The link with this number has ended: the other client has left, or has ended it.
    Unlink(u32),
}

/// One end of a link, for the client that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkEnd {
    pub(crate) number: u32,
    /// Which of the two rings is for what this client sends.
    pub(crate) sends: u8,
    /// Who is at the other end, on the same address.
    pub(crate) peer: Slot,
    /// The user of that client.
    pub(crate) user: u32,
}

/// What a client has to know about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedAddress {
    /// The datapath of the service.
    pub(crate) datapath: &'static str,
    pub(crate) mtu: u32,
    pub(crate) segments: u16,
    pub(crate) rx: IcrcRx,
    pub(crate) headers_visible: bool,
    /// The network namespace of the service.
    pub(crate) namespace: u64,
}

/// Datapaths that a service may have.
const DATAPATHS: [&str; 4] = ["udp", "uring", "packet", "xdp"];

impl ServedAddress {
    pub(crate) fn of(caps: &Caps, namespace: u64) -> Self {
        let known = DATAPATHS.iter().find(|name| **name == caps.name);
        Self {
            datapath: known.copied().unwrap_or(DATAPATHS[0]),
            mtu: u32::try_from(caps.mtu).unwrap_or(u32::MAX),
            segments: u16::try_from(caps.segments).unwrap_or(1),
            rx: caps.icrc.rx,
            headers_visible: caps.headers_visible,
            namespace,
        }
    }

    /// Capabilities of a client's datapath; `tx`: who writes the ICRC.
    pub(crate) fn caps(&self, tx: IcrcTx) -> Caps {
        Caps {
            name: "served",
            mtu: self.mtu as usize,
            tx_batch: 64,
            rx_batch: 64,
            icrc: IcrcCaps { rx: self.rx, tx },
            segments: usize::from(self.segments),
            in_place: 0,
            zero_copy: false,
            headers_visible: self.headers_visible,
            needs: "no privilege; `uroce serve` must run on this machine and serve the address",
        }
    }
}

/// Writes fields one behind the other.
struct MessageWriter<'a>(&'a mut Vec<u8>);

impl MessageWriter<'_> {
    fn name(&mut self, addr: &SocketAddr) -> &mut Self {
        let mut name = [0; NAME];
        address::encode(addr, &mut name);
        self.bytes(&name)
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn longs(&mut self, numbers: &[u64]) -> &mut Self {
        numbers.iter().for_each(|number| self.0.extend(number.to_ne_bytes()));
        self
    }

    fn client(&mut self, client: &ClientStatus) -> &mut Self {
        self.bytes(&[client.slot])
            .bytes(&client.user.to_ne_bytes())
            .bytes(&client.process.to_ne_bytes())
            .longs(&[client.sent, client.received, client.refused, client.dropped])
            .bytes(&client.links.to_ne_bytes())
    }

    fn served(&mut self, served: &ServedAddress) -> &mut Self {
        let datapath = DATAPATHS.iter().position(|name| *name == served.datapath);
        let rx = match served.rx {
            IcrcRx::Verify => 0,
            IcrcRx::Solve16 => 1,
            IcrcRx::Skip => 2,
        };
        self.bytes(&[datapath.unwrap_or(0) as u8, rx, u8::from(served.headers_visible)])
            .bytes(&served.mtu.to_ne_bytes())
            .bytes(&served.segments.to_ne_bytes())
            .bytes(&served.namespace.to_ne_bytes())
    }
}

/// Reads them.
struct MessageReader<'a>(&'a [u8]);

impl MessageReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    fn name(&mut self) -> Option<SocketAddr> {
        address::decode(&self.array::<NAME>()?)
    }

    fn slot(&mut self) -> Option<Slot> {
        Slot::new(self.byte()?)
    }

    fn token(&mut self) -> Option<(Slot, SlotToken)> {
        Some((self.slot()?, self.array()?))
    }

    fn served(&mut self) -> Option<ServedAddress> {
        let [datapath, rx, headers_visible] = self.array()?;
        Some(ServedAddress {
            datapath: DATAPATHS.get(usize::from(datapath)).copied()?,
            rx: [IcrcRx::Verify, IcrcRx::Solve16, IcrcRx::Skip].get(usize::from(rx)).copied()?,
            headers_visible: headers_visible == 1,
            mtu: self.number()?,
            segments: self.array().map(u16::from_ne_bytes)?,
            namespace: self.long()?,
        })
    }

    /// What is left, as text.
    fn text(&mut self) -> String {
        String::from_utf8_lossy(std::mem::take(&mut self.0)).into_owned()
    }

    fn client(&mut self) -> Option<ClientStatus> {
        Some(ClientStatus {
            slot: self.byte()?,
            user: self.number()?,
            process: self.number()?,
            sent: self.long()?,
            received: self.long()?,
            refused: self.long()?,
            dropped: self.long()?,
            links: self.number()?,
        })
    }

    fn link(&mut self) -> Option<LinkEnd> {
        let (number, [sends]) = (self.number()?, self.array()?);
        let (peer, user) = (self.slot()?, self.number()?);
        (sends < 2).then_some(LinkEnd { number, sends, peer, user })
    }

    fn ends<T>(&self, message: T) -> Option<T> {
        self.0.is_empty().then_some(message)
    }
}

/// A group as a socket address, which has a layout already.
fn named(group: IpAddr) -> SocketAddr {
    SocketAddr::new(group, 0)
}

impl ClientMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![];
        let mut fields = MessageWriter(&mut bytes);
        let version = VERSION.to_ne_bytes();
        match self {
            Self::Query(addr) => fields.bytes(b"q").bytes(&version).name(addr),
            Self::Attach(addr, None) => fields.bytes(b"a").bytes(&version).name(addr),
            Self::Attach(addr, Some((slot, token))) => {
                fields.bytes(b"r").bytes(&version).name(addr).bytes(&[slot.get()]).bytes(token)
            }
            Self::Wake => fields.bytes(b"w"),
            Self::Claim(number, service) => {
                fields.bytes(b"c").bytes(&number.to_ne_bytes()).bytes(&service.to_ne_bytes())
            }
            Self::Release(service) => fields.bytes(b"d").bytes(&service.to_ne_bytes()),
            Self::Join(number, group) => {
                fields.bytes(b"j").bytes(&number.to_ne_bytes()).name(&named(*group))
            }
            Self::Leave(group) => fields.bytes(b"l").name(&named(*group)),
            Self::Status => fields.bytes(b"s"),
            Self::Unlink(number) => fields.bytes(b"u").bytes(&number.to_ne_bytes()),
        };
        bytes
    }

    /// `None` if it is no message, or one of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = MessageReader(bytes);
        let kind = reader.byte()?;
        if b"qar".contains(&kind) && reader.number()? != VERSION {
            return None;
        }
        let message = match kind {
            b'q' => Self::Query(reader.name()?),
            b'a' => Self::Attach(reader.name()?, None),
            b'r' => Self::Attach(reader.name()?, Some(reader.token()?)),
            b'w' => Self::Wake,
            b'c' => Self::Claim(reader.number()?, reader.long()?),
            b'd' => Self::Release(reader.long()?),
            b'j' => Self::Join(reader.number()?, reader.name()?.ip()),
            b'l' => Self::Leave(reader.name()?.ip()),
            b's' => Self::Status,
            b'u' => Self::Unlink(reader.number()?),
            _ => return None,
        };
        reader.ends(message)
    }
}

impl ServiceMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![];
        let mut fields = MessageWriter(&mut bytes);
        match self {
            Self::Serves(served) => fields.bytes(b"S").served(served),
            Self::Attached(slot, token, served) => {
                fields.bytes(b"A").bytes(&[slot.get()]).bytes(token).served(served)
            }
            Self::Refused(why) => fields.bytes(b"R").bytes(cut(why).as_bytes()),
            Self::Address(local, counts, datapath) => fields
                .bytes(b"P")
                .name(local)
                .longs(&[counts.sent, counts.received, counts.between_clients])
                .bytes(datapath.as_bytes()),
            Self::Drop(count, reason) => {
                fields.bytes(b"X").longs(&[*count]).bytes(reason.as_bytes())
            }
            Self::Client(client) => fields.bytes(b"C").client(client),
            Self::Wake => fields.bytes(b"W"),
            Self::Link(end) => fields
                .bytes(b"L")
                .bytes(&end.number.to_ne_bytes())
                .bytes(&[end.sends, end.peer.get()])
                .bytes(&end.user.to_ne_bytes()),
            Self::Unlink(number) => fields.bytes(b"U").bytes(&number.to_ne_bytes()),
            Self::Done(number, errno) => {
                fields.bytes(b"D").bytes(&number.to_ne_bytes()).bytes(&errno.to_ne_bytes())
            }
        };
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = MessageReader(bytes);
        let message = match reader.byte()? {
            b'S' => Self::Serves(reader.served()?),
            b'A' => {
                let (slot, token) = reader.token()?;
                Self::Attached(slot, token, reader.served()?)
            }
            b'R' => Self::Refused(reader.text()),
            b'P' => {
                let local = reader.name()?;
                let [sent, received, between_clients] =
                    [reader.long()?, reader.long()?, reader.long()?];
                let counts = AddressCounts { sent, received, between_clients };
                Self::Address(local, counts, reader.text())
            }
            b'X' => Self::Drop(reader.long()?, reader.text()),
            b'C' => Self::Client(reader.client()?),
            b'W' => Self::Wake,
            b'L' => Self::Link(reader.link()?),
            b'U' => Self::Unlink(reader.number()?),
            b'D' => Self::Done(reader.number()?, reader.array().map(i32::from_ne_bytes)?),
            _ => return None,
        };
        reader.ends(message)
    }

    /// The outcome of a request.
    pub(crate) fn done(number: u32, outcome: &std::io::Result<()>) -> Self {
        let errno = |error: &std::io::Error| error.raw_os_error();
        let code = match outcome {
            Ok(()) => 0,
            Err(error) => errno(error).unwrap_or(Errno::INVAL.raw_os_error()),
        };
        Self::Done(number, code)
    }
}

/// As much of a text as a message holds.
fn cut(text: &str) -> &str {
    let most = text.len().min(LONGEST - 1);
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn served() -> ServedAddress {
        let (mtu, segments, rx, headers_visible) = (1500, 16, IcrcRx::Solve16, false);
        ServedAddress { datapath: "packet", mtu, segments, rx, headers_visible, namespace: 77 }
    }

    #[test]
    fn messages_arrive_as_they_left() {
        let (v4, v6) = ("10.0.0.1:4791", "[fd00::1]:4791");
        let token = (Slot::new(9).expect("a slot"), [3; TOKEN]);
        for text in [v4, v6] {
            let addr: SocketAddr = text.parse().expect("an address");
            for message in [
                ClientMessage::Query(addr),
                ClientMessage::Attach(addr, None),
                ClientMessage::Attach(addr, Some(token)),
                ClientMessage::Join(3, addr.ip()),
                ClientMessage::Leave(addr.ip()),
                ClientMessage::Claim(4, u64::MAX),
                ClientMessage::Release(1),
                ClientMessage::Wake,
                ClientMessage::Status,
                ClientMessage::Unlink(7),
            ] {
                let bytes = message.encode();
                assert!(bytes.len() <= LONGEST);
                assert_eq!(ClientMessage::decode(&bytes), Some(message));
                assert_eq!(ClientMessage::decode(&[&bytes[..], b"x"].concat()), None);
            }
        }
        let counts = AddressCounts { sent: 1, received: u64::MAX, between_clients: 2 };
        let (slot, user, process) = (9, 1000, 77);
        let (sent, received, refused, dropped, links) = (1, 2, 3, 4, 5);
        let client = ClientStatus { slot, user, process, sent, received, refused, dropped, links };
        let link = LinkEnd { number: 8, sends: 1, peer: token.0, user };
        for message in [
            ServiceMessage::Serves(served()),
            ServiceMessage::Attached(token.0, token.1, served()),
            ServiceMessage::Refused("no".to_owned()),
            ServiceMessage::Address(v4.parse().expect("an address"), counts, "udp".to_owned()),
            ServiceMessage::Drop(7, "bad_icrc".to_owned()),
            ServiceMessage::Client(client),
            ServiceMessage::Wake,
            ServiceMessage::Done(8, 98),
            ServiceMessage::Link(link),
            ServiceMessage::Unlink(9),
        ] {
            assert_eq!(ServiceMessage::decode(&message.encode()), Some(message));
        }
        let long = ServiceMessage::Refused("\u{e4}".repeat(500)).encode();
        assert!(long.len() <= LONGEST && ServiceMessage::decode(&long).is_some());
    }

    #[test]
    fn another_version_is_no_message() {
        let mut bytes = ClientMessage::Query("10.0.0.1:1".parse().expect("an address")).encode();
        bytes[1] ^= 3;
        assert_eq!(ClientMessage::decode(&bytes), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for kind in b"qarwcdjlsuSARWDPXCLU" {
                let bytes = [&[*kind], &VERSION.to_ne_bytes()[..], &bytes].concat();
                let _ = (ClientMessage::decode(&bytes), ServiceMessage::decode(&bytes));
            }
        }
    }
}
