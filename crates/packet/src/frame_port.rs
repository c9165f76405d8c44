//! One interface, frame by frame: all that arrives there, and a way to send.

mod error;
mod offload;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use uroce_datapath::Mac;
use uroce_host::{Buffer, enlarge, option};
use uroce_link::{Interface, interface};

pub use self::error::FramePortError;
pub use self::offload::Offload;
use crate::sys::packet::{self, FrameRoom, OutFrame, TAG};
use crate::sys::rx_ring::make_promiscuous;

/// Frames in one system call.
const BATCH: usize = 32;
/// Bytes to ask for as receive and as send buffer.
const BUFFER: usize = 8 * 1024 * 1024;
/// Both hardware addresses: what stands before a VLAN tag.
const ADDRESSES: usize = 12;
/// Every Ethertype (`ETH_P_ALL`).
const ALL: u16 = 3;
/// `PACKET_VNET_HDR` of linux/if_packet.h.
const PACKET_VNET_HDR: libc::c_int = 15;
/// How long a full send buffer is waited for before a frame is dropped.
const SEND_TIMEOUT_NS: i64 = 20_000_000;

/// A frame as it arrived.
#[derive(Debug)]
pub struct PortFrame<'a> {
    /// What the link would have done to it, or has still to do.
    pub offload: Offload,
    /// From its Ethernet header on, with its VLAN tag and without its frame check sequence.
    pub bytes: &'a mut [u8],
}

/// Packet sockets on one interface: what arrives there, to whomever it is addressed, and frames sent as they are.
/// Nothing that this host sends there is received.
///
/// Frames are handed over together with their [`Offload`]: several packets that the kernel carries as one stay one.
#[derive(Debug)]
pub struct FramePort {
    /// The way in.
    pub receiver: FrameReceiver,
    /// The way out.
    pub sender: FrameSender,
}

/// The way in of a [`FramePort`].
#[derive(Debug)]
pub struct FrameReceiver {
    socket: Socket,
    room: FrameRoom,
    received: u64,
    refused: u64,
}

/// The way out of a [`FramePort`].
#[derive(Debug)]
pub struct FrameSender {
    name: String,
    index: u32,
    hardware_address: Mac,
    mtu: usize,
    socket: Socket,
    sent: u64,
    lost: u64,
    problem: Option<Errno>,
}

impl FramePort {
    /// Opens the interface called `name` and makes it receive frames to any hardware address.
    ///
    /// # Errors
    ///
    /// [`FramePortError`]: no such interface, none of Ethernet, or no right.
    pub fn open(name: &str) -> Result<Self, FramePortError> {
        let failed = |what| move |source| FramePortError::explain(what, name, source);
        // First of all, so that a missing right is the first thing to be said.
        let [inward, outward] = [(); 2].map(|()| socket());
        let inward = inward.map_err(failed("opening a packet socket"))?;
        let outward = outward.map_err(failed("opening a packet socket"))?;
        let index = rustix::net::netdevice::name_to_index(&inward, name)
            .map_err(|_| FramePortError::NoInterface(name.to_owned()))?;
        let about = interface(index).map_err(failed("asking for the interface"))?;
        if !about.ethernet {
            return Err(FramePortError::NotEthernet(name.to_owned()));
        }
        let receiver = FrameReceiver::open(inward, index);
        let receiver = receiver.map_err(failed("receiving frames to all hosts"))?;
        Ok(Self { receiver, sender: FrameSender::new(outward, name, &about) })
    }
}

impl FrameReceiver {
    fn open(socket: Socket, index: u32) -> io::Result<Self> {
        enlarge(&socket, Buffer::Receive, BUFFER);
        make_promiscuous(&socket, index)?;
        packet::bind(&socket, index, ALL)?;
        let room = FrameRoom::new(BATCH, Offload::LEN + 14 + 28);
        Ok(Self { socket, room, received: 0, refused: 0 })
    }

    /// Hands the frames that are there to `sink`, those of one system call at most; returns how many.
    ///
    /// # Errors
    ///
    /// Only when the socket is unusable; an interface that is down gives no frames.
    pub fn recv(&mut self, sink: &mut dyn FnMut(PortFrame<'_>)) -> io::Result<usize> {
        let frames = match self.room.receive(self.socket.as_fd()) {
            Ok(frames) => frames,
            Err(error) => return nothing(&error),
        };
        for index in 0..frames {
            let tag = self.room.tag(index);
            match self.room.frame_mut(index).and_then(|bytes| take(bytes, tag)) {
                Some(frame) => {
                    self.received += 1;
                    sink(frame);
                }
                None => self.refused += 1,
            }
        }
        Ok(frames)
    }

    /// For poll(2): readable when [`recv`](Self::recv) has something.
    #[must_use]
    pub fn waiter(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Frames that arrived and were handed over; several packets that the kernel has joined are one.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Frames that arrived and were lost: no room in the receive buffer, or longer than 64 KiB.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.refused + packet::drops(&self.socket)
    }
}

/// No frame came: because the interface went down, perhaps, or a frame was of no shape that the kernel can describe.
fn nothing(error: &io::Error) -> io::Result<usize> {
    match Errno::from_io_error(error) {
        Some(errno @ (Errno::BADF | Errno::NOTSOCK | Errno::FAULT)) => Err(errno.into()),
        _ => Ok(0),
    }
}

impl FrameSender {
    /// Opens the interface with this index to send only. It may be the loopback interface: frames there have an Ethernet
    /// header as well, with addresses of zero.
    ///
    /// # Errors
    ///
    /// [`FramePortError`]: no such interface, none with Ethernet headers, or no right.
    pub fn open(index: u32) -> Result<Self, FramePortError> {
        let number = format!("number {index}");
        let number = number.as_str();
        let failed = |what| move |source| FramePortError::explain(what, number, source);
        let socket = socket().map_err(failed("opening a packet socket"))?;
        let name = rustix::net::netdevice::index_to_name(&socket, index)
            .map_err(|_| FramePortError::NoInterface(number.to_owned()))?;
        let about = interface(index).map_err(failed("asking for the interface"))?;
        match about.ethernet || about.loopback {
            true => Ok(Self::new(socket, &name, &about)),
            false => Err(FramePortError::NotEthernet(name)),
        }
    }

    fn new(socket: Socket, name: &str, about: &Interface) -> Self {
        enlarge(&socket, Buffer::Send, BUFFER);
        let Interface { index, mac: hardware_address, mtu, .. } = *about;
        let name = name.to_owned();
        Self { name, index, hardware_address, mtu, socket, sent: 0, lost: 0, problem: None }
    }

    /// Sends a frame; waits a moment for a full send buffer. What the kernel does not take is counted as lost.
    ///
    /// # Errors
    ///
    /// Only when the socket is unusable.
    pub fn send(&mut self, offload: &Offload, bytes: &[u8]) -> io::Result<()> {
        for _ in 0..2 {
            match self.offer(offload, bytes) {
                Ok(()) => return Ok(()),
                Err(errno @ (Errno::BADF | Errno::NOTSOCK | Errno::FAULT)) => {
                    return Err(errno.into());
                }
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => self.wait_for_room(),
                Err(errno) => {
                    self.problem = Some(errno);
                    break;
                }
            }
        }
        self.lost += 1;
        Ok(())
    }

    fn offer(&mut self, offload: &Offload, bytes: &[u8]) -> Result<(), Errno> {
        let ether_type = bytes.get(12..14).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
        let head = offload.bytes();
        let frame = OutFrame { interface: self.index, ether_type, head, payload: bytes };
        match packet::send_frames(self.socket.as_fd(), std::iter::once(frame)) {
            Ok(0) => Err(Errno::AGAIN),
            Ok(_) => {
                self.sent += 1;
                Ok(())
            }
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }

    fn wait_for_room(&self) {
        let time = Timespec { tv_sec: 0, tv_nsec: SEND_TIMEOUT_NS };
        // Whatever comes of it, the frame is offered once more.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&time));
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hardware address of the interface.
    #[must_use]
    pub fn hardware_address(&self) -> [u8; 6] {
        self.hardware_address
    }

    /// MTU of the interface in bytes, IP header included.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Frames that the kernel took.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Frames that the kernel did not take.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Why the kernel did not take a frame, the last time, as a sentence.
    #[must_use]
    pub fn last_problem(&self) -> Option<String> {
        let (errno, name) = (self.problem?, &self.name);
        Some(match errno {
            Errno::MSGSIZE => format!(
                "a frame is longer than {name} takes: give both interfaces the same MTU, {} now at {name}",
                self.mtu
            ),
            Errno::NETDOWN => format!("{name} is down: `ip link set {name} up`"),
            other => format!("{name} did not take a frame: {other}"),
        })
    }
}

/// A packet socket with virtio-net headers and VLAN tags that receives nothing yet.
fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW.cloexec().nonblocking(), None)?;
    for name in [PACKET_VNET_HDR, libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
        option::set(&socket, libc::SOL_PACKET, name, 1)?;
    }
    Ok(socket)
}

/// Takes apart what the kernel gave: virtio-net header and frame. `None` when it is too short.
fn take(rest: &mut [u8], tag: Option<[u8; TAG]>) -> Option<PortFrame<'_>> {
    let mut offload = Offload::read(rest)?;
    let Some(tag) = tag else {
        return Some(PortFrame { offload, bytes: &mut rest[Offload::LEN..] });
    };
    // The header has been read: the addresses move into its last bytes.
    let (from, to) = (Offload::LEN, Offload::LEN - TAG);
    if rest.len() < from + ADDRESSES {
        return None;
    }
    rest.copy_within(from..from + ADDRESSES, to);
    rest[to + ADDRESSES..to + ADDRESSES + TAG].copy_from_slice(&tag);
    offload.shift(TAG);
    Some(PortFrame { offload, bytes: &mut rest[to..] })
}

#[cfg(test)]
mod tests;
