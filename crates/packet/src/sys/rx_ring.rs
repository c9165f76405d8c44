//! The receive ring of a packet socket (TPACKET_V3): memory that the kernel fills with frames, one
//! block after the other.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, tpacket_block_desc, tpacket_hdr_v1, tpacket_req3, tpacket_stats_v3};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use uroce_host::option;

/// Bytes of a block: many frames of the longest kind, 64 KiB.
pub(crate) const BLOCK: usize = 1 << 20;

/// The unit in which the kernel checks the size of a ring; frames of a ring of this version are as
/// long as they are.
const FRAME: usize = 2048;

/// After so many milliseconds the kernel hands over a block that is not full.
const HAND_OVER_AFTER: u32 = 20;

/// Where the descriptor of a block has its status, how many frames are in it, and where the first is.
const STATUS: usize =
    offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, block_status);
const FRAMES: usize = offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, num_pkts);
const FIRST: usize =
    offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);

/// What the kernel counted for a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RingCounts {
    /// Packets that the filter took, dropped ones included.
    pub(crate) packets: u64,
    /// Packets that found no room in the ring.
    pub(crate) dropped: u64,
}

/// The mapped ring.
#[derive(Debug)]
pub(crate) struct RxRing {
    start: NonNull<u8>,
    blocks: usize,
    /// The block that comes next, or is held.
    current: usize,
    held: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only this object reaches it.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Gives the socket a ring of so many blocks and maps it. The socket must be open as long as the
    /// ring is used; frames arrive once it is bound.
    pub(crate) fn new(socket: impl AsFd, blocks: usize) -> io::Result<Self> {
        let blocks = blocks.max(2);
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        option::set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
        ask(&socket, blocks)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (nowhere, fd) = (std::ptr::null_mut(), socket.as_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap(nowhere, blocks * BLOCK, access, MapFlags::SHARED, fd, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, blocks, current: 0, held: false })
    }

    /// The next block, if the kernel has handed it over; the one before goes back to the kernel.
    pub(crate) fn next_block(&mut self) -> Option<Block<'_>> {
        if self.held {
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.current = (self.current + 1) % self.blocks;
            self.held = false;
        }
        self.held = self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        self.block()
    }

    /// The block that is held, again.
    pub(crate) fn block(&self) -> Option<Block<'_>> {
        if !self.held {
            return None;
        }
        let start = self.start.as_ptr().wrapping_add(self.current * BLOCK);
        // SAFETY: the block is inside the mapping. The kernel has handed it over and does not write to
        // it until its status is changed, which needs a mutable borrow of `self`.
        Some(Block { bytes: unsafe { std::slice::from_raw_parts(start, BLOCK) } })
    }

    fn status(&self) -> &AtomicU32 {
        let at = self.start.as_ptr().wrapping_add(self.current * BLOCK + STATUS);
        // SAFETY: the word is inside the mapping, which lives as long as `self`, on a multiple of
        // four bytes; both sides access it as an atomic only.
        unsafe { AtomicU32::from_ptr(at.cast()) }
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow of it outlives `self`. An error leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

/// A block that the kernel has handed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
}

impl<'a> Block<'a> {
    /// All bytes of it.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// How many frames are in it.
    pub(crate) fn frames(self) -> u32 {
        word(self.bytes, FRAMES)
    }

    /// Where the header of the first one is.
    pub(crate) fn first(self) -> usize {
        word(self.bytes, FIRST) as usize
    }
}

/// A word of the descriptor, which is at the start of every block.
fn word(block: &[u8], at: usize) -> u32 {
    let bytes = block[at..].first_chunk().expect("a block is longer than its descriptor");
    u32::from_ne_bytes(*bytes)
}

fn ask(socket: impl AsFd, blocks: usize) -> io::Result<()> {
    // SAFETY: the structure holds integers only, for which zero is a value.
    let mut wanted: tpacket_req3 = unsafe { std::mem::zeroed() };
    wanted.tp_block_size = BLOCK as u32;
    wanted.tp_block_nr = u32::try_from(blocks).map_err(|_| io::ErrorKind::InvalidInput)?;
    wanted.tp_frame_size = FRAME as u32;
    wanted.tp_frame_nr = wanted.tp_block_nr * (BLOCK / FRAME) as u32;
    wanted.tp_retire_blk_tov = HAND_OVER_AFTER;
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::SOL_PACKET);
    let length = size_of::<tpacket_req3>() as libc::socklen_t;
    let from = (&raw const wanted).cast();
    // SAFETY: the kernel reads `length` bytes of `wanted`, which lives on this stack.
    let result = unsafe { libc::setsockopt(fd, level, libc::PACKET_RX_RING, from, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel counted since the last call, or since the socket was opened.
pub(crate) fn take_counts(socket: impl AsFd) -> io::Result<RingCounts> {
    let mut counts = tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut length = size_of::<tpacket_stats_v3>() as libc::socklen_t;
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::SOL_PACKET);
    let to = (&raw mut counts).cast();
    // SAFETY: the kernel writes up to `length` bytes to `counts`, which is that long and holds integers.
    let result =
        unsafe { libc::getsockopt(fd, level, libc::PACKET_STATISTICS, to, &raw mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(RingCounts { packets: counts.tp_packets.into(), dropped: counts.tp_drops.into() })
}

/// The interface passes on frames that are for others as long as the socket is open.
pub(crate) fn make_promiscuous(socket: impl AsFd, interface: u32) -> io::Result<()> {
    let wanted = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::SOL_PACKET);
    let length = size_of::<libc::packet_mreq>() as libc::socklen_t;
    let from = (&raw const wanted).cast();
    // SAFETY: the kernel reads `length` bytes of `wanted`, which lives on this stack.
    let result = unsafe { libc::setsockopt(fd, level, libc::PACKET_ADD_MEMBERSHIP, from, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
