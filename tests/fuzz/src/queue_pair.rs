//! A queue pair at work, and a peer that sends it what it wants.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use uroce_device::VirtualClock;
use uroce_device::datapath::{Datapath, LoopbackDatapath, LoopbackFabric, Route, RxPacket};
use uroce_device::memory::{Rkey, Sge};
use uroce_device::transport::{
    AddressVector, QpType, RecvWr, SendData, SendFlags, SendOp, SendWr, UdDestination,
};
use uroce_device::wire::{Flow, Packet, Psn, Qpn, ROCE_PORT, icrc};

use crate::input::Input;
use crate::nic::{FIRST_PSN, Nic, QKEY, host};

const NIC: u8 = 1;
const PEER: u8 = 2;
const STRANGER: u8 = 3;
const PEER_QPN: Qpn = Qpn::new(0x77);
const TYPES: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];
/// Steps of a run.
const MOST_STEPS: usize = 200;
/// Packets that may come back for one that goes in: READ responses of the whole region.
const MOST_ANSWERS: usize = 300;

struct World<'a> {
    input: Input<'a>,
    clock: VirtualClock,
    nic: Nic,
    peer: LoopbackDatapath,
    stranger: LoopbackDatapath,
    qp_type: QpType,
    qpn: Qpn,
    /// PSN of the request and of the response that would be next, as far as the peer knows.
    psn: Psn,
    /// Work requests that were taken and have not completed.
    open: HashSet<u64>,
    next_wr: u64,
}

/// A queue pair posts, receives and completes while its peer sends packets of any shape with a right ICRC.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let qp_type = TYPES[usize::from(input.below(3))];
    let (fabric, clock) = (LoopbackFabric::new(), VirtualClock::new());
    let nic = Nic::open(&fabric, NIC, &clock);
    let attach = |last| fabric.attach(SocketAddr::new(host(last), ROCE_PORT)).expect("attached");
    let (peer, stranger) = (attach(PEER), attach(STRANGER));
    let qpn = nic.qp(qp_type);
    nic.connect(qpn, qp_type, (host(PEER), PEER_QPN));
    let (psn, open, next_wr) = (Psn::new(FIRST_PSN), HashSet::new(), 0);
    let mut world = World { input, clock, nic, peer, stranger, qp_type, qpn, psn, open, next_wr };
    for _ in 0..MOST_STEPS {
        if world.input.is_empty() {
            break;
        }
        world.step();
        world.nic.drive();
        world.look();
    }
    world.end();
}

impl World<'_> {
    fn step(&mut self) {
        match self.input.below(12) {
            0 => self.post_recv(),
            1..4 => self.post_send(),
            4 => self.clock.advance(Duration::from_micros(self.input.u16().into())),
            5 => self.stranger(),
            _ => self.packet(),
        }
    }

    fn sge(&mut self) -> Sge {
        let (offset, length) = (self.input.u16() & 0x3fff, self.input.u16() & 0x1fff);
        self.nic.sge(offset, length)
    }

    fn taken(&mut self) -> u64 {
        self.next_wr += 1;
        self.next_wr
    }

    fn post_recv(&mut self) {
        let (sges, wr_id) = ([self.sge()], self.taken());
        if self.nic.device.post_recv(self.qpn, &[RecvWr { wr_id, sges: &sges }]).is_ok() {
            self.open.insert(wr_id);
        }
    }

    fn post_send(&mut self) {
        let (va, rkey) = (u64::from(self.input.u16()), Rkey(0x1234));
        let op = match self.input.below(7) {
            0 => SendOp::Send,
            1 => SendOp::SendWithImm(1),
            2 => SendOp::Write { va, rkey },
            3 => SendOp::WriteWithImm { va, rkey, imm: 2 },
            4 => SendOp::Read { va, rkey },
            5 => SendOp::FetchAdd { va: va & !7, rkey, add: 3 },
            _ => SendOp::AtomicWrite { va: va & !7, rkey },
        };
        let (sges, wr_id) = ([self.sge()], self.taken());
        let av = AddressVector::new(host(NIC), host(PEER));
        let ud =
            (self.qp_type == QpType::Ud).then_some(UdDestination { av, qpn: PEER_QPN, qkey: QKEY });
        let data = SendData::Sges(&sges);
        let wr = SendWr { wr_id, op, flags: SendFlags::SIGNALED, data, ud, srqn: None };
        if self.nic.device.post_send(self.qpn, &[wr]).is_ok() {
            self.open.insert(wr_id);
        }
    }

    /// A packet of the peer: any opcode, a PSN near the one that is next, and a body in which addresses and keys may be right.
    fn packet(&mut self) {
        let opcode = self.input.u8();
        let flags = self.input.u8();
        let psn = match flags & 3 {
            0 | 1 => self.psn,
            2 => self.psn.sub(self.input.below(8).into()),
            _ => self.psn.add(self.input.below(8).into()),
        };
        if flags & 4 != 0 {
            self.psn = psn.add(1);
        }
        let mut bytes = vec![opcode, 0x40 | (flags & 0x30), 0xff, 0xff, 0];
        bytes.extend(&self.qpn.get().to_be_bytes()[1..]);
        bytes.push(if flags & 8 != 0 { 0x80 } else { 0 });
        bytes.extend(&psn.get().to_be_bytes()[1..]);
        let body_at = bytes.len();
        if self.qp_type == QpType::Ud {
            bytes.extend(QKEY.to_be_bytes());
            bytes.extend(PEER_QPN.get().to_be_bytes());
        }
        if flags & 0x40 != 0 {
            let (offset, length) = (self.input.u16() & 0x3fff, self.input.u16() & 0x3fff);
            bytes.extend(self.nic.addr(offset).to_be_bytes());
            bytes.extend(self.nic.mr.rkey.0.to_be_bytes());
            bytes.extend(u32::from(length).to_be_bytes());
        }
        bytes.extend(self.input.piece());
        if flags & 0x80 != 0 && bytes.len() > body_at {
            // Full packets, as the middle of a message has them.
            bytes.resize(bytes.len().max(body_at + 256), 0x5a);
        }
        self.send(bytes, PEER);
    }

    /// Anything from somebody else; it must not be answered.
    fn stranger(&mut self) {
        let mut bytes = self.input.piece().to_vec();
        if bytes.len() >= 8 && self.input.bool() {
            bytes[5..8].copy_from_slice(&self.qpn.get().to_be_bytes()[1..]);
        }
        let before = self.nic.contents();
        self.send(bytes, STRANGER);
        self.nic.drive();
        if self.qp_type != QpType::Ud {
            assert_eq!(received(&mut self.stranger), Vec::<Vec<u8>>::new(), "silence to strangers");
            assert!(self.nic.contents() == before, "a stranger wrote to memory");
        }
    }

    /// Closes the packet with its ICRC and sends it.
    fn send(&mut self, mut bytes: Vec<u8>, from: u8) {
        let (src, dst) = (host(from), host(NIC));
        let flow = Flow { src, dst, src_port: 50_000, dst_port: ROCE_PORT };
        bytes.extend(icrc(&flow, 0, &bytes).to_le_bytes());
        let route = Route {
            src: SocketAddr::new(src, flow.src_port),
            dst: SocketAddr::new(dst, ROCE_PORT),
            hop_limit: 64,
            traffic_class: 0,
        };
        let datapath = if from == PEER { &mut self.peer } else { &mut self.stranger };
        let space = datapath.tx_space().expect("one packet at a time");
        space[..bytes.len()].copy_from_slice(&bytes);
        datapath.tx_commit(&route, bytes.len(), &mut |_, _| {});
        datapath.flush().expect("the fabric takes all");
    }

    /// What came back are packets, not too many of them, and what completed was open.
    fn look(&mut self) {
        let answers = received(&mut self.peer);
        assert!(answers.len() <= MOST_ANSWERS, "{} packets", answers.len());
        for bytes in answers {
            Packet::parse(&bytes).expect("what we send is well-formed");
        }
        loop {
            let completions = self.nic.poll();
            if completions.is_empty() {
                return;
            }
            for wc in completions {
                assert!(self.open.remove(&wc.wr_id), "{wc:?} completed before");
            }
        }
    }

    /// The peer falls silent: everything that is open ends, or waits for what only a peer can send.
    fn end(&mut self) {
        for _ in 0..16 {
            self.clock.advance(Duration::from_millis(400));
            self.nic.drive();
            received(&mut self.peer);
            self.look();
        }
        self.nic.device.destroy_qp(self.qpn).expect("it exists");
        self.nic.drive();
        self.look();
        assert_eq!(received(&mut self.peer).len(), 0, "a destroyed queue pair is silent");
        self.nic.assert_canaries();
    }
}

fn received(datapath: &mut LoopbackDatapath) -> Vec<Vec<u8>> {
    let mut packets = vec![];
    let mut take = |rx: RxPacket<'_>| packets.push(rx.payload.to_vec());
    while datapath.recv(64, &mut take).expect("the fabric works") > 0 {}
    packets
}
