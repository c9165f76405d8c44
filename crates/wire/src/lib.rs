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

mod aeth;
mod atomicacketh;
mod atomiceth;
mod bth;
mod cnp;
mod deth;
mod drop_reason;
mod feth;
mod frame;
mod gid;
mod grh;
mod grh_area;
mod header;
mod icrc;
mod ieth;
mod immdt;
mod mtu;
mod opcode;
mod packet;
pub mod pretty;
mod psn;
mod qpn;
mod rdeth;
mod reth;
mod slot;
mod train;
mod xrceth;

pub use aeth::{
    Aeth, NakCode, Syndrome, SyndromeKind, ack_timeout_ns, credit_count, rnr_timer_ns, rnr_timer_us,
};
pub use atomicacketh::AtomicAckEth;
pub use atomiceth::AtomicEth;
pub use bth::Bth;
pub use cnp::{CNP_LEN, write_cnp};
pub use deth::Deth;
pub use drop_reason::DropReason;
pub use feth::Feth;
pub use frame::{
    Frame, FrameError, Ipv4, Ipv6, Network, ROCE_PORT, ROCE_V1_ETHERTYPE, UdpPorts, parse_ethernet,
    parse_ethernet_on, parse_ip, verify_frame_icrc, write_ethernet, write_ipv4_udp, write_ipv6_udp,
};
pub use gid::{BadGid, Gid};
pub use grh::Grh;
pub use grh_area::{GRH_AREA_LEN, ud_grh_area};
pub use header::{Header, HeaderWriter};
pub use icrc::{
    CrcMethod, Flow, FlowIcrc, ICRC_LEN, IcrcVerdict, crc_method, icrc, icrc_bitwise,
    icrc_of_captured, icrc_of_local, icrc_v1, recover, set_crc_method, solve_two_bytes, verify,
};
pub use ieth::Ieth;
pub use immdt::ImmDt;
pub use mtu::Mtu;
pub use opcode::{
    HeaderSet, Opcode, OpcodeInfo, Operation, PayloadRule, Position, Service, opcode_for,
};
pub use packet::{Packet, ParseError};
pub use psn::Psn;
pub use qpn::Qpn;
pub use rdeth::Rdeth;
pub use reth::Reth;
pub use slot::Slot;
pub use train::{TRAIN_BYTES, TRAIN_PACKETS, train_packets};
pub use xrceth::XrcEth;
