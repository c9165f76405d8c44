//! Frames as the kernel lays them out in a receive ring.

use std::mem::offset_of;
use std::time::Duration;

use libc::{sockaddr_ll, tpacket_hdr_variant1, tpacket3_hdr};
use uroce_datapath::Direction;

/// Kinds of interfaces whose frames begin with an Ethernet header (linux/if_arp.h).
pub(super) const ETHERNET: u16 = libc::ARPHRD_ETHER;
pub(super) const LOOPBACK: u16 = libc::ARPHRD_LOOPBACK;

/// Kinds of interfaces whose frames begin with an IP header: TUN, WireGuard, and tunnels.
pub(super) const RAW_IP: [u16; 6] = [
    libc::ARPHRD_NONE,
    libc::ARPHRD_TUNNEL,
    libc::ARPHRD_TUNNEL6,
    libc::ARPHRD_SIT,
    libc::ARPHRD_IPGRE,
    ARPHRD_IP6GRE,
];
const ARPHRD_IP6GRE: u16 = 823;

/// LINKTYPE_ETHERNET and LINKTYPE_RAW of libpcap.
const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_RAW: u16 = 101;

/// Where the address of a frame's interface stands behind the header.
const ADDRESS: usize = size_of::<tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// Bytes of the two addresses in front of a VLAN tag, and of the tag.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// The tag that the kernel means if it does not say (802.1Q).
const DEFAULT_TAG: u16 = 0x8100;

/// One captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// The kernel's number of the interface.
    pub interface: u32,
    /// What it begins with, as libpcap numbers it: 1 for Ethernet, 101 for an IP header.
    pub link_type: u16,
    /// When it passed, since the start of 1970 (UTC).
    pub time: Duration,
    /// Which way it went.
    pub direction: Direction,
    /// Its length on the wire. A batch that segmentation offload has not cut up yet is one frame.
    pub original_len: u32,
    /// The frame, with its VLAN tag; as much as the snap length leaves of it.
    pub data: &'a [u8],
}

/// What the kernel says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Distance to the next header; 0 behind the last one.
    next: usize,
    start: usize,
    captured: usize,
    original_len: u32,
    time: Duration,
    interface: u32,
    hardware: u16,
    outgoing: bool,
    /// Protocol and contents of a VLAN tag that was taken out of the frame.
    tag: Option<[u16; 2]>,
}

impl FrameHeader {
    /// Reads the header at `at` of a block; `None` if it, or the frame, is not inside.
    pub(super) fn read(block: &[u8], at: usize) -> Option<Self> {
        let header = block.get(at..)?;
        let seconds = word(header, offset_of!(tpacket3_hdr, tp_sec))?;
        let nanoseconds = word(header, offset_of!(tpacket3_hdr, tp_nsec))?;
        let start = at + usize::from(half(header, offset_of!(tpacket3_hdr, tp_mac))?);
        let captured = word(header, offset_of!(tpacket3_hdr, tp_snaplen))? as usize;
        let packet_type = *header.get(ADDRESS + offset_of!(sockaddr_ll, sll_pkttype))?;
        block.get(start..start.checked_add(captured)?)?;
        Some(Self {
            next: word(header, offset_of!(tpacket3_hdr, tp_next_offset))? as usize,
            start,
            captured,
            original_len: word(header, offset_of!(tpacket3_hdr, tp_len))?,
            time: Duration::from_secs(seconds.into()) + Duration::from_nanos(nanoseconds.into()),
            interface: word(header, ADDRESS + offset_of!(sockaddr_ll, sll_ifindex))?,
            hardware: half(header, ADDRESS + offset_of!(sockaddr_ll, sll_hatype))?,
            outgoing: packet_type == libc::PACKET_OUTGOING,
            tag: vlan_tag(header)?,
        })
    }

    /// Where the next header is, if there is one behind that at `at`.
    pub(super) fn next(&self, at: usize) -> Option<usize> {
        if self.next == 0 { None } else { at.checked_add(self.next) }
    }
}

/// The tag that was taken out, if one was; the outer `None` for a header that is cut.
fn vlan_tag(header: &[u8]) -> Option<Option<[u16; 2]>> {
    const VARIANT: usize = offset_of!(tpacket3_hdr, hv1);
    let status = word(header, offset_of!(tpacket3_hdr, tp_status))?;
    let contents = word(header, VARIANT + offset_of!(tpacket_hdr_variant1, tp_vlan_tci))?;
    let kind = half(header, VARIANT + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid))?;
    let kind = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { DEFAULT_TAG } else { kind };
    let is_tagged = status & libc::TP_STATUS_VLAN_VALID != 0;
    Some(is_tagged.then_some([kind, contents as u16]))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// Puts VLAN tags back into frames, where they were on the wire.
#[derive(Debug)]
pub(super) struct Untagged {
    /// The frame with its tag.
    whole: Vec<u8>,
}

impl Untagged {
    pub(super) fn new() -> Self {
        Self { whole: Vec::with_capacity(crate::sys::rx_ring::BLOCK) }
    }

    /// The frame that the header describes.
    pub(super) fn frame<'a>(
        &'a mut self,
        header: &FrameHeader,
        block: &'a [u8],
    ) -> CapturedFrame<'a> {
        let stripped = &block[header.start..header.start + header.captured];
        let (data, more) = match header.tag {
            Some(tag) if stripped.len() >= ADDRESSES => (self.tagged(tag, stripped), TAG as u32),
            _ => (stripped, 0),
        };
        let has_ethernet = matches!(header.hardware, ETHERNET | LOOPBACK);
        CapturedFrame {
            interface: header.interface,
            link_type: if has_ethernet { LINKTYPE_ETHERNET } else { LINKTYPE_RAW },
            time: header.time,
            direction: if header.outgoing { Direction::Outbound } else { Direction::Inbound },
            original_len: header.original_len.saturating_add(more),
            data,
        }
    }

    fn tagged(&mut self, tag: [u16; 2], stripped: &[u8]) -> &[u8] {
        let (addresses, rest) = stripped.split_at(ADDRESSES);
        self.whole.clear();
        self.whole.extend_from_slice(addresses);
        tag.iter().for_each(|word| self.whole.extend_from_slice(&word.to_be_bytes()));
        self.whole.extend_from_slice(rest);
        &self.whole
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: &[u8] = b"ddddddssssss\x08\x00payload";

    /// A block with one frame, its header at 64.
    fn block(status: u32, packet_type: u8) -> Vec<u8> {
        let mut block = vec![0; 64];
        let words = [0, 17, 5, FRAME.len() as u32, 1000, status];
        words.iter().for_each(|word: &u32| block.extend(word.to_ne_bytes()));
        block.extend(96u16.to_ne_bytes());
        block.extend([0; 6]);
        block.extend(0x2007u32.to_ne_bytes());
        block.extend(0x88a8u16.to_ne_bytes());
        block.resize(64 + ADDRESS, 0);
        block.extend([0; 4]);
        block.extend(3u32.to_ne_bytes());
        block.extend(ETHERNET.to_ne_bytes());
        block.push(packet_type);
        block.resize(64 + 96, 0);
        block.extend_from_slice(FRAME);
        block
    }

    #[test]
    fn a_frame_is_read_as_the_kernel_wrote_it() {
        let block = block(0, libc::PACKET_OUTGOING);
        let header = FrameHeader::read(&block, 64).expect("whole");
        assert_eq!(header.next(64), None);
        let mut untagged = Untagged::new();
        let wanted = CapturedFrame {
            interface: 3,
            link_type: LINKTYPE_ETHERNET,
            time: Duration::new(17, 5),
            direction: Direction::Outbound,
            original_len: 1000,
            data: FRAME,
        };
        assert_eq!(untagged.frame(&header, &block), wanted);
    }

    #[test]
    fn a_vlan_tag_is_back_where_it_was() {
        let with_kind = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        for (status, kind) in [(libc::TP_STATUS_VLAN_VALID, 0x8100u16), (with_kind, 0x88a8)] {
            let block = block(status, 0);
            let header = FrameHeader::read(&block, 64).expect("whole");
            let mut untagged = Untagged::new();
            let frame = untagged.frame(&header, &block);
            let [high, low] = kind.to_be_bytes();
            assert_eq!(frame.data, [&FRAME[..12], &[high, low, 0x20, 0x07], &FRAME[12..]].concat());
            assert_eq!((frame.original_len, frame.direction), (1004, Direction::Inbound));
        }
    }

    proptest! {
        #[test]
        fn no_block_makes_the_reader_leave_it(
            mut block in proptest::collection::vec(any::<u8>(), 0..400),
            at in 0usize..500,
            offset in any::<u16>(),
            captured in 0u32..400,
        ) {
            if block.len() > at + 32 {
                block[at + 24..at + 26].copy_from_slice(&(offset % 400).to_ne_bytes());
                block[at + 12..at + 16].copy_from_slice(&captured.to_ne_bytes());
            }
            if let Some(header) = FrameHeader::read(&block, at) {
                let mut untagged = Untagged::new();
                prop_assert!(untagged.frame(&header, &block).data.len() <= block.len() + TAG);
            }
        }
    }
}
