//! What is recorded of a packet.

use std::time::{Duration, SystemTime};

use uroce_wire::{Flow, FlowIcrc, IcrcVerdict};

use super::block::{PcapBlocks, PcapRecord};
use super::file::PcapFile;
use super::frame::{self, Headers, MAX_HEADERS};
use crate::packet::{Fate, IpId, RxPacket};
use crate::route::Route;

/// Bytes of the longest payload that is expected: a jumbo frame's worth.
const LONGEST_PAYLOAD: usize = 9216;

/// Comment of a received packet whose identification is unknown.
const NO_ID: &str = "no IPv4 identification makes the ICRC right: recorded as 0";

/// Which way a captured packet went, as the capturing device saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It arrived.
    Inbound,
    /// It was sent.
    Outbound,
}

/// Makes blocks of packets.
pub(super) struct Recorder {
    pub(super) blocks: PcapBlocks,
    frame: Vec<u8>,
    icrc: FlowIcrc,
    /// The identification of the last packet that hid it.
    last_id: u16,
}

impl Recorder {
    pub(super) fn new(blocks: PcapBlocks) -> Self {
        let frame = Vec::with_capacity(MAX_HEADERS + LONGEST_PAYLOAD);
        Self { blocks, frame, icrc: FlowIcrc::default(), last_id: 0 }
    }

    /// Adds the packet; false if it cannot be one.
    fn packet(&mut self, at: &At, headers: &Headers, payload: &[u8], comments: &[&str]) -> bool {
        if frame::build(headers, payload, &mut self.frame).is_none() {
            return false;
        }
        self.put(at, comments);
        true
    }

    /// Adds a block of the frame.
    fn put(&mut self, at: &At, comments: &[&str]) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.blocks.packet(&PcapRecord {
            interface: at.interface,
            time: now.unwrap_or(Duration::ZERO),
            original_len: self.frame.len() as u32,
            direction: at.direction,
            data: &self.frame,
            comments,
        });
    }

    /// The identification that makes the ICRC right, where the datapath does not see it.
    fn id_of(&mut self, packet: &RxPacket<'_>) -> Option<u16> {
        let IpId::Hidden(place) = packet.ip_id else {
            return Some(packet.ip_id.known_or_zero());
        };
        let flow = Flow {
            src: packet.src.ip(),
            dst: packet.dst.ip(),
            src_port: packet.src.port(),
            dst_port: packet.dst.port(),
        };
        let likely = if place == 0 { self.last_id } else { self.last_id.wrapping_add(1) };
        match self.icrc.recover(&flow, &[likely], packet.payload) {
            IcrcVerdict::Predicted(id) | IcrcVerdict::Solved(id) => {
                self.last_id = id;
                Some(id)
            }
            IcrcVerdict::Valid => Some(0),
            IcrcVerdict::Bad => None,
        }
    }
}

/// Where a record belongs.
struct At {
    interface: u32,
    direction: Direction,
}

/// Records the packets of one interface of a [`PcapFile`].
#[derive(Debug, Clone)]
pub struct PcapWriter {
    file: PcapFile,
    interface: u32,
}

impl PcapWriter {
    pub(super) fn new(file: PcapFile, interface: u32) -> Self {
        Self { file, interface }
    }

    /// Records a packet that is sent along `route` with IPv4 identification `id`, and what there is to say
    /// about it.
    pub fn sent(&self, route: &Route, id: u16, payload: &[u8], comments: &[&str]) {
        let headers = Headers {
            src: route.src,
            dst: route.dst,
            traffic_class: route.traffic_class,
            hop_limit: route.hop_limit.max(1),
            id,
        };
        let at = self.at(Direction::Outbound);
        self.file.shared().record(|recorder| recorder.packet(&at, &headers, payload, comments));
    }

    /// Records a packet that arrived, and what became of it. Where the datapath does not see the IPv4
    /// identification it is the one that makes the ICRC right; if none does, 0, and a comment says so.
    pub fn received(&self, packet: &RxPacket<'_>, fate: Fate) {
        let at = self.at(Direction::Inbound);
        self.file.shared().record(|recorder| {
            let id = recorder.id_of(packet);
            let headers = Headers {
                src: packet.src,
                dst: packet.dst,
                traffic_class: packet.traffic_class,
                hop_limit: packet.hop_limit,
                id: id.unwrap_or(0),
            };
            let (what, reason) = match fate {
                Fate::Taken => (None, None),
                Fate::Dropped(reason) => (None, Some(reason)),
                Fate::Faulted { what, drop } => (Some(what), drop),
            };
            let reason = reason.map(|reason| format!("drop reason {reason}"));
            let no_id = id.is_none().then_some(NO_ID);
            let said = [what.as_deref(), reason.as_deref(), no_id];
            let comments: Vec<&str> = said.into_iter().flatten().collect();
            recorder.packet(&at, &headers, packet.payload, &comments)
        });
    }

    /// Records an Ethernet frame as it is, with comments.
    pub fn frame(&self, direction: Direction, frame: &[u8], comments: &[&str]) {
        let at = self.at(direction);
        self.file.shared().record(|recorder| {
            recorder.frame.clear();
            recorder.frame.extend_from_slice(frame);
            recorder.put(&at, comments);
            true
        });
    }

    /// The file this interface belongs to.
    #[must_use]
    pub fn file(&self) -> &PcapFile {
        &self.file
    }

    fn at(&self, direction: Direction) -> At {
        At { interface: self.interface, direction }
    }
}
