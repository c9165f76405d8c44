//! Datapaths: how packets are sent and received.
//!
//! A [`Datapath`] carries UDP payloads (BTH to ICRC) with the header fields that RoCEv2 needs. It
//! does not interpret the protocol. UDP sockets, AF_PACKET and AF_XDP are crates of their own
//! (`uroce-udp`, `uroce-packet`, `uroce-xdp`). What is here works with any of them, or without a kernel:
//!
//! - [`LoopbackFabric`]: a switch inside the process, for two devices in one program and for tests;
//! - [`ChannelDatapath`]: a share of what one process has for itself, for one of its engines;
//! - [`FaultDatapath`]: loses, delays, doubles, alters and answers packets of another datapath by rules;
//! - [`PcapTap`]: records what passes through another datapath, for Wireshark.
//!
//! All buffers exist after set-up; no call for a packet allocates, but for the recording of a tap, and where
//! [`Datapath::tx_only_to`] names another recipient.
#![forbid(unsafe_code)]

mod burst;
mod caps;
mod engine_channel;
mod fault;
mod group;
mod joint_waiter;
mod loopback;
mod mac;
mod middleware;
mod packet;
mod packet_queue;
mod pcap;
mod rate_limit;
mod route;
mod shared_port;
mod sync;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

pub use burst::{Burst, Cursor, GsoBatch, GsoLimit, PACKET_ROOM, PAGE};
pub use caps::{Caps, DatapathStats, IcrcCaps, IcrcRx, IcrcTx, Refusals};
pub use engine_channel::ChannelDatapath;
pub use fault::{FaultCounters, FaultDatapath, FaultTally, RuleCount};
pub use group::check_group;
pub use joint_waiter::JointWaiter;
pub use loopback::{AttachError, LoopbackDatapath, LoopbackEndpoint, LoopbackFabric};
pub use mac::{Mac, multicast_mac};
pub use middleware::Middleware;
pub use packet::{Fate, FollowingSegments, IpId, RxPacket};
pub use packet_queue::PacketQueue;
pub use pcap::{
    Direction, PcapBlocks, PcapError, PcapFile, PcapRecord, PcapReplay, PcapStatistics, PcapStream,
    PcapTap, PcapWriter, ReplayedFrame,
};
pub use rate_limit::RateLimit;
pub use route::Route;
pub use shared_port::{GsiTarget, RedirectTarget, SharedPort};

/// Outcome of [`Datapath::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flush {
    /// Packets sent.
    pub sent: usize,
    /// Packets dropped and counted.
    pub dropped: usize,
    /// The kernel takes no more packets for now: the rest stays queued, in order, for the next
    /// flush.
    pub blocked: bool,
}

/// Who alone gets what is written ([`Datapath::tx_only_to`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient {
    /// Its address.
    pub address: IpAddr,
    /// Another number: somebody else may have the address now.
    pub period: u32,
}

/// Sends and receives packets.
///
/// Transmit: [`tx_space`](Self::tx_space), write, [`tx_commit`](Self::tx_commit), again, then
/// [`flush`](Self::flush). Sleep: [`recv`](Self::recv) until it returns 0, then
/// [`arm`](Self::arm); when that returns `false`, poll(2) the [`waiter`](Self::waiter).
pub trait Datapath: Send {
    /// What this datapath can do.
    fn caps(&self) -> &Caps;

    /// Local address and RoCE port.
    fn local(&self) -> SocketAddr;

    /// The UDP source port that packets will really carry when `wanted` is asked for; the same
    /// answer for the same question as long as the datapath lives. May open a socket.
    fn source_port(&mut self, wanted: u16) -> u16;

    /// Room for the next packet, at least 4096 + 100 bytes; `None`: [`flush`](Self::flush) first.
    fn tx_space(&mut self) -> Option<&mut [u8]>;

    /// How many packets may be written into [`tx_space`](Self::tx_space) behind each other, as far as they fit, before they
    /// are committed one after the other: what stands behind a packet that is committed is then where the next space begins.
    fn tx_packets(&self) -> usize {
        1
    }

    /// Makes the first `len` bytes of [`tx_space`](Self::tx_space) a packet.
    ///
    /// `seal` is called once with the IPv4 identification that the packet will carry (0 with
    /// IPv6) and its bytes, to write the ICRC.
    ///
    /// # Panics
    ///
    /// When `len` is more than `tx_space` offered, which is a bug of the caller.
    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8]));

    /// The packet that is committed next starts a new GSO batch, because batches to its destination
    /// are lost. Without effect where packets are sent singly.
    fn tx_break(&mut self) {}

    /// Batches to the destination of the packet that is committed next are lost: what the datapath has worked out for it, as
    /// the identifications of its packets, may be wrong.
    fn tx_distrust(&mut self) {}

    /// All that is written to [`tx_space`](Self::tx_space) from now on goes to this recipient, until the next call; `None`: to
    /// anybody. Only such packets leave in place, out of memory in which nothing for any other recipient is written.
    fn tx_only_to(&mut self, recipient: Option<Recipient>) {
        let _ = recipient;
    }

    /// The kernel may send the next `packets` packets that are committed out of [`tx_space`](Self::tx_space) itself, where
    /// the datapath can do so ([`Caps::in_place`]): it reads them later than [`flush`](Self::flush) returns, without a word
    /// when it has. They stay unchanged until more than `Caps::in_place` bytes of such packets were sent behind the oldest that is
    /// not acknowledged; the caller sees to that.
    fn tx_in_place(&mut self, packets: usize) {
        let _ = packets;
    }

    /// Adds a comment to the packet that is committed next, for captures. Several calls add several
    /// comments.
    fn tx_comment(&mut self, comment: &str) {
        let _ = comment;
    }

    /// Sends what was committed. Packets that cannot be sent at all are dropped and counted.
    ///
    /// # Errors
    ///
    /// Only when the link itself fails; the packets stay queued.
    fn flush(&mut self) -> io::Result<Flush>;

    /// Hands up to `limit` received packets to `sink` in order of arrival; returns how many, with those that the sink took
    /// together with another ([`RxPacket::take_following`]). Never blocks.
    ///
    /// # Errors
    ///
    /// Only when the link itself fails; an ICMP message is no such failure.
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize>;

    /// Announces that the caller is about to wait for the [`waiter`](Self::waiter). Returns `true`
    /// when packets are already there, so that waiting would be a mistake. Without this call the
    /// waiter need not become readable.
    fn arm(&mut self) -> bool {
        false
    }

    /// Ends the wait that [`arm`](Self::arm) announced.
    fn disarm(&mut self) {}

    /// Time at which [`recv`](Self::recv) is to be called although no packet arrives, in
    /// nanoseconds of CLOCK_MONOTONIC; it may have passed. `None`: there is no such time.
    fn poll_timeout(&self) -> Option<u64> {
        None
    }

    /// A descriptor of its own for poll(2): readable (POLLIN) when [`recv`](Self::recv) has
    /// something and [`arm`](Self::arm) was called before.
    ///
    /// # Errors
    ///
    /// When the process has no free descriptor.
    fn waiter(&self) -> io::Result<OwnedFd>;

    /// Receives packets for the multicast group from now on.
    ///
    /// # Errors
    ///
    /// When the address is no multicast address of our IP version, or the kernel refuses.
    fn join(&mut self, group: IpAddr) -> io::Result<()>;

    /// Stops receiving packets for the group; without effect when it was not joined.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    fn leave(&mut self, group: IpAddr) -> io::Result<()>;

    /// The share of this datapath in its address; `None` if it has the address for itself.
    fn shared_port(&mut self) -> Option<&mut dyn SharedPort> {
        None
    }

    /// The latest reason for which packets could not be sent, as a sentence for a user.
    fn last_problem(&self) -> Option<String> {
        None
    }

    /// Counters since creation.
    fn stats(&self) -> DatapathStats;
}
