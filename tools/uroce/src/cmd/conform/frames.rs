//! Frames of the tester's own, through an AF_PACKET socket.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use uroce_conform::{FrameEnds, WireError};
use uroce_link::{Neighbours, Resolution, interface_of};
use uroce_packet::{FramePortError, FrameSender, Offload};

/// How long the next hop may take to answer ARP or neighbour discovery.
const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait before the kernel is asked again whether it has answered.
const PAUSE: Duration = Duration::from_millis(2);

/// The interface towards the NIC under test.
#[derive(Debug)]
pub struct Frames {
    sender: FrameSender,
    /// Addresses of its frames.
    pub ends: FrameEnds,
}

impl Frames {
    /// Opens the interface by which packets from `local` to `peer` leave.
    ///
    /// # Errors
    /// The right to send frames is missing, or there is no way of Ethernet to the peer: a sentence about it.
    pub fn open(local: SocketAddr, peer: IpAddr) -> Result<Frames, String> {
        let home = interface_of(local.ip());
        let neighbours = home.and_then(|home| Neighbours::open(local.ip(), home));
        let mut neighbours = neighbours.map_err(|error| error.to_string())?;
        let end = Instant::now() + NEIGHBOUR_TIMEOUT;
        let hop = loop {
            match neighbours.resolve(peer, Instant::now()).0 {
                Resolution::Ready(hop) => break hop,
                Resolution::Unreachable(why) => return Err(format!("no way to {peer}: {why}")),
                Resolution::Pending if Instant::now() > end => {
                    return Err(format!("no hardware address of the way to {peer} is known"));
                }
                Resolution::Pending => std::thread::sleep(PAUSE),
            }
        };
        let sender = FrameSender::open(hop.interface).map_err(|error| sentence(&error))?;
        let ends = FrameEnds { source: hop.src, destination: hop.dst, udp_port: local.port() };
        Ok(Frames { sender, ends })
    }

    /// Sends a frame as it is.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), WireError> {
        let before = self.sender.lost();
        let sent = self.sender.send(&Offload::NONE, frame);
        sent.map_err(|error| WireError(error.to_string()))?;
        match self.sender.lost() == before {
            true => Ok(()),
            false => {
                let why = self.sender.last_problem();
                Err(WireError(why.unwrap_or_else(|| "the interface takes no frame now".to_owned())))
            }
        }
    }
}

fn sentence(error: &FramePortError) -> String {
    match error {
        FramePortError::NotPermitted => "the tester has no right to send any (CAP_NET_RAW): run \
                                         it as root, or with that capability"
            .to_owned(),
        other => other.to_string(),
    }
}
