//! Every way in which opening fails tells what to do.

use std::net::IpAddr;

use uroce_xdp::{XdpConfig, XdpError, XdpMode};

use crate::lab;
use crate::lab::Lab;

fn config(address: IpAddr) -> XdpConfig {
    XdpConfig::new((address, 4791).into())
}

fn error(lab: &Lab, host: usize, config: XdpConfig) -> XdpError {
    lab.try_open(host, config).expect_err("refused")
}

#[test]
fn addresses_and_names_that_are_not_here() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let foreign = error(&lab, 0, config(lab::v4(1)));
    assert!(matches!(foreign, XdpError::NotLocal(_)), "{foreign}");
    assert!(foreign.to_string().contains("`ip addr`"), "{foreign}");
    let home = error(&lab, 0, config(IpAddr::from([127, 0, 0, 1])));
    assert!(matches!(home, XdpError::Loopback(_)), "{home}");
    let interface = Some("no-such-one".to_owned());
    let named = error(&lab, 0, XdpConfig { interface, ..config(lab::v4(0)) });
    assert!(matches!(named, XdpError::NoInterface(_)), "{named}");
    assert!(named.to_string().contains("no-such-one"), "{named}");
}

#[test]
fn a_second_owner_is_told_about_the_first() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let _first = lab.open(0, lab::v4(0), XdpMode::Generic);
    let port = error(&lab, 0, config(lab::v4(0)));
    assert!(matches!(port, XdpError::PortBusy(_)), "{port}");
    // Another address of the same interface: the port is free, the queue is not.
    let queue = error(&lab, 0, config(lab::v6(0)));
    assert!(matches!(queue, XdpError::QueueBusy { queue: 0, .. }), "{queue}");
    assert!(queue.to_string().contains(lab::INTERFACE), "{queue}");
}

#[test]
fn a_foreign_program_is_not_replaced() {
    if lab::cannot_run() {
        return;
    }
    // Somebody else's program; it is attached by us too, on another queue's behalf.
    let lab = Lab::new();
    let first = lab.open(0, lab::v4(0), XdpMode::Native);
    // A host address for each try: a port may stay taken for a moment (see `Lab::loses_program`).
    for (mode, last) in [(XdpMode::Native, 101), (XdpMode::Generic, 102)] {
        let address = IpAddr::from([10, 77, 0, last]);
        lab.ip(&lab.host(0), &format!("addr add {address}/24 dev {}", lab::INTERFACE));
        let second = error(&lab, 0, XdpConfig { mode, ..config(address) });
        let busy = matches!(second, XdpError::QueueBusy { .. } | XdpError::ProgramBusy { .. });
        assert!(busy, "{second}");
        assert!(lab.has_program(0));
    }
    drop(first);
    assert!(lab.loses_program(0));
}

#[test]
fn a_mode_that_the_driver_has_not_is_named() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let none = error(&lab, 0, XdpConfig { mode: XdpMode::ZeroCopy, ..config(lab::v4(0)) });
    let text = none.to_string();
    assert!(matches!(none, XdpError::Mode { .. } | XdpError::MtuTooLarge { .. }), "{text}");
}

#[test]
fn without_privilege_the_capabilities_are_named() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let failure = lab.inside(&lab.host(0), || {
        // Capabilities belong to the thread, which ends with this closure.
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).expect("giving up rights");
        let error = uroce_xdp::XdpDatapath::open(&config(lab::v4(0))).expect_err("not permitted");
        (matches!(error, XdpError::Permission { .. }), error.to_string())
    });
    assert!(failure.0 && failure.1.contains("CAP_NET_ADMIN"), "{}", failure.1);
    assert!(!lab.has_program(0));
}
