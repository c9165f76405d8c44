//! The AF_XDP socket: its UMEM, its rings, its place on a queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Socket as RawSocket, Type};

use super::area::Area;
use super::ring::{Consumer, Desc, Offsets, Producer};

/// Bytes of a UMEM chunk: the largest that works without huge pages.
pub(crate) const CHUNK: usize = 4096;

/// Entries of the four rings; each a power of two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingSizes {
    pub(crate) fill: u32,
    pub(crate) completion: u32,
    pub(crate) receive: u32,
    pub(crate) transmit: u32,
}

/// The four rings of a socket.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    pub(crate) receive: Consumer<Desc>,
    pub(crate) transmit: Producer<Desc>,
}

/// How a socket sits on its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BindFlags {
    /// The driver works in the UMEM itself.
    pub(crate) zero_copy: bool,
    /// Frames may lie in several chunks.
    pub(crate) multi_buffer: bool,
}

/// An AF_XDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: RawSocket,
}

impl Socket {
    /// A socket without memory, rings or queue.
    pub(crate) fn open() -> io::Result<Self> {
        let kind = Type::RAW.cloexec().nonblocking();
        let socket = RawSocket::new(Domain::from(libc::AF_XDP), kind, None)?;
        uroce_host::fork::keep_from_children(&socket);
        Ok(Self { socket })
    }

    /// Gives the kernel the UMEM.
    ///
    /// # Safety
    ///
    /// As long as the socket is open, bytes of `area` may be touched only while the kernel does not
    /// hold their chunk: it does from the moment it sees the chunk in the fill or the transmit ring
    /// until it hands the chunk out in the receive or the completion ring.
    pub(crate) unsafe fn register(&self, area: &Area) -> io::Result<()> {
        let umem = libc::xdp_umem_reg {
            addr: area.start().as_ptr() as u64,
            len: area.len() as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        // SAFETY: the structure is the one of this option; what the kernel does with the memory
        // behind it is the caller's word.
        unsafe { set(&self.socket, libc::XDP_UMEM_REG, &umem) }
    }

    /// Makes and maps the four rings.
    pub(crate) fn rings(&self, sizes: RingSizes) -> io::Result<Rings> {
        let wanted = [
            (libc::XDP_UMEM_FILL_RING, sizes.fill),
            (libc::XDP_UMEM_COMPLETION_RING, sizes.completion),
            (libc::XDP_RX_RING, sizes.receive),
            (libc::XDP_TX_RING, sizes.transmit),
        ];
        for (option, size) in wanted {
            // SAFETY: each of these options reads one 32-bit number.
            unsafe { set(&self.socket, option, &size)? };
        }
        let places = self.places()?;
        let fd = self.as_fd();
        let page = |offset: i64| offset.cast_unsigned();
        Ok(Rings {
            fill: Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, ring(&places.fr), sizes.fill)?,
            completion: Consumer::map(
                fd,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING,
                ring(&places.cr),
                sizes.completion,
            )?,
            receive: Consumer::map(
                fd,
                page(libc::XDP_PGOFF_RX_RING),
                ring(&places.rx),
                sizes.receive,
            )?,
            transmit: Producer::map(
                fd,
                page(libc::XDP_PGOFF_TX_RING),
                ring(&places.tx),
                sizes.transmit,
            )?,
        })
    }

    /// Where the parts of the rings lie in their mappings.
    fn places(&self) -> io::Result<libc::xdp_mmap_offsets> {
        // SAFETY: the structure is plain integers, and it is the one of this option.
        let (places, length) =
            unsafe { get::<libc::xdp_mmap_offsets>(&self.socket, libc::XDP_MMAP_OFFSETS)? };
        if length == size_of::<libc::xdp_mmap_offsets>() {
            return Ok(places);
        }
        Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
    }

    /// Puts the socket on a queue of an interface.
    pub(crate) fn bind(&self, interface: u32, queue: u32, flags: BindFlags) -> io::Result<()> {
        let copy = if flags.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
        let several = if flags.multi_buffer { libc::XDP_USE_SG } else { 0 };
        let name = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: copy | several | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let (fd, length) = (self.socket.as_raw_fd(), size_of_val(&name) as libc::socklen_t);
        // SAFETY: `name` is as long as `length` says and outlives the call.
        let result = unsafe { libc::bind(fd, (&raw const name).cast(), length) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Lets receive calls work the driver's queue for up to `micros`, instead of interrupts.
    pub(crate) fn busy_poll(&self, micros: u32, budget: u32) -> io::Result<()> {
        const SO_PREFER_BUSY_POLL: libc::c_int = 69;
        const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
        let options =
            [(SO_PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, micros), (SO_BUSY_POLL_BUDGET, budget)];
        for (name, value) in options {
            // SAFETY: each of these options reads one 32-bit number.
            unsafe { set_at(&self.socket, libc::SOL_SOCKET, name, &value)? };
        }
        Ok(())
    }

    /// Asks for room for packets on their way out, past the system's limit where permitted.
    pub(crate) fn enlarge_send_buffer(&self, bytes: u32) {
        // SAFETY: the option reads one 32-bit number.
        let forced =
            unsafe { set_at(&self.socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes) };
        let done = forced.or_else(|_| self.socket.set_send_buffer_size(bytes as usize));
        if let Err(error) = done {
            tracing::debug!(bytes, %error, "send buffer stays as it is");
        }
    }

    /// Makes the kernel look at the transmit ring; it takes a part of it in each call.
    pub(crate) fn kick_transmit(&self) -> io::Result<()> {
        let (raw, none) = (self.socket.as_raw_fd(), std::ptr::null::<u8>());
        // The C library's function would be a cancellation point: a C program's thread would be unwound through here.
        // SAFETY: no bytes and no address are given.
        let result = unsafe {
            libc::syscall(libc::SYS_sendto, raw, none, 0usize, libc::MSG_DONTWAIT, none, 0usize)
        };
        if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes the kernel look at the fill ring and, with busy polling, at the driver's queue.
    pub(crate) fn kick_receive(&self) -> io::Result<()> {
        let (raw, none) = (self.socket.as_raw_fd(), std::ptr::null_mut::<u8>());
        // Not the C library's function, as in `kick_transmit`.
        // SAFETY: no bytes and no address are asked for.
        let result = unsafe {
            libc::syscall(libc::SYS_recvfrom, raw, none, 0usize, libc::MSG_DONTWAIT, none, none)
        };
        if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Frames that the kernel had for this socket and could not hand over.
    pub(crate) fn lost(&self) -> u64 {
        // SAFETY: the structure is plain integers, and it is the one of this option.
        let read = unsafe { get::<libc::xdp_statistics>(&self.socket, libc::XDP_STATISTICS) };
        read.map_or(0, |(lost, _)| lost.rx_dropped.saturating_add(lost.rx_ring_full))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.socket.into()
    }
}

fn ring(offsets: &libc::xdp_ring_offset) -> Offsets {
    Offsets {
        producer: offsets.producer,
        consumer: offsets.consumer,
        flags: offsets.flags,
        entries: offsets.desc,
    }
}

/// Sets an option of level SOL_XDP.
///
/// # Safety
///
/// `T` must be what the option reads, and all its bytes must be initialised.
unsafe fn set<T>(socket: &RawSocket, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the caller's word.
    unsafe { set_at(socket, libc::SOL_XDP, option, value) }
}

/// Sets an option.
///
/// # Safety
///
/// As [`set`].
unsafe fn set_at<T>(
    socket: &RawSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (fd, length) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes of `value`, which outlives the call.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of level SOL_XDP; returns also how many bytes the kernel wrote.
///
/// # Safety
///
/// `T` must be plain integers, for which zero is a value.
unsafe fn get<T>(socket: &RawSocket, option: libc::c_int) -> io::Result<(T, usize)> {
    // SAFETY: the caller's word.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    let (fd, out) = (socket.as_raw_fd(), (&raw mut value).cast());
    // SAFETY: the kernel writes at most `length` bytes to `value`, which outlives the call.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_XDP, option, out, &raw mut length) };
    if result == 0 { Ok((value, length as usize)) } else { Err(io::Error::last_os_error()) }
}
