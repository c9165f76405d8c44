//! An attacker on the wire: packets with any bytes and any source, and a look at what comes back.
#![allow(dead_code)] // each test file uses its own part

use std::net::{IpAddr, SocketAddr};

use uroce_device::ROCE_PORT;
use uroce_device::cm::MAD_LEN;
use uroce_device::datapath::{Datapath, LoopbackDatapath, LoopbackFabric, Route, RxPacket};
use uroce_device::wire::{Flow, icrc};

use crate::common::{Node, ip};

/// First bytes of a packet, as an attacker likes them.
#[derive(Debug, Clone, Copy)]
pub struct Forged {
    pub opcode: u8,
    pub pad: u8,
    pub tver: u8,
    pub qpn: u32,
    pub psn: u32,
    pub pkey: u16,
}

impl Forged {
    pub fn new(opcode: u8, qpn: u32, psn: u32) -> Forged {
        Forged { opcode, pad: 0, tver: 0, qpn, psn, pkey: 0xffff }
    }

    /// `len` bytes of UDP payload, the last four left for the ICRC; shorter than a BTH is allowed.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let [_, q1, q2, q3] = self.qpn.to_be_bytes();
        let [_, p1, p2, p3] = self.psn.to_be_bytes();
        let [k1, k2] = self.pkey.to_be_bytes();
        let flags = 0x40 | (self.pad & 3) << 4 | self.tver & 15;
        let bth = [self.opcode, flags, k1, k2, 0, q1, q2, q3, 0x80, p1, p2, p3];
        let filler = (0u8..).map(|i| i.wrapping_mul(37));
        bth.into_iter().chain(filler).take(len).collect()
    }
}

/// What the headers of a packet to QP 1 should be.
#[derive(Clone, Copy)]
pub struct Headers {
    pub opcode: u8,
    pub pkey: u16,
    pub qkey: u32,
    pub src_qpn: u32,
    pub len: usize,
}

pub const GOOD: Headers =
    Headers { opcode: 0x64, pkey: 0xffff, qkey: 0x8001_0000, src_qpn: 1, len: MAD_LEN };

/// A MAD in a packet to QP 1, with room for the ICRC.
pub fn mad_packet(mad: &[u8; MAD_LEN], headers: Headers) -> Vec<u8> {
    let mut bytes = vec![headers.opcode, 0x40];
    bytes.extend(headers.pkey.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    bytes.extend(headers.qkey.to_be_bytes());
    bytes.extend(headers.src_qpn.to_be_bytes());
    bytes.extend(mad.iter().chain(&[0; 8]).take(headers.len));
    bytes.extend([0; 4]);
    bytes
}

pub struct Attacker {
    datapath: LoopbackDatapath,
    pub sent_bytes: u64,
    pub packets: u64,
}

impl Attacker {
    pub fn new(fabric: &LoopbackFabric, last: u8) -> Attacker {
        let datapath = fabric.attach(SocketAddr::new(ip(last), ROCE_PORT)).expect("attached");
        Attacker { datapath, sent_bytes: 0, packets: 0 }
    }

    /// Sends `bytes` with a right ICRC in its last four bytes, from any source.
    pub fn inject(&mut self, src: IpAddr, dst: IpAddr, mut bytes: Vec<u8>) {
        if let Some((covered, trailer)) = bytes.split_last_chunk_mut::<4>() {
            let flow = Flow { src, dst, src_port: 0xc123, dst_port: ROCE_PORT };
            *trailer = icrc(&flow, 0, covered).to_le_bytes();
        }
        self.inject_raw(src, dst, &bytes);
    }

    pub fn inject_raw(&mut self, src: IpAddr, dst: IpAddr, bytes: &[u8]) {
        self.inject_from(SocketAddr::new(src, 0xc123), dst, bytes);
    }

    pub fn inject_from(&mut self, src: SocketAddr, dst: IpAddr, bytes: &[u8]) {
        let route =
            Route { src, dst: SocketAddr::new(dst, ROCE_PORT), hop_limit: 64, traffic_class: 0 };
        if self.datapath.tx_space().is_none() {
            self.datapath.flush().expect("the fabric takes all");
        }
        let space = self.datapath.tx_space().expect("empty again");
        space[..bytes.len()].copy_from_slice(bytes);
        self.datapath.tx_commit(&route, bytes.len(), &mut |_, _| {});
        self.sent_bytes += bytes.len() as u64;
        self.packets += 1;
    }

    /// Hands all packets over and lets `target` work on them. Call it at least every 64 packets.
    pub fn deliver(&mut self, target: &Node) {
        self.datapath.flush().expect("the fabric takes all");
        while target.device.drive() {}
    }

    /// Packets that came to the attacker's own address since the last call, and their bytes.
    pub fn replies(&mut self) -> (usize, u64) {
        let received = self.received();
        (received.len(), received.iter().map(|packet| packet.len() as u64).sum())
    }

    /// The same packets.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let mut packets = vec![];
        let mut take = |rx: RxPacket<'_>| packets.push(rx.payload.to_vec());
        while self.datapath.recv(64, &mut take).expect("the fabric works") > 0 {}
        packets
    }
}
