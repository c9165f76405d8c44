//! Capabilities and counters of a datapath.

use uroce_wire::DropReason;

/// How far a datapath lets its user check the ICRC of received packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcrcRx {
    /// Every field that the ICRC covers is visible: all 32 bits are checked.
    Verify,
    /// The IPv4 identification is hidden: predict it, else solve for it and check 16 bits.
    Solve16,
    /// Packets cannot be damaged on the way; a check is allowed and finds nothing.
    Skip,
}

/// How the ICRC of sent packets comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcrcTx {
    /// The identification is known before sending, so the ICRC that `seal` writes is right.
    Seal,
    /// The ICRC of these packets is not verified; `seal` may leave it out.
    Skip,
}

/// The two directions of [`Caps::icrc`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IcrcCaps {
    /// Receive.
    pub rx: IcrcRx,
    /// Transmit.
    pub tx: IcrcTx,
}

/// Capabilities of a datapath; fixed once it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Short name: `udp`, `loopback`.
    pub name: &'static str,
    /// MTU of the link in bytes (IP header included).
    pub mtu: usize,
    /// Packets that fit between two flushes.
    pub tx_batch: usize,
    /// Packets that one system call (or one look at the ring) can bring.
    pub rx_batch: usize,
    /// What is possible with the ICRC.
    pub icrc: IcrcCaps,
    /// Packets that the kernel takes as one send; 1 without segmentation offload.
    pub segments: usize,
    /// Bytes of packets that are sent in place ([`Datapath::tx_in_place`](crate::Datapath::tx_in_place)) behind one that stays
    /// unchanged; 0 where all are copied.
    pub in_place: u64,
    /// Packets pass without a copy by the datapath.
    pub zero_copy: bool,
    /// The received IP header is visible as a whole, its identification included.
    pub headers_visible: bool,
    /// What this datapath needs from its surroundings, as one sentence for a user.
    pub needs: &'static str,
}

/// Malformed frames by reason; they count as dropped as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refusals {
    /// No RoCE packet of our port.
    pub not_roce: u64,
    /// IP fragments.
    pub fragment: u64,
    /// IPv4 options or IPv6 extension headers.
    pub ip_options: u64,
    /// Lengths that do not agree.
    pub bad_length: u64,
    /// Frames that end within a header, and empty datagrams.
    pub too_short: u64,
    /// From another process, with a source that is not its own.
    pub wrong_peer: u64,
    /// From another process, for neither this address nor this process.
    pub wrong_destination: u64,
}

/// Counters of a datapath, from its creation on. Bytes are UDP payload bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatapathStats {
    /// Packets handed to the link.
    pub tx_packets: u64,
    /// Bytes handed to the link.
    pub tx_bytes: u64,
    /// Packets of them that the kernel took out of our buffer without a copy.
    pub tx_in_place: u64,
    /// Packets dropped before sending: larger than the path's MTU, without a receiver, or for a process of this
    /// host that does not keep up.
    pub tx_dropped: u64,
    /// Packets received and delivered.
    pub rx_packets: u64,
    /// Bytes received and delivered.
    pub rx_bytes: u64,
    /// Packets that arrived and were dropped by the datapath (receive buffer or ring full, no usable
    /// address, nothing in them).
    pub rx_dropped: u64,
    /// Packets that arrived longer than a receive buffer and were dropped.
    pub rx_truncated: u64,
    /// Dropped packets by reason, as far as it is known.
    pub rx_refused: Refusals,
    /// Packets that other processes on the address, or other engines of this one, received and handed over.
    pub rx_adopted: u64,
    /// Packets that belonged to other processes on the address, or to other engines of this one, and were
    /// handed over to them.
    pub rx_forwarded: u64,
    /// Packets that belonged to other processes on the address, or to other engines of this one, and were
    /// dropped, because the process or engine does not keep up or has just ended.
    pub rx_unforwarded: u64,
    /// System calls that send or receive packets, or wake a receiver.
    pub syscalls: u64,
    /// Errors that an ICMP message left on a socket; such a message can be forged, so it is
    /// counted and otherwise ignored.
    pub soft_errors: u64,
    /// Times the kernel took no more packets (EAGAIN, ENOBUFS); nothing is lost by it.
    pub blocked: u64,
    /// Receive buffer in bytes that the kernel granted; 0 where there is none.
    pub recv_buffer: usize,
    /// Send buffer in bytes that the kernel granted; 0 where there is none.
    pub send_buffer: usize,
}

impl DatapathStats {
    /// Counts a received packet with so many bytes of payload.
    #[inline]
    pub fn count_received(&mut self, bytes: usize) {
        self.count_received_packets(1, bytes);
    }

    /// Counts received packets with so many bytes of payload together.
    #[inline]
    pub fn count_received_packets(&mut self, packets: usize, bytes: usize) {
        self.rx_packets += packets as u64;
        self.rx_bytes += bytes as u64;
    }

    /// Counts a frame that was dropped because it is malformed.
    pub fn refuse(&mut self, reason: DropReason) {
        self.rx_dropped += 1;
        match reason {
            DropReason::Fragment => self.rx_refused.fragment += 1,
            DropReason::IpOptions => self.rx_refused.ip_options += 1,
            DropReason::BadLength => self.rx_refused.bad_length += 1,
            DropReason::TooShort => self.rx_refused.too_short += 1,
            DropReason::WrongPeer => self.rx_refused.wrong_peer += 1,
            DropReason::WrongDestination => self.rx_refused.wrong_destination += 1,
            _ => self.rx_refused.not_roce += 1,
        }
    }

    /// What was dropped for which reason, as far as a datapath knows it.
    #[must_use]
    pub fn refused(&self) -> [(DropReason, u64); 8] {
        [
            (DropReason::RxTruncated, self.rx_truncated),
            (DropReason::NotRoce, self.rx_refused.not_roce),
            (DropReason::Fragment, self.rx_refused.fragment),
            (DropReason::IpOptions, self.rx_refused.ip_options),
            (DropReason::BadLength, self.rx_refused.bad_length),
            (DropReason::TooShort, self.rx_refused.too_short),
            (DropReason::WrongPeer, self.rx_refused.wrong_peer),
            (DropReason::WrongDestination, self.rx_refused.wrong_destination),
        ]
    }
}
