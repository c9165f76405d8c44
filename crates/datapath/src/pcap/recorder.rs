//! From packets to blocks of a capture.

use std::time::{Duration, SystemTime};

use uroce_wire::{Flow, FlowIcrc, IcrcVerdict};

use super::block::{PcapBlocks, PcapRecord, PcapStatistics};
use super::direction::Direction;
use super::frame::{self, Headers, MAX_HEADERS};
use crate::packet::{IpId, RxPacket};

/// LINKTYPE_ETHERNET of libpcap.
const ETHERNET: u16 = 1;

/// Bytes of the longest payload that is expected: a jumbo frame's worth.
const LONGEST_PAYLOAD: usize = 9216;

/// Packets of an interface.
#[derive(Debug, Clone, Copy, Default)]
struct Recorded {
    /// In the capture.
    packets: u64,
    /// Not in the capture.
    lost: u64,
    /// Of those, since the last one that is.
    lost_since: u64,
}

/// Makes blocks of packets.
pub(super) struct Recorder {
    pub(super) blocks: PcapBlocks,
    frame: Vec<u8>,
    icrc: FlowIcrc,
    /// The identification of the last packet that hid it.
    last_id: u16,
    interfaces: Vec<Recorded>,
}

impl Recorder {
    pub(super) fn new(blocks: PcapBlocks) -> Self {
        let frame = Vec::with_capacity(MAX_HEADERS + LONGEST_PAYLOAD);
        Self { blocks, frame, icrc: FlowIcrc::default(), last_id: 0, interfaces: Vec::new() }
    }

    /// Adds an interface with that name and returns its number.
    pub(super) fn interface(&mut self, name: &str) -> u32 {
        self.blocks.interface(name, ETHERNET, 0);
        self.interfaces.push(Recorded::default());
        (self.interfaces.len() - 1) as u32
    }

    /// A packet of the interface is not recorded: the next one will tell of it, and the end.
    pub(super) fn count_lost(&mut self, interface: u32) {
        let interface = &mut self.interfaces[interface as usize];
        interface.lost += 1;
        interface.lost_since += 1;
    }

    /// Adds what the end of the capture tells of interfaces with packets that are not in it.
    pub(super) fn end(&mut self) {
        let Self { interfaces, blocks, .. } = self;
        for (number, interface) in interfaces.iter().enumerate() {
            let Recorded { packets, lost, .. } = *interface;
            if lost > 0 {
                blocks.statistics(&PcapStatistics {
                    interface: number as u32,
                    time: now(),
                    received: packets + lost,
                    dropped: lost,
                    comments: &[],
                });
            }
        }
    }

    /// Adds the packet; false if it cannot be one.
    pub(super) fn packet(
        &mut self,
        at: &At,
        headers: &Headers,
        payload: &[u8],
        comments: &[&str],
    ) -> bool {
        if frame::build(headers, payload, &mut self.frame).is_none() {
            return false;
        }
        self.put(at, comments);
        true
    }

    /// Adds an Ethernet frame as it is.
    pub(super) fn whole(&mut self, at: &At, frame: &[u8], comments: &[&str]) {
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        self.put(at, comments);
    }

    /// Adds a block of the frame.
    fn put(&mut self, at: &At, comments: &[&str]) {
        let interface = &mut self.interfaces[at.interface as usize];
        interface.packets += 1;
        self.blocks.packet(&PcapRecord {
            interface: at.interface,
            time: now(),
            original_len: self.frame.len() as u32,
            direction: at.direction,
            data: &self.frame,
            lost: std::mem::take(&mut interface.lost_since),
            comments,
        });
    }

    /// The identification that makes the ICRC right, where the datapath does not see it.
    pub(super) fn id_of(&mut self, packet: &RxPacket<'_>) -> Option<u16> {
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

/// Time since the start of 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// Where a record belongs.
pub(super) struct At {
    pub(super) interface: u32,
    pub(super) direction: Direction,
}
