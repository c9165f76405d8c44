//! RoCE packets on interfaces of this host, of any sender and receiver.

mod error;
mod filter;
mod frame;

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use uroce_host::{bpf, interface};

pub use self::error::CaptureError;
pub use self::frame::CapturedFrame;
use self::frame::{FrameHeader, Untagged};
use crate::sys::packet;
use crate::sys::rx_ring::{BLOCK, RingCounts, RxRing, make_promiscuous, take_counts};

/// Every Ethertype (ETH_P_ALL, linux/if_ether.h).
const EVERY_PROTOCOL: u16 = 3;

/// What to capture, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Names of the interfaces, up to 64; empty for all.
    pub interfaces: Vec<String>,
    /// UDP destination port of RoCEv2.
    pub port: u16,
    /// Bytes of a frame that are captured at most.
    pub snap_len: u32,
    /// Bytes of the ring that the kernel captures to, 2 MiB at least.
    pub ring_bytes: usize,
    /// Interfaces that are named also pass on frames that are for other hosts.
    pub promiscuous: bool,
}

impl Default for CaptureConfig {
    /// Whole frames of port 4791 on all interfaces, by a ring of 64 MiB.
    fn default() -> Self {
        let (interfaces, promiscuous) = (Vec::new(), true);
        Self { interfaces, port: 4791, snap_len: 262_144, ring_bytes: 64 << 20, promiscuous }
    }
}

/// What a capture counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Packets that the filter took, those that were dropped included.
    pub packets: u64,
    /// Packets that the kernel dropped because the ring was full.
    pub dropped: u64,
}

/// A packet socket that captures RoCE: RoCEv2 by its UDP port (IPv4 and IPv6, with up to two VLAN
/// tags), and RoCEv1 by its Ethertype. It needs CAP_NET_RAW, changes nothing and sends nothing.
///
/// A packet on a loopback interface, which leaves and arrives there, is captured once, when it arrives.
/// A packet that passes several interfaces of the host (a bridge and its ports, both ends of a veth
/// pair) is captured on each.
#[derive(Debug)]
pub struct CaptureSocket {
    ring: RxRing,
    socket: Socket,
    /// Frames of the block that were not read yet, and where the next one is.
    left: u32,
    next: usize,
    /// The frame that is given next, once it was looked for.
    found: Option<FrameHeader>,
    untagged: Untagged,
    counts: RingCounts,
}

impl CaptureSocket {
    /// Begins to capture.
    ///
    /// # Errors
    ///
    /// [`CaptureError`], which says what to do about it.
    pub fn open(config: &CaptureConfig) -> Result<Self, CaptureError> {
        let failed = |what| move |error| CaptureError::explain(what, error);
        let kind = Type::RAW.cloexec().nonblocking();
        let socket = Socket::new(Domain::PACKET, kind, None).map_err(failed("a packet socket"))?;
        let indexes = indexes_of(&config.interfaces)?;
        let program = filter::roce(&indexes, config.port, config.snap_len);
        bpf::attach_filter(&socket, &program).map_err(failed("a filter of packets"))?;
        let blocks = config.ring_bytes.div_ceil(BLOCK).min(MOST_BLOCKS);
        let ring = RxRing::new(&socket, blocks).map_err(failed("a receive ring"))?;
        let only = if let [only] = indexes[..] { only } else { 0 };
        packet::bind(&socket, only, EVERY_PROTOCOL).map_err(failed("binding to an interface"))?;
        if config.promiscuous {
            let each = indexes.iter().try_for_each(|&index| make_promiscuous(&socket, index));
            each.map_err(failed("promiscuous mode"))?;
        }
        let (untagged, counts) = (Untagged::new(), RingCounts::default());
        Ok(Self { ring, socket, left: 0, next: 0, found: None, untagged, counts })
    }

    /// A frame is there now, for [`Self::next_frame`].
    pub fn is_ready(&mut self) -> bool {
        if self.found.is_none() {
            self.found = self.find();
        }
        self.found.is_some()
    }

    /// The next frame that was captured; `None` if there is none now.
    pub fn next_frame(&mut self) -> Option<CapturedFrame<'_>> {
        let header = self.found.take().or_else(|| self.find())?;
        let bytes = self.ring.block().map_or(&[][..], |block| block.bytes());
        Some(self.untagged.frame(&header, bytes))
    }

    /// The header of the next frame; `None` if there is none now. What was given before is the kernel's again.
    fn find(&mut self) -> Option<FrameHeader> {
        loop {
            if self.left == 0 {
                let block = self.ring.next_block()?;
                (self.left, self.next) = (block.frames(), block.first());
            }
            if let Some(header) = self.next_header() {
                return Some(header);
            }
        }
    }

    /// The header of the next frame in the block; `None` at its end.
    fn next_header(&mut self) -> Option<FrameHeader> {
        self.left = self.left.checked_sub(1)?;
        let header = FrameHeader::read(self.ring.block()?.bytes(), self.next);
        match header.and_then(|header| header.next(self.next)) {
            Some(next) => self.next = next,
            None => self.left = 0,
        }
        header
    }

    /// Waits until there is a frame, at most that long. False: there is none yet, or a signal came.
    ///
    /// # Errors
    ///
    /// ENETDOWN if the only interface of the capture went down or away. It can be up again later.
    pub fn wait(&self, most: Duration) -> io::Result<bool> {
        let most = Timespec::try_from(most).ok();
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut fds, most.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let ready = fds[0].revents();
        if ready.contains(PollFlags::ERR)
            && let Some(error) = self.socket.take_error()?
        {
            return Err(error);
        }
        Ok(ready.contains(PollFlags::IN))
    }

    /// What was counted since the capture began.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell.
    pub fn counts(&mut self) -> io::Result<CaptureCounts> {
        let more = take_counts(&self.socket)?;
        self.counts.packets += more.packets;
        self.counts.dropped += more.dropped;
        Ok(CaptureCounts { packets: self.counts.packets, dropped: self.counts.dropped })
    }
}

/// The longest ring: 2 GiB.
const MOST_BLOCKS: usize = 2048;

/// Interfaces that can be named: jumps of the filter are 8 bits.
const MOST_INTERFACES: usize = 64;

/// Name of the interface that the kernel gave this number; `None` if it is gone.
#[must_use]
pub fn interface_name(index: u32) -> Option<String> {
    interface::name(index)
}

/// An interface has this name.
#[must_use]
pub fn interface_exists(name: &str) -> bool {
    interface::index(name).is_ok()
}

fn indexes_of(names: &[String]) -> Result<Vec<u32>, CaptureError> {
    if names.len() > MOST_INTERFACES {
        return Err(CaptureError::TooManyInterfaces(MOST_INTERFACES));
    }
    let index =
        |name: &String| interface::index(name).map_err(|_| CaptureError::no_interface(name));
    let mut indexes = names.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    indexes.sort_unstable();
    indexes.dedup();
    Ok(indexes)
}
