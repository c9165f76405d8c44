//! sendmmsg(2) and recvmmsg(2), sendmsg(2) and recvmsg(2) for one message; and the control messages of all four, which
//! carry header fields beside a datagram.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, iovec, mmsghdr, msghdr};
use uroce_datapath::Route;
use uroce_host::address::{NAME, Name};

/// The system lets this process call recvmmsg(2): asked for no message at all, so that none is taken. A device that could not
/// receive would look like a network that loses everything.
pub(crate) fn check_receiving(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (none, no_time) = (std::ptr::null_mut::<mmsghdr>(), std::ptr::null_mut::<libc::timespec>());
    // SAFETY: for 0 messages the kernel reads and writes none.
    let got = unsafe { libc::syscall(libc::SYS_recvmmsg, socket.as_raw_fd(), none, 0, 0, no_time) };
    if got >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Messages in one system call. More save nothing that counts, and their headers are prepared for
/// each call.
pub(crate) const MAX_BATCH: usize = 16;

/// Bytes of one receive buffer for single packets: a jumbo frame's worth.
pub(crate) const RECV_ROOM: usize = 9216;

/// Bytes of one receive buffer for super-packets (UDP_GRO): the longest IP packet.
pub(crate) const SUPER_ROOM: usize = 1 << 16;

/// One datagram to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) control: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// Sends up to [`MAX_BATCH`] messages; returns how many the kernel took from the front.
pub(crate) fn send_many<'a>(
    fd: BorrowedFd<'_>,
    mut messages: impl Iterator<Item = Message<'a>>,
) -> io::Result<usize> {
    let Some(first) = messages.next() else {
        return Ok(0);
    };
    match messages.next() {
        None => send_up_to::<1>(fd, std::iter::once(first)),
        Some(second) => send_up_to::<MAX_BATCH>(fd, [first, second].into_iter().chain(messages)),
    }
}

/// Sends up to `N` messages. A single one, the response that a peer waits for, needs no room for
/// others.
fn send_up_to<'a, const N: usize>(
    fd: BorrowedFd<'_>,
    messages: impl Iterator<Item = Message<'a>>,
) -> io::Result<usize> {
    let mut pieces = [NOTHING; N];
    let mut headers = [empty_header(); N];
    let count = point_at(messages, &mut pieces, &mut headers);
    let (raw, flags) = (fd.as_raw_fd(), FLAGS);
    // The C library's functions would be cancellation points, which cost two atomic operations.
    // SAFETY: the first `count` headers (the only one, of which there is a message, if N is 1) point to
    // slices that live as long as 'a and to `pieces`, both of which outlive the call; the kernel only reads
    // from them.
    let sent = unsafe {
        match N {
            1 => libc::syscall(libc::SYS_sendmsg, raw, headers.as_mut_ptr(), flags).min(1),
            _ => libc::syscall(libc::SYS_sendmmsg, raw, headers.as_mut_ptr(), count, flags),
        }
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Points headers to the messages, as many as there is room for; returns how many.
pub(crate) fn point_at<'a>(
    messages: impl Iterator<Item = Message<'a>>,
    pieces: &mut [iovec],
    headers: &mut [mmsghdr],
) -> usize {
    let mut count = 0;
    for ((message, piece), header) in messages.zip(pieces).zip(headers) {
        piece.iov_base = message.payload.as_ptr().cast_mut().cast();
        piece.iov_len = message.payload.len();
        let header = &mut header.msg_hdr;
        header.msg_name = message.name.as_ptr().cast_mut().cast();
        header.msg_namelen = message.name.len() as libc::socklen_t;
        header.msg_iov = piece;
        header.msg_iovlen = 1;
        header.msg_control = std::ptr::null_mut();
        header.msg_controllen = message.control.len();
        if !message.control.is_empty() {
            header.msg_control = message.control.as_ptr().cast_mut().cast();
        }
        count += 1;
    }
    count
}

/// What the kernel said of one received message.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    payload: usize,
    name: usize,
    control: usize,
    truncated: bool,
}

/// Buffers for received messages, allocated once.
#[derive(Debug)]
pub(crate) struct RecvRoom {
    /// Bytes for each message.
    room: usize,
    payloads: Box<[u8]>,
    names: Box<[Name]>,
    controls: Box<[Control]>,
    extents: Box<[Extent]>,
}

/// One received message.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) control: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) truncated: bool,
}

impl RecvRoom {
    /// Buffers of `room` bytes for `batch` messages, at most [`MAX_BATCH`].
    pub(crate) fn new(batch: usize, room: usize) -> Self {
        let batch = batch.clamp(1, MAX_BATCH);
        Self {
            room,
            payloads: touched(batch * room),
            names: vec![[0; NAME]; batch].into_boxed_slice(),
            controls: vec![[0; CONTROL]; batch].into_boxed_slice(),
            extents: vec![Extent::default(); batch].into_boxed_slice(),
        }
    }

    /// Messages that fit.
    pub(crate) fn batch(&self) -> usize {
        self.extents.len()
    }

    /// Receives up to `limit` messages without waiting; returns how many.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        match limit.min(self.batch()) {
            1 => self.receive_up_to::<1>(fd, 1),
            limit => self.receive_up_to::<MAX_BATCH>(fd, limit),
        }
    }

    /// Receives up to `limit` messages, which are at most `N`. Where one is expected, no room is made for
    /// others.
    fn receive_up_to<const N: usize>(
        &mut self,
        fd: BorrowedFd<'_>,
        limit: usize,
    ) -> io::Result<usize> {
        let mut pieces = [NOTHING; N];
        let mut headers = [empty_header(); N];
        self.point(limit, &mut pieces, &mut headers);
        let none = std::ptr::null_mut::<libc::timespec>();
        let (raw, flags) = (fd.as_raw_fd(), FLAGS);
        // As for sending. With a null pointer for the time there are no two layouts of it to choose from.
        // SAFETY: the first `limit` headers (the only one if N is 1) point to buffers of `self`, which is
        // borrowed mutably, and to `pieces`; all outlive the call, and each length is that of its buffer.
        let got = unsafe {
            let to = headers.as_mut_ptr();
            match N {
                1 => libc::syscall(libc::SYS_recvmsg, raw, to, flags),
                _ => libc::syscall(libc::SYS_recvmmsg, raw, to, limit, flags, none),
            }
        };
        let mut got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        if N == 1 {
            // It has said the length of the one that there is.
            headers[0].msg_len = got as u32;
            got = 1;
        }
        for (extent, header) in self.extents.iter_mut().zip(&headers[..got]) {
            *extent = Extent {
                payload: (header.msg_len as usize).min(self.room),
                name: (header.msg_hdr.msg_namelen as usize).min(NAME),
                control: header.msg_hdr.msg_controllen.min(CONTROL),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            };
        }
        Ok(got)
    }

    /// Points the first `limit` headers to the buffers.
    fn point(&mut self, limit: usize, pieces: &mut [iovec], headers: &mut [mmsghdr]) {
        let buffers = self.payloads.chunks_exact_mut(self.room);
        let sides = self.names.iter_mut().zip(self.controls.iter_mut());
        let ours = buffers.zip(sides).take(limit);
        for ((payload, (name, control)), (piece, header)) in
            ours.zip(pieces.iter_mut().zip(headers))
        {
            piece.iov_base = payload.as_mut_ptr().cast();
            piece.iov_len = payload.len();
            let header = &mut header.msg_hdr;
            header.msg_name = name.as_mut_ptr().cast();
            header.msg_namelen = NAME as libc::socklen_t;
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = CONTROL;
        }
    }

    /// Message `index` of the last [`receive`](Self::receive).
    pub(crate) fn message(&self, index: usize) -> Received<'_> {
        let extent = self.extents[index];
        let start = index * self.room;
        Received {
            name: &self.names[index][..extent.name],
            control: &self.controls[index][..extent.control],
            payload: &self.payloads[start..start + extent.payload],
            truncated: extent.truncated,
        }
    }
}

/// Zeroed bytes whose pages are mapped already: a page fault costs more than a packet.
fn touched(bytes: usize) -> Box<[u8]> {
    const PAGE: usize = 4096;
    let mut memory = vec![0; bytes].into_boxed_slice();
    memory.iter_mut().step_by(PAGE).for_each(|byte| *std::hint::black_box(byte) = 0);
    memory
}

const FLAGS: libc::c_int = libc::MSG_DONTWAIT;

pub(crate) const NOTHING: iovec = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

pub(crate) fn empty_header() -> mmsghdr {
    // SAFETY: `msghdr` holds pointers and integers, for which zero is a value.
    let msg_hdr: msghdr = unsafe { std::mem::zeroed() };
    mmsghdr { msg_hdr, msg_len: 0 }
}

/// Bytes for all control messages of one datagram; the largest set takes 112.
pub(crate) const CONTROL: usize = 128;

/// The control messages of one datagram, in the kernel's layout.
pub(crate) type Control = [u8; CONTROL];

/// Hop limit that every socket is set up with.
pub(crate) const DEFAULT_HOP_LIMIT: u8 = 64;

/// Bytes of `struct cmsghdr`.
const HEADER: usize = size_of::<libc::cmsghdr>();

/// Control messages start at multiples of this.
const ALIGN: usize = size_of::<usize>();

/// Writes what `route` needs beside the socket's defaults; returns how many bytes it takes.
pub(crate) fn encode_control(route: &Route, control: &mut Control) -> usize {
    let (level, hop_limit, class) = match route.dst.is_ipv4() {
        true => (libc::IPPROTO_IP, libc::IP_TTL, libc::IP_TOS),
        false => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, libc::IPV6_TCLASS),
    };
    let mut end = 0;
    if route.hop_limit.max(1) != DEFAULT_HOP_LIMIT {
        end = push(control, end, level, hop_limit, &integer(route.hop_limit.max(1)));
    }
    if route.traffic_class != 0 {
        end = push(control, end, level, class, &integer(route.traffic_class));
    }
    end
}

fn integer(value: u8) -> [u8; size_of::<c_int>()] {
    c_int::from(value).to_ne_bytes()
}

/// Appends the order to cut the datagram into packets of `size` bytes (UDP_SEGMENT); returns the
/// new end.
pub(crate) fn encode_segment(control: &mut Control, at: usize, size: u16) -> usize {
    push(control, at, libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes())
}

/// Appends one control message; returns the new end.
fn push(control: &mut Control, at: usize, level: c_int, kind: c_int, value: &[u8]) -> usize {
    let length = HEADER + value.len();
    let message = &mut control[at..at + length.next_multiple_of(ALIGN)];
    message.fill(0);
    message[..ALIGN].copy_from_slice(&length.to_ne_bytes());
    message[ALIGN..ALIGN + 4].copy_from_slice(&level.to_ne_bytes());
    message[ALIGN + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
    message[HEADER..length].copy_from_slice(value);
    at + message.len()
}

/// The header fields of a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fields {
    pub(crate) dst: Option<IpAddr>,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    /// Bytes of each packet but the last when several arrived as one (UDP_GRO); else 0.
    pub(crate) segment: usize,
}

/// Reads the control messages that came with a datagram.
pub(crate) fn decode_control(mut control: &[u8]) -> Fields {
    let mut fields = Fields::default();
    while let Some((level, kind, data, rest)) = split_control(control) {
        read_control(&mut fields, level, kind, data);
        control = rest;
    }
    fields
}

/// The first control message and what follows it.
fn split_control(control: &[u8]) -> Option<(c_int, c_int, &[u8], &[u8])> {
    let length = usize::from_ne_bytes(*control.first_chunk()?);
    let level = c_int::from_ne_bytes(*control.get(ALIGN..)?.first_chunk()?);
    let kind = c_int::from_ne_bytes(*control.get(ALIGN + 4..)?.first_chunk()?);
    let data = control.get(HEADER..length)?;
    let next = length.checked_next_multiple_of(ALIGN)?;
    Some((level, kind, data, control.get(next..).unwrap_or_default()))
}

fn read_control(fields: &mut Fields, level: c_int, kind: c_int, data: &[u8]) {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let addr = data.get(8..).and_then(|data| data.first_chunk::<4>());
            fields.dst = addr.map(|octets| Ipv4Addr::from(*octets).into());
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let addr = data.first_chunk::<16>();
            fields.dst = addr.map(|octets| Ipv6Addr::from(*octets).into());
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            fields.hop_limit = small(data);
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            fields.traffic_class = small(data);
        }
        (libc::SOL_UDP, libc::UDP_GRO) => {
            let size = data.first_chunk().map_or(0, |bytes| c_int::from_ne_bytes(*bytes));
            fields.segment = usize::try_from(size).unwrap_or(0);
        }
        _ => {}
    }
}

/// A number below 256 that the kernel wrote as a byte (IP_TOS) or as an integer.
fn small(data: &[u8]) -> u8 {
    match data.first_chunk() {
        Some(bytes) => c_int::from_ne_bytes(*bytes) as u8,
        None => data.first().copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn route(dst: &str, hop_limit: u8, traffic_class: u8) -> Route {
        let dst = dst.parse().expect("address");
        Route { src: dst, dst, hop_limit, traffic_class }
    }

    #[test]
    fn the_defaults_need_no_control_message() {
        assert_eq!(encode_control(&route("10.0.0.1:1", 64, 0), &mut [0; CONTROL]), 0);
    }

    #[test]
    fn what_differs_is_written_and_read_back() {
        for dst in ["10.0.0.1:1", "[::1]:1"] {
            let mut control = [0xff; CONTROL];
            let end = encode_control(&route(dst, 0, 0x6a), &mut control);
            // Two messages of CMSG_SPACE(4) bytes each.
            assert_eq!(end, 2 * (HEADER + 4).next_multiple_of(ALIGN));
            let fields = decode_control(&control[..end]);
            assert_eq!((fields.hop_limit, fields.traffic_class), (1, 0x6a));
        }
    }

    #[test]
    fn the_size_of_the_packets_in_a_super_packet_is_read() {
        let mut control = [0; CONTROL];
        let size = (1084 as c_int).to_ne_bytes();
        let end = push(&mut control, 0, libc::SOL_UDP, libc::UDP_GRO, &size);
        assert_eq!(decode_control(&control[..end]).segment, 1084);
        let end = push(&mut control, 0, libc::SOL_UDP, libc::UDP_GRO, &(-1 as c_int).to_ne_bytes());
        assert_eq!(decode_control(&control[..end]).segment, 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            let fields = decode_control(&bytes);
            prop_assert!(bytes.len() >= HEADER || fields == Fields::default());
        }
    }
}
