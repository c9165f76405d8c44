//! The tester's end of the wire: a UDP datapath.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_conform::{FrameEnds, Incoming, Outgoing, Wire, WireError};
use uroce_datapath::{Datapath, IpId, Route, RxPacket};
use uroce_udp::{UdpConfig, UdpDatapath};
use uroce_wire::{Flow, ICRC_LEN, IcrcVerdict, icrc, recover, verify};

use super::frames::Frames;
use super::recording::Recording;
use crate::failure::Failure;

/// Packets taken at a time.
const BATCH: usize = 64;
/// Hops that packets may take.
const HOPS: u8 = 64;

/// How long the kernel may have no room for packets, and how often it is asked then.
const FULL: Duration = Duration::from_secs(1);
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// A UDP socket on the RoCE port of one address.
pub struct UdpWire {
    datapath: UdpDatapath,
    recording: Option<Recording>,
    local: SocketAddr,
    waiter: OwnedFd,
    start: Instant,
    came: VecDeque<Incoming>,
    /// Frames to the NIC under test, or why there are none; opened when they are first asked for.
    frames: Option<Result<Frames, String>>,
}

impl UdpWire {
    /// Takes the RoCE port of an address of this machine, and records what passes.
    ///
    /// # Errors
    /// Exit 3: it is not ours, or the port is taken; or the capture cannot be written.
    pub fn open(address: IpAddr, port: u16, pcap: Option<&Path>) -> Result<UdpWire, Failure> {
        let config = UdpConfig { offload: false, ..UdpConfig::new(SocketAddr::new(address, port)) };
        let taken = |error: &dyn std::fmt::Display| {
            Failure::environment(error).help(
                "the tester needs UDP 4791 of an address for itself: --address names another one",
            )
        };
        let datapath = UdpDatapath::bind(&config).map_err(|error| taken(&error))?;
        let waiter = datapath.waiter().map_err(|error| taken(&error))?;
        let local = datapath.local();
        let recording = pcap.map(|path| Recording::create(path, local)).transpose()?;
        Ok(UdpWire {
            recording,
            datapath,
            local,
            waiter,
            start: Instant::now(),
            came: VecDeque::new(),
            frames: None,
        })
    }

    fn fetch(&mut self) -> Result<(), WireError> {
        let Self { came, recording, datapath, .. } = self;
        let mut recorded = Ok(());
        let mut sink = |packet: RxPacket<'_>| {
            came.push_back(incoming(&packet));
            if let Some(recording) = recording.as_mut().filter(|_| recorded.is_ok()) {
                recorded = recording.received(&packet);
            }
        };
        datapath.recv(BATCH, &mut sink).map_err(failed)?;
        recorded.map_err(failed)
    }

    /// Hands what was written to the kernel, which may have no room for a moment.
    fn flush(&mut self) -> Result<(), WireError> {
        let end = Instant::now() + FULL;
        loop {
            let flushed = self.datapath.flush().map_err(failed)?;
            if flushed.dropped > 0 {
                return Err(failed(self.datapath.last_problem().unwrap_or_default()));
            }
            if !flushed.blocked {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(failed("the kernel takes no packets"));
            }
            std::thread::sleep(FULL_PAUSE);
        }
    }

    fn sleep(&mut self, wait: Duration) -> Result<(), WireError> {
        if self.datapath.arm() {
            return Ok(());
        }
        let time = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let mut entry = [PollFd::new(&self.waiter, PollFlags::IN)];
        match poll(&mut entry, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Wire for UdpWire {
    fn address(&self) -> IpAddr {
        self.local.ip()
    }

    fn begin(&mut self, case: &str) {
        if let Some(recording) = &mut self.recording {
            recording.begin(case);
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn send(&mut self, packet: &Outgoing<'_>) -> Result<Vec<u8>, WireError> {
        let dst = SocketAddr::new(packet.to, self.local.port());
        let source_port = self.datapath.source_port(packet.source_port);
        let src = SocketAddr::new(self.local.ip(), source_port);
        let route = Route { src, dst, hop_limit: HOPS, traffic_class: packet.traffic_class };
        let flow =
            Flow { src: src.ip(), dst: dst.ip(), src_port: source_port, dst_port: dst.port() };
        let length = packet.covered.len() + ICRC_LEN;
        let space = self.datapath.tx_space().and_then(|space| space.get_mut(..length));
        let space = space.ok_or_else(|| failed("the packet is longer than a packet can be"))?;
        space[..packet.covered.len()].copy_from_slice(packet.covered);
        let (mut sent, mut id) = (Vec::new(), 0);
        self.datapath.tx_commit(&route, length, &mut |ip_id, bytes| {
            if let Some((covered, place)) = bytes.split_last_chunk_mut::<ICRC_LEN>() {
                *place = (packet.damage)(icrc(&flow, ip_id, covered), covered).to_le_bytes();
            }
            (sent, id) = (bytes.to_vec(), ip_id);
        });
        if let Some(recording) = &mut self.recording {
            recording.sent(&route, id, &sent).map_err(failed)?;
        }
        self.flush()?;
        Ok(sent)
    }

    fn overflows(&self) -> u64 {
        self.datapath.stats().rx_dropped
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Incoming>, WireError> {
        // One after the other, so that a flood waits in the socket and not here.
        if self.came.is_empty() {
            self.fetch()?;
        }
        if self.came.is_empty() && !wait.is_zero() {
            self.sleep(wait)?;
            self.fetch()?;
        }
        Ok(self.came.pop_front())
    }

    fn frame_ends(&mut self, to: IpAddr) -> Result<FrameEnds, WireError> {
        let local = self.local;
        match self.frames.get_or_insert_with(|| Frames::open(local, to)) {
            Ok(frames) => Ok(frames.ends),
            Err(why) => Err(failed(why)),
        }
    }

    fn send_frame(&mut self, frame: &[u8]) -> Result<(), WireError> {
        let Some(Ok(frames)) = &mut self.frames else {
            return Err(failed("no interface is open to send frames"));
        };
        frames.send(frame)?;
        match &mut self.recording {
            Some(recording) => recording.frame(frame).map_err(failed),
            None => Ok(()),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> WireError {
    WireError(error.to_string())
}

fn incoming(packet: &RxPacket<'_>) -> Incoming {
    let flow = Flow {
        src: packet.src.ip(),
        dst: packet.dst.ip(),
        src_port: packet.src.port(),
        dst_port: packet.dst.port(),
    };
    let icrc_ok = match packet.ip_id {
        IpId::Known(id) => verify(&flow, id, packet.payload),
        IpId::Hidden(_) => recover(&flow, &[0], packet.payload) != IcrcVerdict::Bad,
        IpId::NotPresent => verify(&flow, 0, packet.payload),
    };
    Incoming {
        from: packet.src.ip(),
        source_port: packet.src.port(),
        traffic_class: packet.traffic_class,
        bytes: packet.payload.to_vec(),
        icrc_ok,
    }
}
