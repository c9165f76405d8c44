//! Frames on their way from the kernel.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use socket2::Socket;
use uroce_datapath::{DatapathStats, RxPacket};
use uroce_link::{FrameReader, Refused, Segments};
use uroce_wire::DropReason;

use super::vnet::{Shape, split};
use crate::sys::packet::{FrameRoom, drops};

/// Where the next packet is that is to be handed over.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Frames that the last system call brought.
    frames: usize,
    /// Index of the frame.
    frame: usize,
    /// Index of the packet within the frame.
    packet: usize,
    /// By how much the identification grows from packet to packet, once it is known.
    id_step: Option<u16>,
}

/// The packet socket that frames arrive at.
#[derive(Debug)]
pub(super) struct Receiver {
    socket: Arc<Socket>,
    pub(super) reader: FrameReader,
    room: FrameRoom,
    place: Place,
    batch: usize,
    /// Frames that this call has dropped.
    useless: usize,
}

impl Receiver {
    /// Receives up to `batch` frames in one system call. `headers` is the length of all headers in
    /// front of a payload: the payload then starts a cache line.
    pub(super) fn new(
        socket: Arc<Socket>,
        reader: FrameReader,
        batch: usize,
        headers: usize,
    ) -> Self {
        let room = FrameRoom::new(batch, headers);
        Self { socket, reader, room, place: Place::default(), batch, useless: 0 }
    }

    pub(super) fn waiter(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Whether packets are in the buffers already.
    pub(super) fn has_more(&self) -> bool {
        self.place.frame < self.place.frames
    }

    /// Frames that found no room in the socket.
    pub(super) fn overflows(&self) -> u64 {
        drops(&self.socket)
    }

    /// Hands over up to `limit` packets; those that are dropped count, too, so that a flood of them has an end.
    pub(super) fn recv(
        &mut self,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> io::Result<usize> {
        self.useless = 0;
        let mut count = self.hand_over(limit, stats, sink);
        while count + self.useless < limit {
            let got = self.fill(stats)?;
            count += self.hand_over(limit - count, stats, sink);
            if got < self.batch {
                break;
            }
        }
        Ok(count)
    }

    /// Fetches frames into the buffers, which are empty; returns how many.
    fn fill(&mut self, stats: &mut DatapathStats) -> io::Result<usize> {
        stats.syscalls += 1;
        self.place = Place::default();
        match self.room.receive(self.socket.as_fd()) {
            Ok(frames) => self.place.frames = frames,
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN | Errno::INTR) => {}
                Some(Errno::BADF | Errno::NOTSOCK | Errno::FAULT) => return Err(error),
                // An interface went down, or a frame was of no shape that the kernel can describe.
                _ => stats.soft_errors += 1,
            },
        }
        Ok(self.place.frames)
    }

    /// Hands over up to `limit` packets from the buffers.
    fn hand_over(
        &mut self,
        limit: usize,
        stats: &mut DatapathStats,
        sink: &mut dyn FnMut(RxPacket<'_>),
    ) -> usize {
        let mut count = 0;
        while count < limit && self.place.frame < self.place.frames {
            let Some(packets) = self.open(stats) else {
                self.place =
                    Place { frame: self.place.frame + 1, packet: 0, id_step: None, ..self.place };
                self.useless += 1;
                continue;
            };
            let step = self.place.id_step.unwrap_or_else(|| packets.id_step());
            let mut index = self.place.packet;
            while count < limit
                && let Some(packet) = packets.get(index, step)
            {
                let following = packets.following(index, limit - count - 1, step);
                sink(RxPacket { following: following.as_ref(), ..packet });
                let all = 1 + following.map_or(0, |following| following.taken());
                stats.count_received_packets(all, all * packet.payload.len());
                (index, count) = (index + all, count + all);
            }
            let (frame, packet, id_step) = match packets.has(index) {
                true => (self.place.frame, index, Some(step)),
                false => (self.place.frame + 1, 0, None),
            };
            self.place = Place { frame, packet, id_step, ..self.place };
        }
        count
    }

    /// The packets of the frame at the current place; `None` when it is dropped.
    #[inline]
    fn open(&self, stats: &mut DatapathStats) -> Option<Segments<'_>> {
        let Some(bytes) = self.room.frame(self.place.frame) else {
            stats.rx_truncated += 1;
            return None;
        };
        let opened = read(&self.reader, bytes);
        opened.map_err(|refused| refused.count(stats)).ok()
    }
}

/// The packets of a frame behind its virtio-net header.
#[inline]
fn read<'a>(reader: &FrameReader, bytes: &'a [u8]) -> Result<Segments<'a>, Refused> {
    let (segment, frame) = match split(bytes) {
        Some((Shape::Whole, frame)) => (usize::MAX, frame),
        Some((Shape::Segments(segment), frame)) => (segment, frame),
        Some((Shape::Foreign, _)) => return Err(Refused::Malformed(DropReason::NotRoce)),
        None => return Err(Refused::Malformed(DropReason::TooShort)),
    };
    Ok(Segments::new(reader.read(frame)?, segment))
}

#[cfg(test)]
mod tests {
    use uroce_wire::{Ipv4, UdpPorts, write_ethernet, write_ipv4_udp};

    use super::super::vnet::{PLAIN, segmented};
    use super::*;

    /// A frame to 10.0.0.1 with 8 bytes behind UDP.
    fn frame() -> Vec<u8> {
        let mut bytes = vec![0; 50];
        let (src, dst) = ([10, 0, 0, 9].into(), [10, 0, 0, 1].into());
        let ip = Ipv4 { src, dst, id: 1, ttl: 64, tos: 0, df: true };
        write_ethernet(&mut bytes, [2; 6], [4; 6], None, 0x0800).expect("room");
        let ports = UdpPorts { src: 50_000, dst: 4791 };
        write_ipv4_udp(&mut bytes[14..], &ip, ports, 8).expect("room");
        bytes
    }

    #[test]
    fn e41_each_malformed_frame_is_counted_under_its_reason() {
        let reader = FrameReader::new("10.0.0.1:4791".parse().expect("address"));
        let frame = frame();
        let mut stats = DatapathStats::default();
        let mut drop = |header: &[u8], change: fn(&mut Vec<u8>)| {
            let mut frame = frame.clone();
            change(&mut frame);
            let bytes = [header, &frame].concat();
            match read(&reader, &bytes) {
                Ok(packets) => assert!(packets.has(0) && !packets.has(1)),
                Err(refused) => refused.count(&mut stats),
            }
            stats
        };
        assert_eq!(drop(&PLAIN, |_| {}).rx_dropped, 0);
        assert_eq!(drop(&PLAIN, |f| f[20] |= 0x20).rx_refused.fragment, 1);
        assert_eq!(drop(&PLAIN, |f| f[14] = 0x46).rx_refused.ip_options, 1);
        assert_eq!(drop(&PLAIN, |f| f[39] += 1).rx_refused.bad_length, 1);
        assert_eq!(drop(&PLAIN, |f| f.truncate(20)).rx_refused.too_short, 1);
        assert_eq!(drop(&PLAIN, |f| f[23] = 6).rx_refused.not_roce, 1);
        assert_eq!(drop(&segmented(42, 34, 0), |_| {}).rx_refused.not_roce, 2);
        let all = drop(&PLAIN, |f| f[33] = 2);
        assert_eq!((all.rx_dropped, all.refused().iter().map(|(_, n)| n).sum()), (7, 6u64));
    }
}
