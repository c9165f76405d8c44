//! AF_PACKET sockets with the virtio-net header: UDP segmentation by the kernel, past its UDP and IP.

use std::net::UdpSocket;

use etherparse::{EtherType, Ethernet2Header, IpNumber, Ipv4Header, UdpHeader};
use libc::{SOL_UDP, UDP_GRO};
use uroce_host::{bpf, option};
use uroce_packet::{FramePort, Offload};
use uroce_testbed::error::{Context, Result};

use super::wire::BareSocket;
use crate::link::{DEVICE, Link, LinkEnd};

/// Where both ends are.
const PORT: u16 = 5302;
/// Bytes of Ethernet, IPv4 and UDP header.
const HEADERS: usize = 14 + 20 + 8;
/// Bytes of a UDP header.
const UDP: usize = 8;
/// Where the UDP header has the destination port.
const TO_PORT: usize = 14 + 20 + 2;

/// One end.
#[derive(Debug)]
pub struct PacketSocket {
    port: FramePort,
    segment: usize,
    /// Headers, and behind them room for what is sent.
    frame: Vec<u8>,
    macs: [[u8; 6]; 2],
    addresses: [[u8; 4]; 2],
    /// Takes the copy that the kernel's UDP gets of all that arrives: without it there would be an ICMP message for each.
    _port_holder: UdpSocket,
}

impl BareSocket for PacketSocket {
    fn open(link: &Link, end: LinkEnd, segment: usize) -> Result<Self> {
        let port = FramePort::open(DEVICE).context(|| "no packet socket")?;
        let port_holder = UdpSocket::bind((end.address(), PORT)).context(|| "no UDP socket")?;
        option::set(&port_holder, SOL_UDP, UDP_GRO, 1).context(|| "no UDP_GRO")?;
        let port_holder = socket2::Socket::from(port_holder);
        bpf::drop_everything(&port_holder).context(|| "no socket filter")?;
        let macs = [link.hardware_address(end)?, link.hardware_address(end.other())?];
        let addresses = [end.ipv4().octets(), end.other().ipv4().octets()];
        let _port_holder = port_holder.into();
        Ok(Self { port, segment, frame: Vec::new(), macs, addresses, _port_holder })
    }

    fn room(&mut self, bytes: usize) -> Result<&mut [u8]> {
        if self.frame.len() != HEADERS + bytes {
            self.frame = self.headers(bytes)?;
        }
        Ok(&mut self.frame[HEADERS..])
    }

    fn send(&mut self) -> Result<bool> {
        let offload = match self.frame.len() > HEADERS + self.segment {
            true => Offload::datagrams(HEADERS, self.segment),
            false => Offload::NONE,
        };
        self.port.sender.send(&offload, &self.frame).context(|| "cannot send")?;
        Ok(true)
    }

    fn receive(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (port, segment) = (PORT.to_be_bytes(), self.segment);
        let mut each = |frame: uroce_packet::PortFrame<'_>| {
            let (to, payload) = (frame.bytes.get(TO_PORT..TO_PORT + 2), frame.bytes.get(HEADERS..));
            if to == Some(&port[..]) {
                payload.unwrap_or_default().chunks(segment).for_each(&mut *sink);
            }
        };
        self.port.receiver.recv(&mut each).context(|| "cannot receive")?;
        Ok(())
    }
}

impl PacketSocket {
    /// A frame with `payload` zero bytes; the checksum is that of the pseudo header, as segmentation wants it.
    fn headers(&self, payload: usize) -> Result<Vec<u8>> {
        let [source, destination] = self.addresses;
        let ethernet = Ethernet2Header {
            source: self.macs[0],
            destination: self.macs[1],
            ether_type: EtherType::IPV4,
        };
        let length = u16::try_from(payload + UDP).context(|| "a frame that is too long")?;
        let mut ip = Ipv4Header::new(length, 64, IpNumber::UDP, source, destination)
            .context(|| "a frame that is too long")?;
        ip.header_checksum = ip.calc_header_checksum();
        let checksum = match payload > self.segment {
            true => pseudo_header(source, destination, length),
            false => 0,
        };
        let udp = UdpHeader { source_port: PORT, destination_port: PORT, length, checksum };
        let headers = [&ethernet.to_bytes()[..], &ip.to_bytes(), &udp.to_bytes()].concat();
        Ok([headers, vec![0; payload]].concat())
    }
}

/// The one's complement sum of the pseudo header of UDP (RFC 768).
fn pseudo_header(source: [u8; 4], destination: [u8; 4], length: u16) -> u16 {
    let words = [source, destination].concat();
    let addresses = words.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let mut sum = addresses.sum::<u32>() + u32::from(length) + 17;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pseudo_header_is_folded_into_16_bits() {
        assert_eq!(pseudo_header([10, 78, 0, 1], [10, 78, 0, 2], 100), 0x149f + 100 + 17);
    }
}
