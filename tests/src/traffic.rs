//! A capture as large as one likes: WRITEs, READs and SENDs of two queue pairs, with losses, RNR NAKs and
//! congestion. The same every time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};
use uroce_wire::{
    Aeth, Bth, CNP_LEN, Flow, Header, Ipv4, NakCode, Opcode, Psn, Qpn, ROCE_PORT, Reth, Syndrome,
    UdpPorts, icrc, write_cnp, write_ethernet, write_ipv4_udp,
};

type Result<T> = std::result::Result<T, PcapError>;

const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const QPNS: [u32; 2] = [0x11, 0x2a];
const MTU: u32 = 256;
const SOURCE_PORT: u16 = 50_000;
/// Bytes in front of the BTH.
const NETWORK: usize = 14 + Ipv4::LEN + UdpPorts::LEN;
const ROUND_TRIP: Duration = Duration::from_micros(12);
/// Code of an RNR timer of 0.64 ms.
const RNR_TIMER: u8 = 12;

/// A pcap file of at least `packets` packets.
///
/// # Errors
/// The frames cannot be written.
pub fn capture(packets: usize) -> Result<Vec<u8>> {
    let mut traffic = Traffic::new()?;
    let mut round = 0;
    while traffic.packets < packets {
        traffic.round(round)?;
        round += 1;
    }
    Ok(traffic.writer.into_writer())
}

struct Traffic {
    writer: PcapWriter<Vec<u8>>,
    time: Duration,
    psn: u32,
    msn: u32,
    packets: usize,
}

/// One packet without its network headers.
struct Segment {
    opcode: Opcode,
    psn: u32,
    extension: Vec<u8>,
    payload: u32,
    marked: bool,
}

impl Segment {
    fn new(opcode: Opcode, psn: u32) -> Self {
        Self { opcode, psn, extension: Vec::new(), payload: 0, marked: false }
    }

    fn with<H: Header>(mut self, header: &H) -> Self {
        let at = self.extension.len();
        self.extension.resize(at + H::LEN, 0);
        // There is room for it.
        let _ = header.write(&mut self.extension[at..]);
        self
    }

    fn carrying(mut self, payload: u32) -> Self {
        self.payload = payload;
        self
    }
}

impl Traffic {
    fn new() -> Result<Self> {
        let header = PcapHeader {
            ts_resolution: TsResolution::NanoSecond,
            datalink: DataLink::ETHERNET,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(Vec::new(), header)?;
        let time = Duration::from_secs(1_700_000_000);
        Ok(Self { writer, time, psn: 0xff_ff00, msn: 0, packets: 0 })
    }

    fn round(&mut self, round: u32) -> Result<()> {
        match round % 10 {
            3 | 7 => self.read(8)?,
            5 => self.send(round % 20 == 5)?,
            _ if round % 13 == 4 => self.lossy_write(16, 5)?,
            _ => self.write(16, round % 17 == 8)?,
        }
        self.time += Duration::from_micros(20);
        Ok(())
    }

    fn write(&mut self, count: u32, congested: bool) -> Result<()> {
        let first = self.psn;
        self.requests(first, 0, count, congested)?;
        self.time += ROUND_TRIP;
        if congested {
            self.congestion()?;
        }
        self.finish(first + count - 1)
    }

    /// Packet `lost` does not arrive: a NAK, and all from it on again.
    fn lossy_write(&mut self, count: u32, lost: u32) -> Result<()> {
        let first = self.psn;
        self.requests(first, 0, count, false)?;
        self.time += ROUND_TRIP;
        self.answer(first + lost, Syndrome::nak(NakCode::PsnSequence))?;
        self.time += Duration::from_micros(3);
        self.requests(first, lost, count, false)?;
        self.time += ROUND_TRIP;
        self.finish(first + count - 1)
    }

    /// A READ of `count` packets.
    fn read(&mut self, count: u32) -> Result<()> {
        let first = self.psn;
        let reth = Reth { va: 0x7f00_0000_1000, rkey: 0x8a41, length: count * MTU };
        self.emit(0, Segment::new(Opcode::RC_READ_REQUEST, first).with(&reth))?;
        self.time += ROUND_TRIP;
        let aeth = Aeth { syndrome: Syndrome::ack(Syndrome::ACK_UNLIMITED), msn: self.msn + 1 };
        for index in 0..count {
            let (opcode, has_aeth) = match index {
                0 => (Opcode::RC_READ_RESPONSE_FIRST, true),
                _ if index == count - 1 => (Opcode::RC_READ_RESPONSE_LAST, true),
                _ => (Opcode::RC_READ_RESPONSE_MIDDLE, false),
            };
            let segment = Segment::new(opcode, first + index).carrying(MTU);
            self.emit(1, if has_aeth { segment.with(&aeth) } else { segment })?;
        }
        self.msn += 1;
        self.psn = first + count;
        Ok(())
    }

    /// A SEND of one packet; the responder may have no receive for it at first.
    fn send(&mut self, refused: bool) -> Result<()> {
        let psn = self.psn;
        let segment = || Segment::new(Opcode::RC_SEND_ONLY, psn).carrying(64);
        self.emit(0, segment())?;
        self.time += ROUND_TRIP;
        if refused {
            self.answer(psn, Syndrome::rnr(RNR_TIMER))?;
            self.time += Duration::from_micros(655);
            self.emit(0, segment())?;
            self.time += ROUND_TRIP;
        }
        self.finish(psn)
    }

    /// Packets `from` to `count` of a WRITE whose first PSN is `first`.
    fn requests(&mut self, first: u32, from: u32, count: u32, congested: bool) -> Result<()> {
        let reth = Reth { va: 0x7f00_0000_0000, rkey: 0x8a41, length: count * MTU };
        for index in from..count {
            let opcode = match index {
                0 => Opcode::RC_WRITE_FIRST,
                _ if index == count - 1 => Opcode::RC_WRITE_LAST,
                _ => Opcode::RC_WRITE_MIDDLE,
            };
            let mut segment = Segment::new(opcode, first + index).carrying(MTU);
            segment.marked = congested && index % 4 == 3;
            self.emit(0, if index == 0 { segment.with(&reth) } else { segment })?;
        }
        Ok(())
    }

    /// The message that ends with `psn` is acknowledged.
    fn finish(&mut self, psn: u32) -> Result<()> {
        self.msn += 1;
        self.psn = psn + 1;
        self.answer(psn, Syndrome::ack(Syndrome::ACK_UNLIMITED))
    }

    fn answer(&mut self, psn: u32, syndrome: Syndrome) -> Result<()> {
        let aeth = Aeth { syndrome, msn: self.msn };
        self.emit(1, Segment::new(Opcode::RC_ACKNOWLEDGE, psn).with(&aeth))
    }

    fn emit(&mut self, sender: usize, segment: Segment) -> Result<()> {
        let mut bth = Bth::new(segment.opcode, Qpn::new(QPNS[1 - sender]), Psn::new(segment.psn));
        let info = segment.opcode.info();
        bth.ack_req = info.is_some_and(|info| info.is_request() && info.ends());
        let mut transport = vec![0; Bth::LEN];
        // There is room for it.
        let _ = bth.write(&mut transport);
        transport.extend(&segment.extension);
        transport.extend((0..segment.payload).map(|byte| byte as u8));
        self.frame(sender, transport, if segment.marked { 3 } else { 2 })
    }

    /// A congestion notification from the receiver of what was marked.
    fn congestion(&mut self) -> Result<()> {
        let mut transport = vec![0; CNP_LEN];
        write_cnp(&mut transport, Qpn::new(QPNS[0])).expect("its length is known");
        self.frame(1, transport, 0)
    }

    fn frame(&mut self, sender: usize, mut transport: Vec<u8>, tos: u8) -> Result<()> {
        let (src, dst) = (HOSTS[sender], HOSTS[1 - sender]);
        let flow = Flow {
            src: IpAddr::V4(src),
            dst: IpAddr::V4(dst),
            src_port: SOURCE_PORT,
            dst_port: ROCE_PORT,
        };
        transport.extend(icrc(&flow, 0, &transport).to_le_bytes());
        let mut frame = vec![0; NETWORK];
        write_ethernet(&mut frame, [2; 6], [4; 6], None, 0x0800).expect("its length is known");
        let ip = Ipv4 { src, dst, tos, ttl: 64, id: 0, df: true };
        let ports = UdpPorts { src: SOURCE_PORT, dst: ROCE_PORT };
        write_ipv4_udp(&mut frame[14..], &ip, ports, transport.len()).expect("its length is known");
        frame.extend(transport);
        self.time += Duration::from_nanos(800);
        let length = u32::try_from(frame.len()).expect("a short frame");
        self.packets += 1;
        let packet = PcapPacket::new(self.time, length, &frame);
        self.writer.write_packet(&packet).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcap::PcapReader;
    use uroce_wire::{parse_ethernet, verify_frame_icrc};

    use super::*;

    #[test]
    fn every_packet_is_right() {
        let capture = capture(500).expect("it is made");
        let mut reader = PcapReader::new(&capture[..]).expect("a pcap file");
        let mut packets = 0;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.expect("a whole packet");
            let frame = parse_ethernet(&packet.data).expect("a RoCE frame");
            assert!(verify_frame_icrc(&frame), "packet {packets}");
            packets += 1;
        }
        assert!(packets >= 500);
    }
}
