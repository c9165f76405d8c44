//! Devices with several engines: queue pairs of each do everything, with what belongs to the device.

mod common;
#[path = "engines/connections.rs"]
mod connections;
#[path = "engines/refusals.rs"]
mod refusals;
#[path = "engines/traffic.rs"]
mod traffic;
#[path = "engines/wire.rs"]
mod wire;

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use common::Node;
use uroce_device::transport::QpType;
use uroce_device::wire::Qpn;
use uroce_device::{Device, DeviceConfig};

const PORT: u16 = 24_791;

/// Each device has an address of its own.
fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 92, 16, last).into()
}

fn config(last: u8, engines: u8) -> DeviceConfig {
    let engines = NonZeroU8::new(engines).expect("not 0");
    DeviceConfig { port: PORT, engines, ..DeviceConfig::new(address(last)) }
}

/// The engines of one device: a node with a CQ in each, and one protection domain.
fn open(config: DeviceConfig) -> Vec<Node> {
    // Another test may be starting a program: until that runs, it holds the port of a device that was just closed.
    let end = Instant::now() + Duration::from_secs(2);
    let device = loop {
        match Device::open(config.clone()) {
            Ok(device) => break device,
            Err(error) => assert!(Instant::now() < end, "the device opens: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let pd = device.memory().alloc_pd().expect("a PD");
    let vectors = 0..device.attr().num_comp_vectors;
    let node = |vector| {
        let cq = device.create_cq_on(vector, 8192, None, 0).expect("a CQ");
        Node { device: device.clone(), pd, cq }
    };
    vectors.map(node).collect()
}

/// Connected RC queue pairs, spread over the engines of both devices in every combination. Each comes with
/// the number of its engine.
fn rc_pairs(a: &[Node], b: &[Node], count: usize) -> Vec<[(usize, Qpn); 2]> {
    let pair = |number: usize| {
        let (at_a, at_b) = (number % a.len(), number / a.len() % b.len());
        let (qa, qb) = (a[at_a].qp(QpType::Rc), b[at_b].qp(QpType::Rc));
        a[at_a].connect(qa, b[at_b].device.address(), qb);
        b[at_b].connect(qb, a[at_a].device.address(), qa);
        [(at_a, qa), (at_b, qb)]
    };
    (0..count).map(pair).collect()
}
