//! Conversations that tests write down packet by packet.

use std::net::Ipv4Addr;

use uroce_analyze::{CaptureReader, DissectorConfig, Frame, LinkType, Timestamp};
use uroce_replay::{Device, Limits, Options, Recorder, Recording, ReplayError, Report, play};
use uroce_wire::{
    Aeth, AtomicEth, Bth, Deth, Header, HeaderWriter, Ieth, Ipv4, Opcode, Psn, Qpn, Reth, Syndrome,
    TAKES_GAP_LISTS, UdpPorts, icrc_of_captured, write_ipv4_udp,
};

const REQUESTER: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 1), 0x11);
pub const RESPONDER: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 2), 0x22);
pub const ACK: Syndrome = Syndrome(0x1f);
pub const SEQUENCE: Syndrome = Syndrome(0x60);
pub const INVALID: Syndrome = Syndrome(0x61);
pub const ACCESS: Syndrome = Syndrome(0x62);
pub const NOT_READY: Syndrome = Syndrome(0x2c);
pub const RKEY: u32 = 0x0001_2345;

/// Frames of a capture, each a microsecond behind the one before.
#[derive(Default)]
pub struct Scene {
    frames: Vec<(Vec<u8>, String)>,
}

impl Scene {
    fn packet(mut self, to_responder: bool, bth: Bth, headers: &[&[u8]], payload: &[u8]) -> Self {
        let mut covered = vec![0; 12];
        HeaderWriter::new(&mut covered).put(&bth).expect("room");
        headers.iter().for_each(|header| covered.extend(*header));
        covered.extend(payload);
        covered.resize(covered.len() + usize::from(bth.pad), 0);
        let (src, dst) = match to_responder {
            true => (REQUESTER.0, RESPONDER.0),
            false => (RESPONDER.0, REQUESTER.0),
        };
        let ip = Ipv4 { src, dst, id: 0, ttl: 64, tos: 0, df: true };
        let mut frame = vec![0; 28];
        let ports = UdpPorts { src: 0xc123, dst: 4791 };
        write_ipv4_udp(&mut frame, &ip, ports, covered.len() + 4).expect("it fits");
        let icrc = icrc_of_captured(&frame, true, &covered).expect("headers");
        frame.extend(covered);
        frame.extend(icrc.to_le_bytes());
        self.frames.push((frame, String::new()));
        self
    }

    pub fn request(self, opcode: Opcode, psn: u32, header: &[u8], payload: &[u8]) -> Self {
        let mut bth = Bth::new(opcode, Qpn::new(RESPONDER.1), Psn::new(psn));
        bth.ack_req = true;
        bth.pad = (4 - payload.len() % 4) as u8 % 4;
        self.packet(true, bth, &[header], payload)
    }

    pub fn send(self, psn: u32) -> Self {
        self.request(Opcode::RC_SEND_ONLY, psn, &[], b"some words")
    }

    /// A SEND that asks for a list of gaps (ADR 33).
    pub fn send_that_asks_for_gaps(self, psn: u32) -> Self {
        let mut bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(RESPONDER.1), Psn::new(psn));
        (bth.ack_req, bth.reserved7) = (true, TAKES_GAP_LISTS);
        self.packet(true, bth, &[], b"some more words.")
    }

    pub fn write(self, psn: u32, va: u64, payload: &[u8]) -> Self {
        let length = payload.len() as u32;
        let reth = bytes(&Reth { va, rkey: RKEY, length });
        self.request(Opcode::RC_WRITE_ONLY, psn, &reth, payload)
    }

    pub fn read(self, psn: u32, va: u64, length: u32) -> Self {
        let reth = bytes(&Reth { va, rkey: RKEY, length });
        self.request(Opcode::RC_READ_REQUEST, psn, &reth, &[])
    }

    pub fn fetch_add(self, psn: u32, va: u64, swap_add: u64) -> Self {
        let eth = bytes(&AtomicEth { va, rkey: RKEY, swap_add, compare: 0 });
        self.request(Opcode::RC_FETCH_ADD, psn, &eth, &[])
    }

    pub fn send_and_invalidate(self, psn: u32, rkey: u32) -> Self {
        self.request(Opcode::RC_SEND_ONLY_INV, psn, &bytes(&Ieth(rkey)), b"gone")
    }

    pub fn answer(self, psn: u32, syndrome: Syndrome, msn: u32) -> Self {
        self.response(Opcode::RC_ACKNOWLEDGE, psn, syndrome, msn, &[])
    }

    /// A sequence NAK with a list of one gap of one packet.
    pub fn nak_with_gap(self, psn: u32, msn: u32) -> Self {
        self.response(Opcode::RC_ACKNOWLEDGE, psn, SEQUENCE, msn, &[0, 0, 0, 1])
    }

    pub fn response(
        self,
        opcode: Opcode,
        psn: u32,
        syndrome: Syndrome,
        msn: u32,
        payload: &[u8],
    ) -> Self {
        let mut bth = Bth::new(opcode, Qpn::new(REQUESTER.1), Psn::new(psn));
        bth.pad = (4 - payload.len() % 4) as u8 % 4;
        let aeth = bytes(&Aeth { syndrome, msn });
        self.packet(false, bth, &[&aeth], payload)
    }

    /// The requester closes the connection of queue pair `qpn`.
    pub fn disconnect(self, qpn: u32) -> Self {
        let mut mad = vec![0; 256];
        mad[..4].copy_from_slice(&[1, 7, 2, 3]);
        mad[16..18].copy_from_slice(&0x15_u16.to_be_bytes());
        mad[32..36].copy_from_slice(&(qpn << 8).to_be_bytes());
        let deth = bytes(&Deth { qkey: 0x8001_0000, src_qpn: Qpn::new(1) });
        let bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::new(1), Psn::new(0));
        self.packet(true, bth, &[&deth], &mad)
    }

    /// Nothing is captured for so many microseconds.
    pub fn pause(mut self, microseconds: usize) -> Self {
        self.frames.extend((0..microseconds).map(|_| (Vec::new(), String::new())));
        self
    }

    /// Damages the key of the last packet, a WRITE, READ or atomic.
    pub fn with_damaged_key(mut self) -> Self {
        let (frame, _) = self.frames.last_mut().expect("a packet");
        frame[28 + 12 + 8] ^= 0x80;
        self
    }

    /// Damages the last packet.
    pub fn damaged(mut self) -> Self {
        if let Some(last) = self.frames.last_mut().and_then(|(frame, _)| frame.last_mut()) {
            *last ^= 1;
        }
        self
    }

    /// The comment of the last frame.
    pub fn comment(mut self, comment: &str) -> Self {
        if let Some(last) = self.frames.last_mut() {
            comment.clone_into(&mut last.1);
        }
        self
    }

    /// The requests to the responder, and what it answered; each frame cut to so many bytes.
    pub fn recordings(&self, cut: usize) -> Vec<Recording> {
        let mut recorder = Recorder::new(DissectorConfig::default(), Limits::default());
        let frames = self.frames.iter().enumerate();
        for (index, (frame, comment)) in frames.filter(|(_, (frame, _))| !frame.is_empty()) {
            recorder.handle_frame(&Frame {
                number: index as u64 + 1,
                interface: 0,
                time: Timestamp::from_nanos(index as u64 * 1_000),
                link_type: LinkType::RawIp,
                direction: None,
                original_len: frame.len() as u32,
                data: &frame[..cut.min(frame.len())],
                comment,
            });
        }
        recorder.finish()
    }

    pub fn recording(&self) -> Recording {
        self.recordings(usize::MAX).into_iter().next().expect("there are requests")
    }

    pub fn play(&self) -> Result<Report, ReplayError> {
        play(self.recording(), &Device::default(), &Limits::default(), &Options::default())
    }

    pub fn report(&self) -> Report {
        self.play().expect("it can be played")
    }
}

pub fn bytes<H: Header>(header: &H) -> Vec<u8> {
    let mut bytes = vec![0; H::LEN];
    header.write(&mut bytes).expect("room");
    bytes
}

/// The conversations of a capture of the repository.
pub fn pcap(name: &str) -> Vec<Recording> {
    let path = format!("{}/../../pcaps/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    recordings(&std::fs::read(path).expect("a capture of the repository"))
}

/// The conversations of a capture, as far as it can be read.
pub fn recordings(capture: &[u8]) -> Vec<Recording> {
    let mut recorder = Recorder::new(DissectorConfig::default(), Limits::default());
    if let Ok(mut reader) = CaptureReader::new(capture) {
        while let Ok(Some(frame)) = reader.next_frame() {
            recorder.handle_frame(&frame);
        }
    }
    recorder.finish()
}
