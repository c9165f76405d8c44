//! Packets of two hosts, and an injector that they pass through.

use std::net::IpAddr;
use std::time::Duration;

use uroce_fault::{Direction, FaultInjector, Origin, PacketMeta, Plan, Verdict};
use uroce_wire::{Aeth, Bth, Flow, Header, Opcode, Psn, Qpn, Reth, Syndrome};

pub const LOCAL: [u8; 4] = [192, 0, 2, 1];
pub const REMOTE: [u8; 4] = [192, 0, 2, 2];
/// Queue pairs of a connection between the two.
pub const LOCAL_QP: u32 = 0x11;
pub const REMOTE_QP: u32 = 0x22;

pub fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub fn meta(direction: Direction) -> PacketMeta {
    let (src, dst) = match direction {
        Direction::Tx => (LOCAL, REMOTE),
        Direction::Rx => (REMOTE, LOCAL),
    };
    let (src, dst) = (IpAddr::from(src), IpAddr::from(dst));
    let flow = Flow { src, dst, src_port: 0xc000, dst_port: 4791 };
    PacketMeta { direction, flow, ip_id: 7, traffic_class: 2, tag: 99 }
}

/// A packet with its ICRC.
#[derive(Debug, Clone, PartialEq)]
pub struct TestPacket {
    pub meta: PacketMeta,
    pub bytes: Vec<u8>,
}

impl TestPacket {
    /// BTH, the bytes behind it, and the ICRC.
    pub fn new(direction: Direction, opcode: Opcode, qp: u32, psn: u32, behind: &[u8]) -> Self {
        let mut bytes = vec![0; Bth::LEN];
        Bth::new(opcode, Qpn::new(qp), Psn::new(psn)).write(&mut bytes).expect("fits");
        bytes.extend_from_slice(behind);
        let meta = meta(direction);
        bytes.extend(uroce_wire::icrc(&meta.flow, meta.ip_id, &bytes).to_le_bytes());
        Self { meta, bytes }
    }

    pub fn psn(&self) -> u32 {
        Bth::read(&self.bytes).expect("a BTH").psn.get()
    }

    pub fn opcode(&self) -> Opcode {
        Opcode(self.bytes[0])
    }

    pub fn syndrome(&self) -> u8 {
        self.bytes[12]
    }

    pub fn icrc_is_right(&self) -> bool {
        uroce_wire::verify(&self.meta.flow, self.meta.ip_id, &self.bytes)
    }
}

/// A SEND of one packet to the remote host.
pub fn send(psn: u32) -> TestPacket {
    TestPacket::new(Direction::Tx, Opcode::RC_SEND_ONLY, REMOTE_QP, psn, &[0xaa; 64])
}

/// The same from the remote host.
pub fn send_back(psn: u32) -> TestPacket {
    TestPacket::new(Direction::Rx, Opcode::RC_SEND_ONLY, LOCAL_QP, psn, &[0xaa; 64])
}

pub fn data(opcode: Opcode, psn: u32) -> TestPacket {
    let header = opcode.info().expect("known").header_len - Bth::LEN;
    TestPacket::new(Direction::Tx, opcode, REMOTE_QP, psn, &vec![0; header + 64])
}

pub fn write_only(psn: u32) -> TestPacket {
    let mut behind = vec![0; Reth::LEN + 32];
    Reth { va: 0x1000, rkey: 0x55, length: 32 }.write(&mut behind).expect("fits");
    TestPacket::new(Direction::Tx, Opcode::RC_WRITE_ONLY, REMOTE_QP, psn, &behind)
}

/// An acknowledgement from the remote host.
pub fn acknowledge(psn: u32, syndrome: Syndrome, msn: u32) -> TestPacket {
    let mut behind = [0; Aeth::LEN];
    Aeth { syndrome, msn }.write(&mut behind).expect("fits");
    TestPacket::new(Direction::Rx, Opcode::RC_ACKNOWLEDGE, LOCAL_QP, psn, &behind)
}

pub fn ack(psn: u32) -> TestPacket {
    acknowledge(psn, Syndrome::ack(31), psn)
}

/// A message of connection management to the remote host.
pub fn cm(attribute: u16, body: &[u8]) -> TestPacket {
    let mut behind = vec![0; 8 + 24 + 232];
    behind[8..12].copy_from_slice(&[1, 7, 2, 3]);
    behind[24..26].copy_from_slice(&attribute.to_be_bytes());
    behind[32..32 + body.len()].copy_from_slice(body);
    TestPacket::new(Direction::Tx, Opcode::UD_SEND_ONLY, 1, 0, &behind)
}

/// A packet that has come through.
#[derive(Debug, Clone, PartialEq)]
pub struct Out {
    pub at: Duration,
    pub packet: TestPacket,
    pub faults: String,
    pub origin: Origin,
    pub is_damaged: bool,
}

/// An injector, and what has come through it.
pub struct Wire {
    pub injector: FaultInjector,
    pub out: Vec<Out>,
    pub comments: Vec<String>,
    pub now: Duration,
}

impl Wire {
    pub fn new(rules: &str) -> Self {
        Self::with_seed(rules, 1)
    }

    pub fn with_seed(rules: &str, seed: u64) -> Self {
        let plan: Plan = rules.parse().unwrap_or_else(|error| panic!("{rules}: {error}"));
        let injector = FaultInjector::new(&plan, seed);
        Self { injector, out: Vec::new(), comments: Vec::new(), now: Duration::ZERO }
    }

    pub fn give(&mut self, packet: &TestPacket) -> Verdict {
        let verdict = self.injector.handle_packet(self.now, &packet.meta, &packet.bytes);
        self.comments.push(self.injector.faults().to_owned());
        if verdict == Verdict::Pass {
            let (packet, faults) = (packet.clone(), self.injector.faults().to_owned());
            let (at, origin) = (self.now, Origin::Packet);
            self.out.push(Out { at, packet, faults, origin, is_damaged: false });
        }
        self.poll();
        verdict
    }

    fn poll(&mut self) {
        while let Some(release) = self.injector.poll_packet(self.now) {
            self.out.push(Out {
                at: self.now,
                packet: TestPacket { meta: release.meta, bytes: release.packet.to_vec() },
                faults: release.faults.to_owned(),
                origin: release.origin,
                is_damaged: release.is_damaged,
            });
        }
    }

    /// Waits until nothing is due any more.
    pub fn finish(&mut self) -> &mut Self {
        while let Some(at) = self.injector.poll_timeout() {
            self.now = self.now.max(at);
            self.poll();
        }
        self
    }

    /// PSNs in the order in which they came through.
    pub fn psns(&self) -> Vec<u32> {
        self.out.iter().map(|out| out.packet.psn()).collect()
    }

    /// PSNs of the SENDs 0, 1, 2 ... that come through the rules.
    pub fn psns_through(rules: &str, count: u32) -> Vec<u32> {
        let mut wire = Self::new(rules);
        for psn in 0..count {
            wire.give(&send(psn));
        }
        wire.finish().psns()
    }
}
