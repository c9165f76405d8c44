//! What a datapath can do, and what it has done.

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
    /// Nobody looks at the ICRC of these packets; `seal` may leave it out.
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

/// What a datapath can do; fixed once it is open.
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
    /// Packets pass without a copy by the datapath.
    pub zero_copy: bool,
    /// The received IP header is visible as a whole, its identification included.
    pub headers_visible: bool,
    /// What this datapath needs from its surroundings, as one sentence for a user.
    pub needs: &'static str,
}

/// Counters of a datapath, from its creation on. Bytes are UDP payload bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatapathStats {
    /// Packets handed to the link.
    pub tx_packets: u64,
    /// Bytes handed to the link.
    pub tx_bytes: u64,
    /// Packets dropped on the way out: larger than the path's MTU, or nobody there.
    pub tx_dropped: u64,
    /// Packets received and handed over.
    pub rx_packets: u64,
    /// Bytes received and handed over.
    pub rx_bytes: u64,
    /// Packets that arrived and were dropped by the datapath (receive ring full, no usable
    /// address, nothing in them).
    pub rx_dropped: u64,
    /// Packets that arrived longer than a receive buffer and were dropped.
    pub rx_truncated: u64,
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
