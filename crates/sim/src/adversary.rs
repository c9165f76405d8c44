//! A host that is no peer of anybody, and forges packets with right ICRCs.

use std::net::{IpAddr, SocketAddr};

use uroce_datapath::Route;
use uroce_wire::{Opcode, PayloadRule, Qpn, Service};

use crate::monitor::{NodeQpn, icrc_of};
use crate::random::Random;
use crate::sim_packet::SimPacket;

/// The Q_Key of QP 1, which everybody knows.
const GSI_QKEY: u32 = 0x8001_0000;
/// Bytes of a management datagram.
const MAD_LEN: usize = 256;
/// Time in which all forgeries are sent.
const SPAN_NS: usize = 20_000_000;

/// A queue pair that can be attacked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttackTarget {
    pub(crate) end: NodeQpn,
    /// The node of its peer.
    pub(crate) peer: usize,
    pub(crate) service: Service,
}

/// A connection that was made by connection management, and can be attacked at one of its ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CmTarget {
    /// The node of the end, and its queue pair.
    pub(crate) end: NodeQpn,
    pub(crate) peer: usize,
    /// What the end calls the connection, and what its peer calls it.
    pub(crate) ids: [u32; 2],
}

/// A host that forges packets.
pub(crate) struct Adversary {
    address: IpAddr,
    random: Random,
    left: usize,
    next_ns: u64,
    gap_ns: usize,
}

/// A forged packet, for the node `to`.
pub(crate) struct Forgery {
    pub(crate) to: usize,
    pub(crate) packet: SimPacket,
}

impl Adversary {
    /// A host that sends `count` packets.
    pub(crate) fn new(address: IpAddr, count: usize, mut random: Random) -> Adversary {
        let gap_ns = 2 * SPAN_NS / count.max(1);
        let next_ns = random.below(gap_ns) as u64;
        Adversary { address, random, left: count, next_ns, gap_ns }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// When it sends next.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        (self.left > 0).then_some(self.next_ns)
    }

    /// The packet that is due by now. `nodes` are the addresses of all NICs.
    pub(crate) fn poll_packet(
        &mut self,
        now_ns: u64,
        nodes: &[IpAddr],
        targets: &[AttackTarget],
        connections: &[CmTarget],
    ) -> Option<Forgery> {
        if self.left == 0 || self.next_ns > now_ns {
            return None;
        }
        self.left -= 1;
        self.next_ns = now_ns + 1 + self.random.below(self.gap_ns) as u64;
        if !connections.is_empty() && self.random.chance(40) {
            return Some(self.about_connection(nodes, connections));
        }
        Some(self.forge(nodes, targets))
    }

    fn forge(&mut self, nodes: &[IpAddr], targets: &[AttackTarget]) -> Forgery {
        let target = self.random.pick(targets);
        let (node, qpn) = target.end;
        let anywhere = self.random.below(nodes.len());
        let unknown = Qpn::new(self.random.next() as u32);
        let own = self.address;
        match self.random.below(9) {
            0 => self.packet(nodes, own, anywhere, unknown, None),
            1 => self.datagram(nodes, anywhere),
            2 => self.noise(nodes, anywhere),
            3 => {
                let qpn = self.random.pick(&[Qpn::SMI, Qpn::MULTICAST, Qpn::GSI]);
                self.packet(nodes, own, anywhere, qpn, None)
            }
            // Another node's address, which is not the peer's.
            4 if nodes.len() > 2 => {
                let strangers: Vec<IpAddr> = (0..nodes.len())
                    .filter(|index| ![node, target.peer].contains(index))
                    .map(|index| nodes[index])
                    .collect();
                let src = self.random.pick(&strangers);
                self.packet(nodes, src, node, qpn, Some(target.service))
            }
            // The peer's address, and a packet of another service.
            5 => {
                let others = [Service::Rc, Service::Uc, Service::Ud, Service::Xrc];
                let others: Vec<Service> =
                    others.into_iter().filter(|service| *service != target.service).collect();
                let service = self.random.pick(&others);
                self.packet(nodes, nodes[target.peer], node, qpn, Some(service))
            }
            // The peer's address, and an answer to nothing that was asked.
            6 if matches!(target.service, Service::Rc | Service::Xrc) => {
                let answers = [
                    Opcode::RC_READ_RESPONSE_ONLY,
                    Opcode::RC_ATOMIC_ACKNOWLEDGE,
                    Opcode::RC_ACKNOWLEDGE,
                ];
                let opcode = self.random.pick(&answers).of_service(target.service);
                self.packet_of(opcode, nodes, nodes[target.peer], node, qpn)
            }
            _ => self.packet(nodes, own, node, qpn, Some(target.service)),
        }
    }

    /// A well-formed packet of a service, or of any.
    fn packet(
        &mut self,
        nodes: &[IpAddr],
        src: IpAddr,
        to: usize,
        qpn: Qpn,
        service: Option<Service>,
    ) -> Forgery {
        let known: Vec<Opcode> = (0..=255)
            .map(Opcode)
            .filter(|opcode| {
                opcode.info().is_some_and(|info| {
                    service.is_none_or(|service| info.service == service)
                        && info.service != Service::Cnp
                })
            })
            .collect();
        let opcode = self.random.pick(&known);
        self.packet_of(opcode, nodes, src, to, qpn)
    }

    fn packet_of(
        &mut self,
        opcode: Opcode,
        nodes: &[IpAddr],
        src: IpAddr,
        to: usize,
        qpn: Qpn,
    ) -> Forgery {
        let info = opcode.info().expect("it was looked up");
        let payload = match info.payload {
            PayloadRule::None => 0,
            PayloadRule::Any => 4 * self.random.below(64),
            PayloadRule::Exact(length) => usize::from(length),
        };
        let mut bytes = self.header(opcode, qpn);
        let mut rest = vec![0; info.header_len - bytes.len() + payload];
        self.random.fill(&mut rest);
        bytes.extend_from_slice(&rest);
        self.seal(nodes, src, to, bytes)
    }

    /// A message about a connection with one thing wrong: it is not the peer's, or an id or the queue pair is not right.
    fn about_connection(&mut self, nodes: &[IpAddr], connections: &[CmTarget]) -> Forgery {
        let CmTarget { end: (node, qpn), peer, ids: [own, theirs] } = self.random.pick(connections);
        // RTU, DREQ, DREP, REJ.
        let attribute: u16 = self.random.pick(&[0x14, 0x15, 0x15, 0x16, 0x12]);
        let mut body = [0; MAD_LEN - 24];
        let (mut src, mut sender, mut number) = (nodes[peer], theirs, qpn.get());
        match self.random.below(3) {
            0 => src = self.address,
            1 if attribute == 0x15 => number ^= 1,
            _ => sender ^= 1 << self.random.below(32),
        }
        body[..4].copy_from_slice(&sender.to_be_bytes());
        body[4..8].copy_from_slice(&own.to_be_bytes());
        match attribute {
            0x15 => body[8..11].copy_from_slice(&number.to_be_bytes()[1..]),
            // Of no message of the handshake, because of a timeout.
            0x12 => (body[8], body[11]) = (2 << 6, 4),
            _ => {}
        }
        let mut bytes = self.header(Opcode::UD_SEND_ONLY, Qpn::GSI);
        bytes.extend_from_slice(&GSI_QKEY.to_be_bytes());
        bytes.extend_from_slice(&Qpn::GSI.get().to_be_bytes());
        bytes.extend_from_slice(&[1, 7, 2, 3, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.random.next().to_be_bytes());
        bytes.extend_from_slice(&attribute.to_be_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&body);
        self.seal(nodes, src, node, bytes)
    }

    /// A datagram for QP 1: a management datagram with a header that is right or wrong, and random contents.
    fn datagram(&mut self, nodes: &[IpAddr], to: usize) -> Forgery {
        let mut bytes = self.header(Opcode::UD_SEND_ONLY, Qpn::GSI);
        bytes.extend_from_slice(&GSI_QKEY.to_be_bytes());
        bytes.extend_from_slice(&Qpn::GSI.get().to_be_bytes());
        let mut mad = [0; MAD_LEN];
        self.random.fill(&mut mad);
        // Base version, class, class version, method: of connection management, or of another class.
        let class = self.random.pick(&[0x07, 0x07, 0x04, 0x01, 0x03]);
        let method = self.random.pick(&[0x03, 0x03, 0x01, 0x02]);
        mad[..4].copy_from_slice(&[1, class, if class == 7 { 2 } else { 1 }, method]);
        mad[4..6].fill(0);
        if class == 7 {
            let attribute = 0x10 + self.random.below(16) as u16;
            mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        }
        bytes.extend_from_slice(&mad);
        self.seal(nodes, self.address, to, bytes)
    }

    /// Random bytes.
    fn noise(&mut self, nodes: &[IpAddr], to: usize) -> Forgery {
        let mut bytes = vec![0; self.random.below(300)];
        self.random.fill(&mut bytes);
        self.seal(nodes, self.address, to, bytes)
    }

    fn header(&mut self, opcode: Opcode, qpn: Qpn) -> Vec<u8> {
        let pkey: u16 = if self.random.chance(90) { 0xffff } else { 0x7abc };
        let mut bytes = vec![opcode.0, 0];
        bytes.extend_from_slice(&pkey.to_be_bytes());
        bytes.extend_from_slice(&qpn.get().to_be_bytes());
        let ack_req = if self.random.chance(50) { 1 << 31 } else { 0 };
        let psn = (self.random.next() as u32 & 0xff_ffff) | ack_req;
        bytes.extend_from_slice(&psn.to_be_bytes());
        bytes
    }

    fn seal(&mut self, nodes: &[IpAddr], src: IpAddr, to: usize, mut bytes: Vec<u8>) -> Forgery {
        let src = SocketAddr::new(src, 0xc000 | self.random.below(0x4000) as u16);
        let dst = SocketAddr::new(nodes[to], uroce_device::ROCE_PORT);
        let icrc = icrc_of(src, dst, &bytes);
        bytes.extend_from_slice(&icrc.to_le_bytes());
        let route = Route { src, dst, hop_limit: 64, traffic_class: 0 };
        Forgery { to, packet: SimPacket { route, bytes } }
    }
}
