//! How the tester reaches the wire.

use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

/// Carries packets to the NIC under test, and brings what it sends.
pub trait Wire {
    /// The tester's address.
    fn address(&self) -> IpAddr;

    /// A case begins; for captures.
    fn begin(&mut self, case: &str) {
        let _ = case;
    }

    /// Time since the wire was opened.
    fn now(&self) -> Duration;

    /// Sends one packet; returns it as it left, BTH to ICRC.
    ///
    /// # Errors
    /// The packet cannot be sent as it is.
    fn send(&mut self, packet: &Outgoing<'_>) -> Result<Vec<u8>, WireError>;

    /// Waits for the next packet, `wait` at most.
    ///
    /// # Errors
    /// The link failed.
    fn receive(&mut self, wait: Duration) -> Result<Option<Incoming>, WireError>;

    /// Packets so far that came and found no room at the tester, as far as that is known.
    fn overflows(&self) -> u64 {
        0
    }

    /// Both ends of the link on which frames to the NIC under test leave.
    ///
    /// # Errors
    /// The tester cannot send frames, only UDP datagrams: why, and what to do about it.
    fn frame_ends(&mut self, to: IpAddr) -> Result<FrameEnds, WireError>;

    /// Sends an Ethernet frame as it is; [`frame_ends`](Self::frame_ends) was asked before.
    ///
    /// # Errors
    /// The frame cannot be sent.
    fn send_frame(&mut self, frame: &[u8]) -> Result<(), WireError>;
}

/// What frames to the NIC under test have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameEnds {
    /// Hardware address of the tester's interface.
    pub source: [u8; 6],
    /// Hardware address of the next hop: the NIC under test, or a router.
    pub destination: [u8; 6],
    /// UDP port of RoCEv2.
    pub udp_port: u16,
}

/// A packet to send.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The NIC under test.
    pub to: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// IPv4 type of service or IPv6 traffic class, ECN bits included.
    pub traffic_class: u8,
    /// BTH to pad; the ICRC goes behind it.
    pub covered: &'a [u8],
    /// What becomes of the right ICRC, given what it covers of the packet.
    pub damage: fn(u32, &[u8]) -> u32,
}

/// A packet that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Its sender.
    pub from: IpAddr,
    /// From which UDP port.
    pub source_port: u16,
    /// IPv4 type of service or IPv6 traffic class, ECN bits included.
    pub traffic_class: u8,
    /// BTH to ICRC.
    pub bytes: Vec<u8>,
    /// The ICRC is right, as far as the tester can see.
    pub icrc_ok: bool,
}

/// Why a packet did not leave, or none can come.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct WireError(pub String);
