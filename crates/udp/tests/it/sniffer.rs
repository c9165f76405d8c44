//! The frames of a network namespace, as AF_PACKET shows them.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use etherparse::{SlicedPacket, TransportSlice};
use socket2::{Domain, Protocol, Socket, Type};

/// A socket that sees all frames of this network namespace, those of its loopback interface twice: as
/// they leave and as they come.
pub fn sniffer() -> Socket {
    let everything = Protocol::from(i32::from(0x0003u16.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(everything)).expect("AF_PACKET");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("read timeout");
    socket
}

/// The frames with that UDP destination, until `count` are there or two seconds have passed.
pub fn sniff(mut socket: &Socket, dst: SocketAddr, count: usize) -> Vec<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(2);
    let mut frames = Vec::new();
    let mut buffer = vec![0; 1 << 17];
    while frames.len() < count && Instant::now() < end {
        let Ok(length) = socket.read(&mut buffer) else {
            continue;
        };
        let Ok(sliced) = SlicedPacket::from_ethernet(&buffer[..length]) else {
            continue;
        };
        if matches!(sliced.transport, Some(TransportSlice::Udp(udp)) if udp.destination_port() == dst.port())
        {
            frames.push(buffer[..length].to_vec());
        }
    }
    frames
}
