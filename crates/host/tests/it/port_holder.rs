//! Who has a UDP port, as the kernel shows it.

use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Socket, Type};
use uroce_host::PortHolder;
use uroce_testkit::wait_until;

/// A socket for both IP versions, or for IPv6 alone.
fn ipv6(addr: &str, only: bool) -> (Socket, u16) {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None).expect("a socket");
    socket.set_only_v6(only).expect("an option");
    socket.bind(&addr.parse::<SocketAddr>().expect("address").into()).expect("free");
    let bound = socket.local_addr().expect("bound").as_socket().expect("IP");
    (socket, bound.port())
}

fn of(ip: &str, port: u16) -> PortHolder {
    PortHolder::of(&SocketAddr::new(ip.parse().expect("address"), port))
}

fn is_ours(holder: PortHolder) -> bool {
    matches!(holder, PortHolder::Own { inode } if inode > 0)
}

/// Waits until the port is free, which a child of another test may hold for a moment: it has a copy of each descriptor until
/// it executes its program.
fn wait_until_free(port: u16) {
    wait_until("the port is free", || of("127.0.0.1", port) == PortHolder::Unknown);
}

#[test]
fn a_port_is_held_while_its_socket_is_open() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("free");
    let port = socket.local_addr().expect("bound").port();
    assert!(is_ours(of("127.0.0.1", port)));
    assert_eq!(of("127.0.0.2", port), PortHolder::Unknown, "another address");
    let copy = socket.try_clone().expect("a descriptor");
    drop(socket);
    assert!(is_ours(of("127.0.0.1", port)), "a copy of the descriptor is open");
    drop(copy);
    wait_until_free(port);
}

#[test]
fn one_of_several_sockets_on_a_port_is_found_until_the_last_is_closed() {
    let open = |port: u16| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        socket.set_reuse_port(true).expect("an option");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).expect("shared");
        socket
    };
    let first = open(0);
    let port = first.local_addr().expect("bound").as_socket().expect("IP").port();
    let second = open(port);
    assert!(is_ours(of("127.0.0.1", port)));
    drop(first);
    assert!(is_ours(of("127.0.0.1", port)));
    drop(second);
    wait_until_free(port);
}

#[test]
fn a_socket_for_all_ipv6_addresses_has_the_port_of_ipv4_too() {
    let (_socket, port) = ipv6("[::]:0", false);
    assert!(is_ours(of("127.0.0.1", port)) && is_ours(of("::1", port)));
    UdpSocket::bind(("127.0.0.1", port)).expect_err("taken");
}

#[test]
fn a_socket_for_all_ipv4_addresses_leaves_ipv6_alone() {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("free");
    let port = socket.local_addr().expect("bound").port();
    assert!(is_ours(of("127.0.0.1", port)));
    assert_eq!(of("::1", port), PortHolder::Unknown);
    UdpSocket::bind(("::1", port)).expect("free");
}

#[test]
fn an_ipv4_address_that_is_written_as_ipv6_is_the_same_address() {
    let (_socket, port) = ipv6("[::ffff:127.0.0.1]:0", false);
    assert!(is_ours(of("127.0.0.1", port)));
    UdpSocket::bind(("127.0.0.1", port)).expect_err("taken");
    assert_eq!(of("127.0.0.2", port), PortHolder::Unknown);
}

#[test]
fn each_holder_has_words_and_a_remedy_of_its_own() {
    let holders = [
        PortHolder::Kernel,
        PortHolder::Own { inode: 1 },
        PortHolder::Other { uid: 7, inode: 1 },
        PortHolder::Unknown,
    ];
    let texts: std::collections::BTreeSet<_> =
        holders.iter().map(|holder| (holder.to_string(), holder.remedy())).collect();
    assert_eq!(texts.len(), holders.len());
    assert!(texts.iter().all(|(who, remedy)| !who.is_empty() && !remedy.is_empty()));
}
