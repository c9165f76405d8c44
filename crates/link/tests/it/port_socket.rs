//! The socket that holds the port, in network namespaces.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use uroce_link::{PortSocket, StackTraffic, interface_of};
use uroce_testkit::namespace::Wire;
use uroce_testkit::wait_until;

fn open(local: &str, port: u16) -> PortSocket {
    let local: IpAddr = local.parse().expect("address");
    let index = interface_of(local).expect("there").index;
    let local = SocketAddr::new(local, port);
    let (socket, bound) = PortSocket::open(local, index, StackTraffic::Copies).expect("free");
    assert_eq!(bound, port);
    socket
}

/// Waits until the port can be bound, which a child of another test may hold for a moment: it has a copy of each descriptor
/// until it executes its program.
fn wait_until_free(ip: IpAddr) {
    wait_until("the port is free", || match UdpSocket::bind((ip, 4791)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
            false
        }
    });
}

#[test]
fn the_port_is_busy_while_the_socket_is_open_and_free_behind_it() {
    let Some(wire) = Wire::new(1500) else { return };
    wire.b.run(|| {
        for (ip, other) in [("10.77.0.2", "10.77.0.3"), ("fd77::2", "fd77::3")] {
            let [ip, other] = [ip, other].map(|ip| ip.parse::<IpAddr>().expect("address"));
            let held = open(&ip.to_string(), 4791);
            let error = UdpSocket::bind((ip, 4791)).expect_err("taken");
            assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
            UdpSocket::bind((other, 4791)).expect("another address");
            drop(held);
            wait_until_free(ip);
        }
    });
}

#[test]
fn the_host_is_a_member_of_a_group_until_it_is_left() {
    let Some(wire) = Wire::new(1500) else { return };
    for (local, group) in [("10.77.0.1", "239.1.2.3"), ("fd77::1", "ff12::1234")] {
        let address: IpAddr = group.parse().expect("group");
        let socket = wire.a.run(move || open(local, 4791));
        let is_member = || wire.a.sh("ip maddr show dev wa").contains(group);
        assert!(!is_member());
        socket.join(address).expect("joined");
        assert!(is_member(), "{group}");
        socket.leave(address).expect("left");
        assert!(!is_member(), "{group}");
        socket.leave(address).expect_err("not a member");
        socket.join(address).expect("joined");
        drop(socket);
        // A child of another test may hold it for a moment.
        wait_until("the closed socket has left", || !is_member());
    }
}

#[test]
fn an_address_of_another_host_is_refused_with_what_was_tried() {
    let Some(wire) = Wire::new(1500) else { return };
    let error = wire.a.run(|| {
        let local = "10.77.0.2:4791".parse().expect("address");
        PortSocket::open(local, 2, StackTraffic::Rest).map(drop).expect_err("the other end")
    });
    assert_eq!(error.what, "binding a UDP socket");
    assert_eq!(error.source.kind(), std::io::ErrorKind::AddrNotAvailable);
}
