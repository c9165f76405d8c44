//! What anybody can send to the port is taken in within the bounds of a poll iteration.

mod common;

use std::net::UdpSocket;

use common::Node;
use uroce_device::DeviceConfig;
use uroce_device::limits::RX_BUDGET;

/// RX_BUDGET "bounds how long an iteration can hold the lock": also where datagrams are empty.
#[test]
fn empty_datagrams_count_for_the_budget_of_a_poll_iteration() {
    const SENT: u64 = 4000;
    let address = [127, 93, 8, 1].into();
    let node = Node::open(DeviceConfig {
        port: 24_992,
        progress_thread: false,
        ..DeviceConfig::new(address)
    });
    let anybody = UdpSocket::bind("127.0.0.1:0").expect("a port");
    (0..SENT).for_each(|_| assert_eq!(anybody.send_to(&[], (address, 24_992)).expect("sent"), 0));
    node.device.drive();
    let dropped = node.counter("drop_too_short");
    assert!(dropped <= 4 * RX_BUDGET as u64, "{dropped} datagrams under one lock");
}
