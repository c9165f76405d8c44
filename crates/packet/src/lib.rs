//! AF_PACKET sockets: whole frames, past the kernel's UDP and IP, for processes with CAP_NET_RAW.
//!
//! - [`PacketDatapath`]: RoCEv2 in whole frames, with segmentation and ICRC checks of its own;
//! - [`FramePort`]: no datapath, but all frames of one interface;
//! - [`capture`]: RoCE packets on interfaces of this host, of any sender and receiver;
//! - [`probe`]: whether this process may open such sockets.
#![deny(unsafe_code)]

mod af_packet;
pub mod capture;
mod frame_port;
pub mod probe;
#[allow(unsafe_code, reason = "system calls without a safe wrapper")]
mod sys;

pub use af_packet::{PacketConfig, PacketDatapath, PacketError};
pub use frame_port::{FramePort, FramePortError, FrameReceiver, FrameSender, Offload, PortFrame};
