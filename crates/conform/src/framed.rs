//! Frames to and about a queue pair under test.

use std::net::IpAddr;

use crate::{Came, Frame, Packet, Qp, Stop};

impl Qp<'_, '_> {
    /// A frame with this packet.
    ///
    /// # Errors
    /// Not applicable: the tester cannot send frames.
    pub fn frame(&self, packet: &Packet) -> Result<Frame, Stop> {
        let own = self.bench.player.borrow().address();
        self.frame_from(own, packet)
    }

    /// A frame with this packet, from another address than the tester's. Its ICRC fits that address.
    ///
    /// # Errors
    /// Not applicable: the tester cannot send frames.
    pub fn frame_from(&self, from: IpAddr, packet: &Packet) -> Result<Frame, Stop> {
        self.judgeable(packet)?;
        let mut player = self.bench.player.borrow_mut();
        let ends = player.frame_ends()?;
        whole(Frame::new(ends, (from, player.peer()), packet))
    }

    /// ICMP "port unreachable" about a packet that came.
    ///
    /// # Errors
    /// Not applicable: the tester cannot send frames, or the addresses are not IPv4.
    pub fn unreachable(&self, came: &Came) -> Result<Frame, Stop> {
        let mut player = self.bench.player.borrow_mut();
        let ends = player.frame_ends()?;
        let flight = (player.peer(), player.address());
        if !flight.0.is_ipv4() {
            return Err(Stop::NotApplicable("asked over IPv4 only".to_owned()));
        }
        whole(Frame::unreachable(ends, flight, (came.source_port(), came.bytes())))
    }

    /// An address of the same network as the tester's that is neither the tester's nor that of the NIC under test.
    pub fn stranger(&self) -> IpAddr {
        let player = self.bench.player.borrow();
        let (own, peer) = (player.address(), player.peer());
        let near = |distance: u8| match own {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                IpAddr::from([a, b, c, d ^ distance])
            }
            IpAddr::V6(ip) => IpAddr::from((u128::from(ip) ^ u128::from(distance)).to_be_bytes()),
        };
        // The first and the last address of a network are no hosts, and one of the others is the peer.
        let host = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => !matches!(ip.octets()[3], 0 | 255),
            IpAddr::V6(_) => true,
        };
        let found = [2, 3, 4, 5].into_iter().map(near).find(|ip| *ip != peer && host(ip));
        found.unwrap_or_else(|| near(6))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn tx_frame(&self, frame: &Frame) -> Result<(), Stop> {
        self.bench.player.borrow_mut().send_frame(frame)
    }
}

fn whole(frame: Option<Frame>) -> Result<Frame, Stop> {
    frame.ok_or_else(|| Stop::Broken("no frame can hold the packet".to_owned()))
}
