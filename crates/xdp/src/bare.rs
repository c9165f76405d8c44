//! The rings with nothing around them: what a link can carry at best.
//!
//! A yardstick for the datapath above: same sockets, same packet size, but every packet is the same
//! bytes, and what arrives is only counted.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use uroce_datapath::{Datapath, Route};
use uroce_link::Way;

use crate::config::XdpConfig;
use crate::datapath::XdpDatapath;
use crate::error::XdpError;
use crate::queue::Queue;
use crate::tx_queue::PAYLOAD_AT;

/// How long a sender waits for the peer's hardware address.
const RESOLUTION_TIMEOUT: Duration = Duration::from_secs(3);

/// One end: it sends copies of one packet to its peer and counts what arrives.
#[derive(Debug)]
pub struct BareEnd {
    datapath: XdpDatapath,
    /// The packet with all its headers.
    frame: Vec<u8>,
}

impl BareEnd {
    /// Opens an end that sends UDP payloads of `payload` zero bytes to `peer`.
    ///
    /// # Errors
    ///
    /// As [`XdpDatapath::open`]; or the peer does not answer within three seconds.
    pub fn open(config: &XdpConfig, peer: SocketAddr, payload: usize) -> Result<Self, XdpError> {
        let mut datapath = XdpDatapath::open(config)?;
        let src = SocketAddr::new(datapath.local().ip(), datapath.source_port(0xC000));
        let route = Route { src, dst: peer, hop_limit: 64, traffic_class: 0 };
        let headers = headers(&mut datapath, &route, payload)
            .map_err(|source| XdpError::System { what: "finding the peer", source })?;
        let mut frame = headers;
        frame.resize(frame.len() + payload, 0);
        datapath.queues.iter_mut().for_each(Queue::keep_nothing);
        datapath.queues[0].for_every_slot(|space| {
            space[PAYLOAD_AT..PAYLOAD_AT + frame.len()].copy_from_slice(&frame);
        });
        Ok(Self { datapath, frame })
    }

    /// Bytes of each packet on the link, Ethernet header included.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// Sends up to `packets`; returns how many went into the ring.
    ///
    /// # Errors
    ///
    /// When the interface is down.
    pub fn send(&mut self, packets: usize) -> io::Result<usize> {
        let queue = &mut self.datapath.queues[0];
        let mut sent = 0;
        while sent < packets
            && let Some(slot) = queue.slot()
        {
            queue.send(slot, PAYLOAD_AT..PAYLOAD_AT + self.frame.len());
            sent += 1;
        }
        queue.flush()?;
        Ok(sent)
    }

    /// Counts up to `limit` packets that have arrived.
    pub fn receive(&mut self, limit: usize) -> usize {
        let mut count = 0;
        for queue in &mut self.datapath.queues {
            if count < limit {
                queue.receive(&mut |_| {
                    count += 1;
                    count < limit
                });
            }
        }
        count
    }
}

/// The headers of packets along `route`, once the neighbour is known.
fn headers(datapath: &mut XdpDatapath, route: &Route, payload: usize) -> io::Result<Vec<u8>> {
    let end = Instant::now() + RESOLUTION_TIMEOUT;
    loop {
        let now = Instant::now();
        match datapath.tx_queue.router.find(route, now) {
            Way::Out(out) => {
                let mut bytes = vec![0; out.headers.len()];
                let fits = out.headers.write(0, payload, &mut bytes).is_some()
                    && payload + route.header_bytes() <= out.hop.mtu;
                return fits.then_some(bytes).ok_or_else(|| io::ErrorKind::InvalidInput.into());
            }
            Way::None(reason) => return Err(io::Error::other(reason.to_string())),
            Way::Pending if now > end => return Err(io::ErrorKind::TimedOut.into()),
            Way::Pending => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
