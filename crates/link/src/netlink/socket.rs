//! A netlink socket that is asked one question at a time.
//!
//! The kernel answers within the call that asks, so nothing here waits. Answers are read with bounds checks: a
//! malformed one is no answer.

use std::io;
use std::os::fd::OwnedFd;

use netlink_packet_core::{Emitable, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, Nla, NlaBuffer};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};

/// Bytes of the message header: length, type, flags, sequence number, port.
pub(super) const HEADER: usize = 16;

/// Bytes of the longest request: one with two IPv6 addresses, or the name of a family.
const REQUEST: usize = 128;

/// Answers to earlier questions that are skipped before giving up.
const MAX_SKIPPED: usize = 8;

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    pub(super) socket: OwnedFd,
    sequence: u32,
    pub(super) buffer: Box<[u8]>,
}

impl NetlinkSocket {
    /// Opens a socket of a netlink protocol (`None`: rtnetlink). Of longer answers than `room` the first bytes are read.
    pub(crate) fn open(protocol: Option<Protocol>, room: usize) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; room].into_boxed_slice() })
    }

    /// Sends a request and returns the body of its answer.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        body: &impl Emitable,
        attributes: &[impl Nla],
    ) -> Result<&[u8], Errno> {
        self.send((kind, NLM_F_REQUEST), body, attributes)?;
        for _ in 0..MAX_SKIPPED {
            let (length, _) =
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT)?;
            if let Some(found) = answer(&self.buffer[..length], self.sequence) {
                let length = found?.len();
                return Ok(&self.buffer[HEADER..HEADER + length]);
            }
        }
        Err(Errno::PROTO)
    }

    /// Sends a request of a type and with flags; returns its sequence number.
    pub(super) fn send(
        &mut self,
        (kind, flags): (u16, u16),
        body: &impl Emitable,
        attributes: &[impl Nla],
    ) -> Result<u32, Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = [0; REQUEST];
        let length = write(&mut bytes, (kind, flags, self.sequence), body, attributes);
        rustix::net::send(&self.socket, &bytes[..length], SendFlags::empty())?;
        Ok(self.sequence)
    }
}

/// Writes a request; returns its length.
fn write(
    bytes: &mut [u8],
    (kind, flags, sequence): (u16, u16, u32),
    body: &impl Emitable,
    attributes: &[impl Nla],
) -> usize {
    let behind = HEADER + body.buffer_len();
    let length = behind + attributes.buffer_len();
    body.emit(&mut bytes[HEADER..behind]);
    attributes.emit(&mut bytes[behind..length]);
    let mut message = NetlinkBuffer::new(bytes);
    message.set_length(length as u32);
    message.set_message_type(kind);
    message.set_flags(flags);
    message.set_sequence_number(sequence);
    length
}

/// The body of the answer with that sequence number, or the kernel's error; `None` when it is an answer to
/// something else.
fn answer(bytes: &[u8], sequence: u32) -> Option<Result<&[u8], Errno>> {
    let body = bytes.get(HEADER..)?;
    let message = NetlinkBuffer::new(bytes);
    if message.sequence_number() != sequence {
        return None;
    }
    if message.message_type() == NLMSG_ERROR {
        let code = i32::from_ne_bytes(*body.first_chunk()?);
        return Some(Err(errno(code)));
    }
    let length = usize::try_from(message.length()).ok()?.checked_sub(HEADER)?;
    Some(Ok(body.get(..length).unwrap_or(body)))
}

/// The error that a message of the kernel names by its negative number; EPROTO if no error has that number.
pub(super) fn errno(code: i32) -> Errno {
    let number = code.checked_neg().filter(|number| (1..4096).contains(number));
    number.map_or(Errno::PROTO, Errno::from_raw_os_error)
}

/// Type and value of each attribute in `bytes`, up to the first malformed one.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            // What the library says of too few bytes is allocated.
            return None;
        }
        let attribute = NlaBuffer::new_checked(rest).ok()?;
        let length = usize::from(attribute.length());
        let value = rest.get(length - attribute.value_length()..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((attribute.kind(), value))
    })
}

/// The value of the first attribute of that type.
pub(crate) fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod malformed;
#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use netlink_packet_route::route::{RouteAttribute, RouteHeader};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_are_found_behind_each_other() {
        let [v4, v6] = ["10.1.2.3", "fd00::1"].map(|ip| ip.parse::<IpAddr>().expect("address"));
        let wanted = [
            RouteAttribute::Oif(7),
            RouteAttribute::Destination(v4.into()),
            RouteAttribute::Source(v6.into()),
        ];
        let mut bytes = [0; REQUEST];
        let length = write(&mut bytes, (26, 1, 99), &RouteHeader::default(), &wanted);
        let body = answer(&bytes[..length], 99).expect("ours").expect("no error");
        let read = &body[RouteHeader::default().buffer_len()..];
        assert_eq!(find(read, libc::RTA_OIF), Some(&7u32.to_ne_bytes()[..]));
        assert_eq!(find(read, libc::RTA_DST), Some(&[10, 1, 2, 3][..]));
        assert_eq!(find(read, libc::RTA_SRC).map(<[u8]>::len), Some(16));
        assert_eq!(find(read, libc::RTA_GATEWAY), None);
        assert!(answer(&bytes[..length], 98).is_none());
    }

    #[test]
    fn the_kernels_error_is_read() {
        let mut bytes = [0; HEADER + 4];
        bytes[HEADER..].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        let mut message = NetlinkBuffer::new(&mut bytes[..]);
        message.set_message_type(NLMSG_ERROR);
        message.set_sequence_number(5);
        assert_eq!(answer(&bytes, 5), Some(Err(Errno::NOENT)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..96), kind in 0u16..32,
        ) {
            if bytes.len() >= 12 {
                bytes[8..12].fill(0);
            }
            if let Some(Ok(body)) = answer(&bytes, 0) {
                let found = find(body.get(12..).unwrap_or_default(), kind);
                prop_assert!(found.is_none_or(|value| value.len() < bytes.len()));
            }
        }
    }
}
