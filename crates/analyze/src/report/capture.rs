//! What a capture holds, whatever it means.

use serde::Serialize;

use crate::{Encapsulation, Frame, FrameKind, IcrcStatus, Packet, Timestamp};

/// What was captured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CaptureSummary {
    /// Frames of any kind.
    pub frames: u64,
    /// Bytes of them on the wire.
    pub bytes: u64,
    /// Time of the earliest frame, nanoseconds since the start of 1970; `None` without frames.
    pub first_ns: Option<u64>,
    /// Time of the latest frame.
    pub last_ns: Option<u64>,
    /// Frames that a snap length cut.
    pub cut_frames: u64,
    /// InfiniBand packets in UDP.
    pub rocev2_packets: u64,
    /// InfiniBand packets in Ethernet.
    pub rocev1_packets: u64,
    /// InfiniBand packets behind a local route header.
    pub infiniband_packets: u64,
    /// Frames that segmentation offload made of several packets.
    pub batches: u64,
    /// Frames to the port of RoCE from which no packet can be read.
    pub malformed_frames: u64,
    /// What is wrong with the first of them.
    pub malformed_reason: Option<String>,
    /// Frames of iWARP.
    pub iwarp_frames: u64,
    /// Frames of other protocols.
    pub other_frames: u64,
    /// What the ICRCs say.
    pub icrc: IcrcCounts,
    /// Packets that comments of the file call dropped.
    pub dropped_packets: u64,
    /// PSNs that were acknowledged and never captured.
    pub lost_by_capture: u64,
    /// Packets that whoever captured had no room for, as the capture itself says.
    pub not_captured: u64,
    /// Packets of flows beyond those that are followed: nothing is known of them.
    pub untracked_packets: u64,
    /// Why the capture could not be read to its end.
    pub error: Option<String>,
}

/// Packets by what their ICRC says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct IcrcCounts {
    /// Right.
    pub right: u64,
    /// Right but for a header that was rewritten on the way.
    pub rewritten: u64,
    /// Wrong.
    pub wrong: u64,
    /// Not to be known: cut, or segmentation offload.
    pub not_checked: u64,
}

impl CaptureSummary {
    /// Packets that were read, however they were carried.
    pub const fn packets(&self) -> u64 {
        self.rocev2_packets + self.rocev1_packets + self.infiniband_packets
    }

    /// Counts a frame that is of this kind.
    #[inline]
    pub(super) fn note_frame(&mut self, frame: &Frame<'_>, kind: &FrameKind) {
        self.frames += 1;
        self.bytes += u64::from(frame.original_len);
        self.cut_frames += u64::from(frame.is_cut());
        self.note_time(frame.time);
        match kind {
            FrameKind::Roce { packets } => self.batches += u64::from(*packets > 1),
            FrameKind::RoceMalformed(why) => {
                self.malformed_frames += 1;
                let reason = || format!("frame {}: {why}", frame.number);
                self.malformed_reason.get_or_insert_with(reason);
            }
            FrameKind::Iwarp(_) => self.iwarp_frames += 1,
            FrameKind::Other => self.other_frames += 1,
        }
    }

    fn note_time(&mut self, time: Timestamp) {
        let time = time.as_nanos();
        self.first_ns = Some(self.first_ns.map_or(time, |first| first.min(time)));
        self.last_ns = Some(self.last_ns.map_or(time, |last| last.max(time)));
    }

    /// Counts a packet.
    #[inline]
    pub(super) fn note_packet(&mut self, packet: &Packet) {
        match packet.encapsulation {
            Encapsulation::RoceV2 => self.rocev2_packets += 1,
            Encapsulation::RoceV1 => self.rocev1_packets += 1,
            Encapsulation::Infiniband => self.infiniband_packets += 1,
        }
        match packet.icrc {
            IcrcStatus::Right => self.icrc.right += 1,
            IcrcStatus::Wrong { .. } => self.icrc.wrong += 1,
            IcrcStatus::NotChecked(_) => self.icrc.not_checked += 1,
            IcrcStatus::RightWithSourcePort(_) | IcrcStatus::RightWithIpId(_) => {
                self.icrc.rewritten += 1;
            }
        }
    }
}
