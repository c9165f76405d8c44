//! Two queue pairs that talk to each other, frame by frame.

use uroce_analyze::{Frame, LinkType, Timestamp};
use uroce_wire::{Ipv4, UdpPorts, write_ipv4_udp};

use crate::capture::{captured, ethernet, sealed};

/// Queue pairs of both ends; they are at 10.0.N.1 and 10.0.N.2.
pub const LEFT: u32 = 0x11;
pub const RIGHT: u32 = 0x22;
/// Bytes of a full packet.
pub const MTU: usize = 1024;

/// Frames that grow in number, ten microseconds after each other.
pub struct Talk {
    pub frames: Vec<(u64, Vec<u8>)>,
    /// Comments of the capture on the frames with these numbers.
    pub comments: Vec<(usize, String)>,
    /// Which network the ends are in.
    pub net: u8,
    now: u64,
    id: u16,
}

impl Talk {
    pub fn new() -> Self {
        Self { frames: vec![], comments: vec![], net: 0, now: 1_000_000_000, id: 0 }
    }

    pub fn wait(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
    }

    /// A packet to the right or to the left.
    pub fn packet(&mut self, to_right: bool, opcode: u8, psn: u32, ack_req: bool, behind: &[u8]) {
        let [source, destination] = if to_right { [1, 2] } else { [2, 1] };
        let qpn = if to_right { RIGHT } else { LEFT };
        let mut covered = vec![opcode, 0x40, 0xff, 0xff, 0];
        covered.extend(&qpn.to_be_bytes()[1..]);
        covered.extend((psn & 0xff_ffff | u32::from(ack_req) << 31).to_be_bytes());
        covered.extend(behind);
        let [src, dst] = [source, destination].map(|host| [10, 0, self.net, host].into());
        let ip = Ipv4 { src, dst, id: self.id, ttl: 64, tos: 2, df: true };
        let mut headers = vec![0; 28];
        let ports = UdpPorts { src: 0xc123, dst: 4791 };
        write_ipv4_udp(&mut headers, &ip, ports, covered.len() + 4).expect("it fits");
        self.id = self.id.wrapping_add(1);
        self.raw(ethernet(0x0800, None, &sealed(&headers, true, &covered)));
    }

    /// Any frame.
    pub fn raw(&mut self, frame: Vec<u8>) {
        self.now += 10_000;
        self.frames.push((self.now, frame));
    }

    /// SEND ONLY of 64 bytes.
    pub fn send(&mut self, psn: u32) {
        self.packet(true, 0x04, psn, true, &[7; 64]);
    }

    /// WRITE of so many full packets.
    pub fn write(&mut self, first: u32, packets: u32) {
        for index in 0..packets {
            let (is_first, is_last) = (index == 0, index + 1 == packets);
            let opcode = match (is_first, is_last) {
                (true, true) => 0x0a,
                (true, false) => 0x06,
                (false, false) => 0x07,
                (false, true) => 0x08,
            };
            let reth = if is_first { reth(packets * MTU as u32) } else { vec![] };
            self.packet(true, opcode, first + index, is_last, &[reth, vec![7; MTU]].concat());
        }
    }

    /// READ of so many full packets, and its responses.
    pub fn read(&mut self, first: u32, packets: u32) {
        self.packet(true, 0x0c, first, true, &reth(packets * MTU as u32));
        for index in 0..packets {
            let (is_first, is_last) = (index == 0, index + 1 == packets);
            let opcode = match (is_first, is_last) {
                (true, true) => 0x10,
                (true, false) => 0x0d,
                (false, false) => 0x0e,
                (false, true) => 0x0f,
            };
            let aeth = if is_first || is_last { vec![0x1f, 0, 0, 1] } else { vec![] };
            self.packet(false, opcode, first + index, false, &[aeth, vec![9; MTU]].concat());
        }
    }

    /// An acknowledgement with that syndrome.
    pub fn answer(&mut self, psn: u32, syndrome: u8) {
        self.packet(false, 0x11, psn, false, &[syndrome, 0, 0, 1]);
    }

    /// All frames of the capture.
    pub fn each(&self, mut give: impl FnMut(&Frame<'_>)) {
        for (index, (time, data)) in self.frames.iter().enumerate() {
            let comment = self.comments.iter().find(|(number, _)| *number == index + 1);
            give(&Frame {
                number: index as u64 + 1,
                time: Timestamp::from_nanos(*time),
                comment: comment.map_or("", |(_, text)| text),
                ..captured(data, LinkType::Ethernet)
            });
        }
    }
}

fn reth(length: u32) -> Vec<u8> {
    [&0x1000u64.to_be_bytes()[..], &0x77u32.to_be_bytes(), &length.to_be_bytes()].concat()
}

pub const ACK: u8 = 0x1f;
pub const SEQUENCE_NAK: u8 = 0x60;
pub const ACCESS_NAK: u8 = 0x62;
/// RNR NAK with a wait of 0.64 ms.
pub const RNR: u8 = 0x20 | 12;
