//! Requests of many sources.

use std::net::{IpAddr, Ipv4Addr};

use uroce_cm::{CommId, IpCm, MAD_LEN, PrivateData};
use uroce_wire::{Gid, Qpn};

use crate::world::{B, req};

pub fn source(n: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0b00_0000 + n))
}

/// A REQ to B as `peer` would send it.
pub fn req_of(peer: IpAddr, n: u32) -> [u8; MAD_LEN] {
    req(|req| {
        req.local_comm_id = CommId(n);
        req.local_qpn = Qpn::new(n);
        req.primary.local_gid = Gid::from_ip(peer);
        let ip = IpCm { source_port: 1, source: peer, destination: B };
        req.private_data = PrivateData::new(&ip.write()).expect("it fits");
    })
}

/// The same, made from one template: many of them are needed.
pub struct Flood {
    template: [u8; MAD_LEN],
    n: u32,
}

impl Flood {
    const COMM_ID: usize = 24;
    const QPN: usize = 24 + 32;
    const GID: usize = 24 + 56 + 12;
    const HEADER: usize = 24 + 140 + 16;

    pub fn new() -> Flood {
        Flood { template: req_of(source(0), 0), n: 0 }
    }

    /// A REQ to B of a source of its own.
    pub fn next(&mut self) -> (IpAddr, [u8; MAD_LEN]) {
        self.n += 1;
        let (peer, mut bytes) = (source(self.n), self.template);
        let IpAddr::V4(v4) = peer else { unreachable!("IPv4") };
        let id = self.n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        bytes[Self::COMM_ID..][..4].copy_from_slice(&id);
        bytes[Self::QPN..][..3].copy_from_slice(&id[..3]);
        bytes[Self::GID..][..4].copy_from_slice(&v4.octets());
        bytes[Self::HEADER..][..4].copy_from_slice(&v4.octets());
        (peer, bytes)
    }
}
