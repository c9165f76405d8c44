//! What this kernel offers to UDP sockets, for users who ask why something does not work.
//!
//! Everything here only looks: nothing of the host is changed, and no packet leaves it.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use libc::c_int;
use uroce_host::option;

use crate::UringError;
use crate::sys::uring::RecvRing;
use crate::udp::connected::connect_after_trial;
use crate::udp::socket;

/// Bytes of a packet of the self-test.
const SEGMENT: usize = 500;

/// Packets of the self-test.
const SEGMENTS: usize = 4;

/// Sends a GSO batch of four packets to ourselves and receives four (UDP_SEGMENT, Linux 4.18).
///
/// # Errors
///
/// When the kernel cannot segment GSO batches, or the received packets are not those that were
/// sent.
pub fn udp_segment() -> io::Result<()> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    option::set(&sender, libc::SOL_UDP, libc::UDP_SEGMENT, SEGMENT as c_int)?;
    sender.send_to(&[7; SEGMENT * SEGMENTS], receiver.local_addr()?)?;
    let mut room = [0; SEGMENT * SEGMENTS];
    for _ in 0..SEGMENTS {
        let length = receiver.recv(&mut room)?;
        if length != SEGMENT {
            let text = format!("a packet of {SEGMENT} bytes arrived with {length}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    Ok(())
}

/// Whether a socket can receive GSO batches as one (UDP_GRO, Linux 5.0).
///
/// # Errors
///
/// When the kernel refuses.
pub fn udp_gro() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    option::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Sends packets to ourselves out of a pipe, and looks at how they were numbered (splice to UDP sockets, Linux 6.5).
///
/// # Errors
///
/// When the kernel does not send them so, or does not show the header of a packet that was sent
/// (`net.core.tstamp_allow_data` is 0), and when the loopback interface is down.
pub fn udp_splice() -> io::Result<()> {
    let (peer, any) = ((Ipv4Addr::LOCALHOST, 9).into(), (Ipv4Addr::LOCALHOST, 0).into());
    let socket = socket::open(&any, true)?;
    socket.bind(&any.into())?;
    connect_after_trial(&socket, &peer).map(drop)
}

/// Whether this process may use io_uring as [`UringDatapath`](crate::UringDatapath) does.
///
/// # Errors
///
/// Why not, and what to do about it.
pub fn uring() -> Result<(), UringError> {
    RecvRing::new(2, SEGMENT).map(drop).map_err(UringError::explain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_segments_merges_and_splices() {
        udp_segment().expect("UDP_SEGMENT");
        udp_gro().expect("UDP_GRO");
        udp_splice().expect("splice");
    }
}
