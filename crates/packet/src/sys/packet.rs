//! AF_PACKET sockets: binding, sendmmsg(2) and recvmmsg(2) with whole frames, and VLAN tags that the kernel took out.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{iovec, mmsghdr, msghdr, sockaddr_ll};

/// Frames in one system call.
pub(crate) const MAX_FRAMES: usize = 64;

/// Bytes of one receive buffer: a virtio-net header, link headers and the longest IP packet, in whole
/// cache lines, and no multiple of a page so that the buffers do not share their cache sets.
pub(crate) const FRAME_ROOM: usize = 66_176;

const _: () = assert!(FRAME_ROOM.is_multiple_of(64) && FRAME_ROOM >= 64 + 10 + 14 + 4 + 65_535);

/// Lets the socket receive frames of that Ethertype, from that interface; 0 stands for all.
pub(crate) fn bind(socket: impl AsFd, interface: u32, ether_type: u16) -> io::Result<()> {
    let name = name(interface, ether_type);
    let length = size_of::<sockaddr_ll>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `length` bytes of `name`, which lives on this stack.
    let result = unsafe { libc::bind(fd, (&raw const name).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Frames that this socket had no room for, since it was opened.
pub(crate) fn drops(socket: impl AsFd) -> u64 {
    let mut counters = [0u32; MEMINFO];
    let mut length = size_of_val(&counters) as libc::socklen_t;
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::SOL_SOCKET);
    let to = counters.as_mut_ptr().cast();
    // SAFETY: the kernel writes up to `length` bytes to `counters`, which is that long.
    let result = unsafe { libc::getsockopt(fd, level, libc::SO_MEMINFO, to, &raw mut length) };
    if result == 0 { counters[MEMINFO_DROPS].into() } else { 0 }
}

/// Numbers that SO_MEMINFO gives, and the place of the one we want (linux/sock_diag.h).
const MEMINFO: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// One frame to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutFrame<'a> {
    pub(crate) interface: u32,
    pub(crate) ether_type: u16,
    /// Virtio-net header and the frame's own headers.
    pub(crate) head: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// Sends up to [`MAX_FRAMES`] frames; returns how many the kernel took from the front.
pub(crate) fn send_frames<'a>(
    fd: BorrowedFd<'_>,
    frames: impl Iterator<Item = OutFrame<'a>>,
) -> io::Result<usize> {
    let mut pieces = [[NOTHING; 2]; MAX_FRAMES];
    let mut names = [name(0, 0); MAX_FRAMES];
    let mut headers = [empty_header(); MAX_FRAMES];
    let mut count = 0;
    let ours = pieces.iter_mut().zip(names.iter_mut()).zip(headers.iter_mut());
    for (frame, ((pieces, to), header)) in frames.zip(ours) {
        *to = name(frame.interface, frame.ether_type);
        *pieces = [piece(frame.head), piece(frame.payload)];
        let header = &mut header.msg_hdr;
        header.msg_name = (&raw mut *to).cast();
        header.msg_namelen = size_of::<sockaddr_ll>() as libc::socklen_t;
        header.msg_iov = pieces.as_mut_ptr();
        header.msg_iovlen = pieces.len();
        count += 1;
    }
    let (raw, headers) = (fd.as_raw_fd(), headers.as_mut_ptr());
    // The C library's function would be a cancellation point: a C program's thread would be unwound through here.
    // SAFETY: the first `count` headers point to `names`, to `pieces`, and through these to slices
    // that live as long as 'a; all outlive the call, and sendmmsg only reads from them.
    let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, raw, headers, count, FLAGS) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Buffers for received frames, allocated and touched once.
#[derive(Debug)]
pub(crate) struct FrameRoom {
    bytes: Box<[u8]>,
    /// Where each frame starts in its buffer.
    offset: usize,
    /// First byte of the first buffer: a whole cache line.
    first: usize,
    extents: Box<[Extent]>,
}

/// What the kernel said of one received frame.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    len: usize,
    truncated: bool,
    tag: Option<[u8; TAG]>,
}

/// Bytes of an IEEE 802.1Q tag: protocol identifier and control information.
pub(crate) const TAG: usize = 4;

/// Room for one `tpacket_auxdata` as control data, in whole words so that it is aligned as `cmsghdr` needs.
type Auxiliary = [u64; 8];

impl FrameRoom {
    /// Buffers for `batch` frames, at most [`MAX_FRAMES`]; byte `aligned` of each frame, below 64,
    /// starts a cache line.
    pub(crate) fn new(batch: usize, aligned: usize) -> Self {
        let batch = batch.clamp(1, MAX_FRAMES);
        // Not zeros: those would be mapped, at 6 us a page, only when the first frame arrives.
        let bytes = vec![0xff; batch * FRAME_ROOM + 64].into_boxed_slice();
        let first = bytes.as_ptr().align_offset(64).min(64);
        let offset = aligned.next_multiple_of(64) - aligned;
        Self { bytes, offset, first, extents: vec![Extent::default(); batch].into_boxed_slice() }
    }

    /// Receives without waiting; returns how many frames came.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let batch = self.extents.len();
        let mut pieces = [NOTHING; MAX_FRAMES];
        let mut headers = [empty_header(); MAX_FRAMES];
        // Not zeroed: the kernel writes what is read, and zeroing 4 KiB for each call is wasted.
        let mut controls = [const { MaybeUninit::<Auxiliary>::uninit() }; MAX_FRAMES];
        let buffers = self.bytes[self.first..].chunks_exact_mut(FRAME_ROOM);
        for (buffer, (piece, header)) in buffers.zip(pieces.iter_mut().zip(&mut headers)) {
            let room = &mut buffer[self.offset..];
            *piece = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
        }
        for (control, header) in controls.iter_mut().zip(&mut headers) {
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Auxiliary>();
        }
        let (raw, to) = (fd.as_raw_fd(), headers.as_mut_ptr());
        let none: *mut libc::timespec = std::ptr::null_mut();
        // Not the C library's function, as in `send_frames`.
        // SAFETY: the first `batch` headers point to `controls` and `pieces`, and through these to buffers of
        // `self`, which is borrowed mutably; all outlive the call, and each length is that of its buffer.
        let got = unsafe { libc::syscall(libc::SYS_recvmmsg, raw, to, batch, FLAGS, none) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for (extent, header) in self.extents.iter_mut().zip(&headers[..got]) {
            *extent = Extent {
                len: (header.msg_len as usize).min(FRAME_ROOM - self.offset),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                tag: tag_of(&header.msg_hdr),
            };
        }
        Ok(got)
    }

    /// Frame `index` of the last [`receive`](Self::receive), with its virtio-net header; `None` when
    /// it did not fit into its buffer.
    pub(crate) fn frame(&self, index: usize) -> Option<&[u8]> {
        let Extent { len, truncated, .. } = self.extents[index];
        let start = self.first + index * FRAME_ROOM + self.offset;
        (!truncated).then(|| &self.bytes[start..start + len])
    }

    /// The same, to be changed.
    pub(crate) fn frame_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let Extent { len, truncated, .. } = self.extents[index];
        let start = self.first + index * FRAME_ROOM + self.offset;
        (!truncated).then(|| &mut self.bytes[start..start + len])
    }

    /// The VLAN tag that the kernel took out of that frame. Only sockets with PACKET_AUXDATA learn of it.
    pub(crate) fn tag(&self, index: usize) -> Option<[u8; TAG]> {
        self.extents[index].tag
    }
}

/// The VLAN tag in the control data of a received message.
fn tag_of(header: &msghdr) -> Option<[u8; TAG]> {
    // SAFETY: the kernel has filled the control data that `header` points to, and set its length.
    let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    let room = control.cmsg_len.checked_sub(size_of::<libc::cmsghdr>())?;
    let kind = (control.cmsg_level, control.cmsg_type);
    if kind != (libc::SOL_PACKET, libc::PACKET_AUXDATA) || room < size_of::<libc::tpacket_auxdata>()
    {
        return None;
    }
    // SAFETY: behind a header of this kind stands an auxdata, of which `room` says that it is whole.
    let auxiliary: libc::tpacket_auxdata =
        unsafe { libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>().read_unaligned() };
    if auxiliary.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let [a, b] = match auxiliary.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => VLAN_PROTOCOL.to_be_bytes(),
        _ => auxiliary.tp_vlan_tpid.to_be_bytes(),
    };
    let [c, d] = auxiliary.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}

/// The Ethertype of an IEEE 802.1Q tag.
const VLAN_PROTOCOL: u16 = 0x8100;

const FLAGS: libc::c_int = libc::MSG_DONTWAIT;

const NOTHING: iovec = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

fn piece(bytes: &[u8]) -> iovec {
    iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn name(interface: u32, ether_type: u16) -> sockaddr_ll {
    sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ether_type.to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn empty_header() -> mmsghdr {
    // SAFETY: `msghdr` holds pointers and integers, for which zero is a value.
    let msg_hdr: msghdr = unsafe { std::mem::zeroed() };
    mmsghdr { msg_hdr, msg_len: 0 }
}

#[cfg(test)]
mod tests;
