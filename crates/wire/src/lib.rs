//! RoCE and InfiniBand packets: headers, the opcode table, PSN arithmetic and the ICRC.
//!
//! No allocation, no standard library, and no panic on any bytes. Reading goes top-down:
//! [`Packet::parse`] takes what lies behind UDP; its getters give the headers that the opcode
//! table promises. Writing is a [`HeaderWriter`] and the payload behind it; [`icrc()`] closes a
//! packet. [`parse_ethernet`] and [`parse_ip`] read whole frames, [`pretty`] prints packets.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod cnp;
mod drop_reason;
mod frame;
mod gap_list;
mod gid;
mod grh;
mod grh_area;
mod headers;
mod icrc;
mod mtu;
mod opcode;
mod packet;
pub mod pretty;
mod psn;
mod qpn;
mod read_part;
mod slot;
mod syndrome;
mod train;
mod write_part;

pub use cnp::{CNP_LEN, write_cnp};
pub use drop_reason::DropReason;
pub use frame::{
    Frame, FrameError, Ipv4, Ipv6, Network, ROCE_PORT, ROCE_V1_ETHERTYPE, UdpPorts, parse_ethernet,
    parse_ethernet_on, parse_ip, verify_frame_icrc, write_ethernet, write_ipv4_udp, write_ipv6_udp,
};
pub use gap_list::{
    GAPS_PER_LIST, Gap, TAKES_GAP_LISTS, is_gap_list_length, read_gap_list, read_seen,
    write_gap_list,
};
pub use gid::{BadGid, Gid};
pub use grh::Grh;
pub use grh_area::{GRH_AREA_LEN, ud_grh_area};
pub use headers::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Header, HeaderWriter, Ieth, ImmDt, Rdeth, Reth,
    XrcEth,
};
pub use icrc::{
    CrcMethod, Flow, FlowIcrc, ICRC_LEN, IcrcVerdict, PayloadCrc, crc_method, crc_register, icrc,
    icrc_bitwise, icrc_of_captured, icrc_of_local, icrc_v1, recover, set_crc_method,
    solve_two_bytes, verify,
};
pub use mtu::Mtu;
pub use opcode::{
    HeaderSet, Opcode, OpcodeInfo, Operation, PayloadRule, Position, Service, opcode_for,
};
pub use packet::{Packet, PacketParser, ParseError};
pub use psn::Psn;
pub use qpn::Qpn;
pub use read_part::ANY_PART;
pub use slot::Slot;
pub use syndrome::{
    NakCode, Syndrome, SyndromeKind, ack_timeout_ns, credit_count, rnr_timer_ns, rnr_timer_us,
};
pub use train::{TRAIN_BYTES, TRAIN_PACKETS, train_packets};
pub use write_part::MORE_PARTS;
