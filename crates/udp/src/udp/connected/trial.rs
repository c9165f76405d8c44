//! A trial of a socket before packets leave it in place: what it sends to this host itself.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use memmap2::MmapMut;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use socket2::Socket;
use uroce_host::option;

use crate::sys::splice::SplicePipe;

/// Packets of the trial, and bytes of each: nearly as many pages as there may be.
const PACKETS: usize = 60;
const SEGMENT: usize = 1000;

/// Longest wait for a packet to this host itself: the kernel may deliver it a little later.
const DELIVERY_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Connects a bound socket to `peer`, after a trial; returns the IPv4 identification of the next packet, 0 with IPv6.
///
/// # Errors
///
/// When the kernel splices no datagrams (Linux 6.5 does), does not cut them, or numbers packets in another way than one for
/// each send; when it does not show headers of packets that were sent (`net.core.tstamp_allow_data` is 0); and when the loopback
/// interface of this network namespace is down.
pub(crate) fn connect_after_trial(socket: &Socket, peer: &SocketAddr) -> io::Result<u16> {
    let mut own = socket.local_addr()?.as_socket().ok_or(Errno::AFNOSUPPORT)?;
    own.set_port(0);
    let sink = UdpSocket::bind(own)?;
    sink.set_nonblocking(true)?;
    let own = sink.local_addr()?;
    socket.connect(&own.into())?;
    option::set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, SEGMENT as i32)?;
    let first = identification(socket, &own)?;
    // Not of the heap: the kernel may still read it when this is over.
    let mut payload = MmapMut::map_anon(PACKETS * SEGMENT)?;
    payload.iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at % 251) as u8);
    SplicePipe::new()?.send(socket.as_fd(), &payload)?;
    let third = identification(socket, &own)?;
    let spliced = payload.chunks(SEGMENT);
    for expected in std::iter::once(BYTE).chain(spliced).chain([BYTE]) {
        receive(&sink, expected)?;
    }
    if own.is_ipv4() && third != first.wrapping_add(2) {
        return Err(Errno::OPNOTSUPP.into());
    }
    socket.connect(&(*peer).into())?;
    Ok(identification(socket, &own)?.wrapping_add(1))
}

/// Receives a packet, which must be as expected.
fn receive(sink: &UdpSocket, expected: &[u8]) -> io::Result<()> {
    let (mut room, mut ready) = ([0; 2 * SEGMENT], [PollFd::new(sink, PollFlags::IN)]);
    poll(&mut ready, Some(&DELIVERY_TIMEOUT))?;
    let len = sink.recv(&mut room)?;
    if room[..len] == *expected { Ok(()) } else { Err(Errno::OPNOTSUPP.into()) }
}

/// The payload of a packet that only asks for an identification.
const BYTE: &[u8] = &[0];

/// The IPv4 identification of a packet of one byte that is sent to `own`, an address of this host; 0 with IPv6.
fn identification(socket: &Socket, own: &SocketAddr) -> io::Result<u16> {
    let SocketAddr::V4(_) = own else {
        socket.send_to(BYTE, &(*own).into())?;
        return Ok(0);
    };
    let stamps = libc::SOF_TIMESTAMPING_TX_SCHED | libc::SOF_TIMESTAMPING_SOFTWARE;
    option::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps as i32)?;
    let sent = socket.send_to(BYTE, &(*own).into());
    option::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0)?;
    sent?;
    let mut frame = [0; 128];
    let (_, len) = recv(socket, &mut frame, RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT)?;
    let id = frame.get(..len).and_then(|frame| read_identification(frame, own));
    id.ok_or_else(|| Errno::OPNOTSUPP.into())
}

/// The identification of an IPv4 packet to `dst` with one byte of UDP payload, behind any header of the link.
fn read_identification(frame: &[u8], dst: &SocketAddr) -> Option<u16> {
    const IP: usize = 20;
    const UDP: usize = 8;
    let start = frame.len().checked_sub(IP + UDP + 1)?;
    let packet = &frame[start..];
    let address: [u8; 4] = *packet[16..].first_chunk()?;
    let port = u16::from_be_bytes(*packet[IP + 2..].first_chunk()?);
    let ours = packet[0] == 0x45
        && packet[9] == libc::IPPROTO_UDP as u8
        && IpAddr::from(address) == dst.ip()
        && port == dst.port();
    ours.then(|| u16::from_be_bytes([packet[4], packet[5]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(link: usize) -> Vec<u8> {
        let mut frame = vec![0xee; link];
        frame.extend([0x45, 0, 0, 29, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0xc0, 0, 0x12, 0xb7, 0, 9, 0, 0, b's']);
        frame
    }

    #[test]
    fn the_identification_is_read_behind_any_link_header() {
        let dst = "10.0.0.2:4791".parse().expect("an address");
        for link in [0, 14, 18] {
            assert_eq!(read_identification(&frame(link), &dst), Some(0x1234));
        }
    }

    #[test]
    fn what_is_not_the_packet_has_none() {
        let dst = "10.0.0.2:4791".parse().expect("an address");
        let other = "10.0.0.3:4791".parse().expect("an address");
        assert_eq!(read_identification(&frame(14), &other), None);
        for len in 0..28 {
            assert_eq!(read_identification(&frame(0)[..len], &dst), None);
        }
        for at in [0, 9, 16, 22] {
            let mut other = frame(0);
            other[at] ^= 1;
            assert_eq!(read_identification(&other, &dst), None, "byte {at}");
        }
    }
}
