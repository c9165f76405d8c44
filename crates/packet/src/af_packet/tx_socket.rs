//! The packet socket that sends frames.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::io::Errno;
use socket2::Socket;
use uroce_datapath::Route;
use uroce_link::{Outbound, Router, Way};

use super::head::Head;
use super::problem::{Verdict, Why};
use crate::sys::packet::{OutFrame, send_frames};

/// Why a packet does not go to the kernel now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The next hop is being resolved.
    Pending,
    Never(Why),
}

/// Outcome of a packet that was offered alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    /// The kernel takes no more for now.
    Full,
    Stopped(Obstacle),
    /// The socket is unusable.
    Broken(Errno),
}

/// A transmit socket, and the headers for each route.
#[derive(Debug)]
pub(super) struct TxSocket {
    socket: Socket,
    router: Router,
    single: Head,
}

impl TxSocket {
    pub(super) fn new(socket: Socket, router: Router) -> Self {
        Self { socket, router, single: Head::EMPTY }
    }

    /// The headers and next hop for packets of `route` with up to `len` bytes of UDP payload.
    #[inline]
    pub(super) fn way(
        &mut self,
        route: &Route,
        len: usize,
        now: Instant,
    ) -> Result<&Outbound, Obstacle> {
        let len = len + route.header_bytes();
        match self.router.find(route, now) {
            Way::Out(out) if len <= out.hop.mtu => Ok(out),
            Way::Out(out) => Err(Obstacle::Never(Why::TooLong { len, mtu: out.hop.mtu })),
            Way::Pending => Err(Obstacle::Pending),
            Way::None(reason) => Err(Obstacle::Never(Why::Unreachable(reason))),
        }
    }

    /// Offers frames to the kernel; returns how many it took from the front.
    pub(super) fn send<'a>(&self, frames: impl Iterator<Item = OutFrame<'a>>) -> io::Result<usize> {
        send_frames(self.socket.as_fd(), frames)
    }

    /// Offers one packet.
    pub(super) fn send_one(
        &mut self,
        route: &Route,
        id: u16,
        packet: &[u8],
        now: Instant,
    ) -> Outcome {
        let out = match self.way(route, packet.len(), now) {
            Ok(out) => *out,
            Err(obstacle) => return Outcome::Stopped(obstacle),
        };
        self.single.fill(&out.headers, id, packet.len(), None);
        let frame = OutFrame {
            interface: out.hop.interface,
            ether_type: self.single.ether_type(),
            head: self.single.bytes(),
            payload: packet,
        };
        match self.send(std::iter::once(frame)) {
            Ok(1..) => Outcome::Sent,
            Ok(0) => Outcome::Full,
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                match Verdict::of(errno, false) {
                    Verdict::Wait | Verdict::Again => Outcome::Full,
                    Verdict::Broken => Outcome::Broken(errno),
                    Verdict::Cut | Verdict::Drop => {
                        Outcome::Stopped(Obstacle::Never(Why::Refused(errno)))
                    }
                }
            }
        }
    }
}
