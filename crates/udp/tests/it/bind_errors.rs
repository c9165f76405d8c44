//! Every way in which opening the UDP datapath fails tells what to do.

use std::net::SocketAddr;

use uroce_datapath::Datapath;
use uroce_host::BindError;
use uroce_udp::{UdpConfig, UdpDatapath};

fn bind(address: &str, port: u16) -> Result<UdpDatapath, BindError> {
    let local = SocketAddr::new(address.parse().expect("address"), port);
    UdpDatapath::bind(&UdpConfig::new(local))
}

#[test]
fn a_busy_port_names_its_holder() {
    let first = bind("127.0.0.1", 0).expect("bind");
    let error = bind("127.0.0.1", first.local().port()).expect_err("busy");
    assert!(matches!(error, BindError::PortBusy { .. }));
    let text = error.to_string();
    assert!(text.contains("a process of this user") && text.contains("--address"), "{text}");
}

#[test]
fn a_foreign_address_lists_the_local_ones() {
    for address in ["192.0.2.77", "2001:db8::77"] {
        let error = bind(address, 0).expect_err("not local");
        assert!(matches!(error, BindError::NotLocal { .. }), "{error:?}");
        assert!(error.to_string().contains(" (lo)"), "{error}");
    }
}

#[test]
fn an_address_for_all_interfaces_is_refused() {
    for address in ["0.0.0.0", "::", "239.1.1.1", "ff02::1", "255.255.255.255"] {
        let error = bind(address, 0).expect_err("not one interface");
        assert!(matches!(error, BindError::NotUnicast(_)), "{error:?}");
    }
}

#[test]
fn the_link_mtu_is_that_of_lo() {
    let mtu: usize = std::fs::read_to_string("/sys/class/net/lo/mtu")
        .expect("lo")
        .trim()
        .parse()
        .expect("number");
    for address in ["127.0.0.1", "127.0.0.9", "::1"] {
        assert_eq!(bind(address, 0).expect("bind").caps().mtu, mtu, "{address}");
    }
}

#[test]
fn the_granted_buffers_are_reported() {
    let stats = bind("127.0.0.1", 0).expect("bind").stats();
    assert!(stats.recv_buffer >= 100_000 && stats.send_buffer >= 100_000, "{stats:?}");
}
