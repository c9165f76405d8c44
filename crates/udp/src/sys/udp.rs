//! sendmmsg(2) and recvmmsg(2) with control messages; sendmsg(2) and recvmsg(2) for one message.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{iovec, mmsghdr, msghdr};
use uroce_host::address::{NAME, Name};

use crate::udp::control::{CONTROL, Control};

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
