//! The facts of one InfiniBand packet that all analysis needs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use uroce_wire::{Aeth, AtomicEth, Bth, Deth, Feth, OpcodeInfo, Reth};

use crate::{Direction, IcrcStatus, NotChecked, Timestamp};

/// What carried a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// UDP, port 4791.
    RoceV2,
    /// Ethertype 0x8915 and a GRH.
    RoceV1,
    /// A local route header, on an InfiniBand link.
    Infiniband,
}

/// One packet of a capture: its headers, decoded, and where it was found. The payload is not part
/// of it: it is passed beside the packet where it is needed.
///
/// A header is `None` if the opcode has none, or if the capture cut it off.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Number of the frame that it came in; the first is 1.
    pub frame: u64,
    /// Number of the packet in its frame: 0, and more only where segmentation offload left a batch
    /// of packets as one frame.
    pub segment: u16,
    /// When the frame was captured.
    pub time: Timestamp,
    /// Which way it went at the interface, if the capture tells.
    pub direction: Option<Direction>,
    /// What carried it.
    pub encapsulation: Encapsulation,
    /// Sender: IP address and UDP port. RoCEv1 and InfiniBand: GID and port 0.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// IPv4 TOS, or traffic class of IPv6 and GRH; the lower two bits are the ECN field.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit.
    pub hop_limit: u8,
    /// The IPv4 identification; `None` if it has none, or if only the NIC knew it that cut a batch of
    /// segmentation offload into packets.
    pub ip_id: Option<u16>,
    /// Length of the whole frame on the wire; of a frame that is several packets, this packet's
    /// share.
    pub wire_len: u32,
    /// Base transport header.
    pub bth: Bth,
    /// What the opcode table says; `None` for an opcode that the specification does not define, or
    /// that belongs to a service that is not supported (RD, DC).
    pub opcode_info: Option<&'static OpcodeInfo>,
    /// RDMA extended transport header.
    pub reth: Option<Reth>,
    /// ACK extended transport header.
    pub aeth: Option<Aeth>,
    /// Datagram extended transport header.
    pub deth: Option<Deth>,
    /// Atomic extended transport header.
    pub atomic_eth: Option<AtomicEth>,
    /// Atomic acknowledge header: the value before the operation.
    pub atomic_ack: Option<u64>,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Key of Invalidate Extended Transport Header.
    pub invalidate_rkey: Option<u32>,
    /// XRC shared receive queue number.
    pub xrc_srqn: Option<u32>,
    /// Flush extended transport header.
    pub feth: Option<Feth>,
    /// Bytes of payload on the wire, without pad.
    pub payload_len: u32,
    /// A snap length cut this packet.
    pub is_cut: bool,
    /// What its ICRC says.
    pub icrc: IcrcStatus,
}

impl Packet {
    /// A packet of which only the BTH is known: in frame 1 at time 0, from no address to none, without
    /// any other header or payload. Where more is known, the caller sets the fields.
    #[inline]
    pub fn new(bth: Bth) -> Self {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Self {
            frame: 1,
            segment: 0,
            time: Timestamp::default(),
            direction: None,
            encapsulation: Encapsulation::RoceV2,
            source: nowhere,
            destination: nowhere,
            traffic_class: 0,
            hop_limit: 64,
            ip_id: None,
            wire_len: 0,
            opcode_info: bth.opcode.info(),
            bth,
            reth: None,
            aeth: None,
            deth: None,
            atomic_eth: None,
            atomic_ack: None,
            immediate: None,
            invalidate_rkey: None,
            xrc_srqn: None,
            feth: None,
            payload_len: 0,
            is_cut: false,
            icrc: IcrcStatus::NotChecked(NotChecked::NoHeaders),
        }
    }

    /// Address of the sender.
    pub fn source_ip(&self) -> IpAddr {
        self.source.ip()
    }

    /// Address of the receiver.
    pub fn destination_ip(&self) -> IpAddr {
        self.destination.ip()
    }

    /// The network marked it "congestion experienced" (ECN field 3).
    pub const fn is_congestion_experienced(&self) -> bool {
        self.traffic_class & 3 == 3
    }
}
