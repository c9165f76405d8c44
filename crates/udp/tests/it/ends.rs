//! Ends for the tests: datapaths on addresses of this host, and routes between them.

use std::net::SocketAddr;

use uroce_datapath::{Datapath, Route};
use uroce_udp::{UdpConfig, UdpDatapath};

/// A datapath with everything that a new one has, on a port of the kernel's choice.
pub fn bind(address: &str) -> UdpDatapath {
    bind_with(address, true)
}

/// The same with segmentation by the kernel or without.
pub fn bind_with(address: &str, offload: bool) -> UdpDatapath {
    let local = SocketAddr::new(address.parse().expect("address"), 0);
    UdpDatapath::bind(&UdpConfig { offload, ..UdpConfig::new(local) }).expect("bind")
}

pub fn route(from: &mut UdpDatapath, dst: SocketAddr) -> Route {
    let src = SocketAddr::new(from.local().ip(), from.source_port(0xC777));
    Route { src, dst, hop_limit: 64, traffic_class: 0 }
}
