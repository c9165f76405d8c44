//! Sockets of datagrams, and peers on UDP and on queue pairs that say what they like.

use std::net::{SocketAddr, UdpSocket};

use libc::{MSG_DONTWAIT, MSG_PEEK, POLLIN, POLLOUT, c_int};
use uroce_ibverbs::errno::{Errno, INVALID, NOT_SUPPORTED};
use uroce_verbs_abi::{RDMA_RQSIZE, SOL_RDMA};

use super::{AGAIN, LONG_MS, at, events, handle, new, wait_for};
use crate::close;
use crate::datagram_header::{self as header, Introduction};
use crate::datagram_queue_pair::DatagramQueuePair;
use crate::datagrams::MOST_PORTS;

/// A socket on an address of its own.
fn bound(text: &str) -> (c_int, SocketAddr) {
    let fd = new(libc::SOCK_DGRAM);
    handle(fd).bind(at(text)).expect("a free port");
    (fd, handle(fd).local().expect("it is bound"))
}

fn receive(fd: c_int, out: &mut [u8]) -> Result<(usize, Option<SocketAddr>), Errno> {
    assert_eq!(wait_for(fd, POLLIN, LONG_MS), POLLIN, "a datagram comes");
    handle(fd).receive(out, MSG_DONTWAIT)
}

/// A program on UDP that speaks the protocol, and its address.
fn on_udp(text: &str) -> (UdpSocket, SocketAddr) {
    let udp = UdpSocket::bind(at(text)).expect("a free port");
    udp.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a time");
    let address = udp.local_addr().expect("it is bound");
    (udp, address)
}

fn introduce(udp: &UdpSocket, introduction: Introduction, data: &[u8], to: SocketAddr) {
    let bytes = [&introduction.encode()[..], data].concat();
    udp.send_to(&bytes, to).expect("loopback takes it");
}

/// What comes by UDP next.
fn introduced(udp: &UdpSocket) -> (Introduction, Vec<u8>) {
    let mut bytes = [0; 2_000];
    let (length, _) = udp.recv_from(&mut bytes).expect("a datagram comes");
    let (introduction, data) = Introduction::decode(&bytes[..length]).expect("an introduction");
    (introduction, data.to_vec())
}

/// The next datagram that comes to the queue pair.
fn taken(queue_pair: &mut DatagramQueuePair) -> Vec<u8> {
    let mut found = None;
    while found.is_none() {
        queue_pair.take(|arrival| found = Some(arrival.bytes));
        std::thread::yield_now();
    }
    found.unwrap_or_default()
}

#[test]
fn who_introduces_itself_with_data_gets_the_number_of_the_queue_pair() {
    let (socket, address) = bound("127.48.96.1:0");
    let (udp, from) = on_udp("127.48.96.2:0");
    let mut queue_pair = DatagramQueuePair::new(from.ip(), 16).expect("a device");
    let ours = Introduction { is_data: true, qpn: queue_pair.qpn(), to: address.ip() };
    introduce(&udp, ours, b"hello", address);
    let mut out = [0; 8];
    assert_eq!(receive(socket, &mut out), Ok((5, Some(from))));
    assert_eq!(&out[..5], b"hello");
    let (answer, data) = introduced(&udp);
    assert_eq!((answer.is_data, answer.to, data.len()), (false, from.ip(), 0));
    assert_eq!(handle(socket).send(b"by RDMA", 0, Some(from)), Ok(7));
    let wanted = [&header::encode(address)[..], b"by RDMA"].concat();
    assert_eq!(taken(&mut queue_pair), wanted, "it knows our queue pair");
    let sent = queue_pair.send([&header::encode(from), b"back"], address.ip(), answer.qpn);
    assert_eq!(sent, Ok(true));
    assert_eq!(receive(socket, &mut out), Ok((4, Some(from))));
    assert_eq!(close(socket), Ok(()));
}

#[test]
fn a_first_datagram_goes_by_udp_until_the_peer_has_answered() {
    let (socket, address) = bound("127.48.96.3:0");
    let (udp, peer) = on_udp("127.48.96.4:0");
    for text in [&b"one"[..], b"two"] {
        assert_eq!(handle(socket).send(text, 0, Some(peer)), Ok(3));
        let (introduction, data) = introduced(&udp);
        assert_eq!((introduction.is_data, introduction.to, &data[..]), (true, peer.ip(), text));
    }
    let mut queue_pair = DatagramQueuePair::new(peer.ip(), 16).expect("a device");
    let answer = Introduction { is_data: false, qpn: queue_pair.qpn(), to: address.ip() };
    introduce(&udp, answer, b"", address);
    assert_eq!(events(socket) & POLLIN, 0, "an answer is no datagram");
    // The kernel has queued the answer before the socket looks at it here.
    assert_eq!(handle(socket).send(b"three", 0, Some(peer)), Ok(5));
    assert!(taken(&mut queue_pair).ends_with(b"three"));
    assert_eq!(close(socket), Ok(()));
}

/// rdma-core's sender puts its own address into the header.
#[test]
fn a_datagram_is_for_the_address_that_it_was_sent_to_whatever_it_says() {
    let (socket, address) = bound("127.48.96.5:0");
    let (udp, from) = on_udp("127.48.96.6:0");
    let mut out = [0; 8];
    for named in ["127.48.96.6:0", "127.48.96.7:0", "192.0.2.1:0", "[2001:db8::1]:0"] {
        let introduction = Introduction { is_data: true, qpn: 7, to: at(named).ip() };
        introduce(&udp, introduction, b"yes", address);
        assert_eq!(receive(socket, &mut out), Ok((3, Some(from))), "{named}");
    }
    assert_eq!(close(socket), Ok(()));
}

#[test]
fn a_stranger_does_not_choose_the_device() {
    let any = new(libc::SOCK_DGRAM);
    handle(any).bind(at("0.0.0.0:0")).expect("a free port");
    let port = handle(any).local().expect("it is bound").port();
    let (udp, from) = on_udp("127.48.96.22:0");
    let mut queue_pair = DatagramQueuePair::new(from.ip(), 16).expect("a device");
    let elsewhere = at("127.48.96.23:0").ip();
    let introduction = Introduction { is_data: true, qpn: queue_pair.qpn(), to: elsewhere };
    let meant = SocketAddr::new(at("127.48.96.24:0").ip(), port);
    introduce(&udp, introduction, b"hello", meant);
    assert_eq!(receive(any, &mut [0; 8]), Ok((5, Some(from))));
    assert_eq!(handle(any).send(b"back", 0, Some(from)), Ok(4));
    let wanted = [&header::encode(meant)[..], b"back"].concat();
    assert_eq!(taken(&mut queue_pair), wanted, "from the device that it was sent to");
    assert_eq!(close(any), Ok(()));
}

#[test]
fn strangers_open_devices_up_to_a_number() {
    let any = new(libc::SOCK_DGRAM);
    handle(any).set_option(SOL_RDMA, RDMA_RQSIZE, 16).expect("in range");
    handle(any).bind(at("0.0.0.0:0")).expect("a free port");
    let port = handle(any).local().expect("it is bound").port();
    let (udp, from) = on_udp("127.48.96.25:0");
    for last in 1..=MOST_PORTS as u8 + 1 {
        let to = SocketAddr::from(([127, 48, 100, last], port));
        introduce(&udp, Introduction { is_data: true, qpn: 7, to: to.ip() }, b"hello", to);
        if usize::from(last) <= MOST_PORTS {
            assert_eq!(receive(any, &mut [0; 8]), Ok((5, Some(from))));
        }
    }
    assert_eq!(events(any), 0, "one too many");
    assert_eq!(handle(any).any().fds().len(), 1 + MOST_PORTS);
    let known = SocketAddr::from(([127, 48, 100, 1], port));
    introduce(&udp, Introduction { is_data: true, qpn: 7, to: known.ip() }, b"again", known);
    assert_eq!(receive(any, &mut [0; 8]), Ok((5, Some(from))), "this device is open");
    assert_eq!(close(any), Ok(()));
}

#[test]
fn a_datagram_whose_sender_is_another_one_is_dropped() {
    let (socket, address) = bound("127.48.96.8:0");
    let (udp, from) = on_udp("127.48.96.9:0");
    let mut queue_pair = DatagramQueuePair::new(from.ip(), 16).expect("a device");
    let ours = Introduction { is_data: true, qpn: queue_pair.qpn(), to: address.ip() };
    introduce(&udp, ours, b"", address);
    let mut out = [0; 8];
    assert_eq!(receive(socket, &mut out), Ok((0, Some(from))), "no bytes are a datagram, too");
    let (answer, _) = introduced(&udp);
    let mut send = |head: &[u8], data: &[u8]| {
        assert_eq!(queue_pair.send([head, data], address.ip(), answer.qpn), Ok(true));
    };
    send(&header::encode(at("127.48.96.10:9")), b"false");
    send(&header::encode(at("[2001:db8::1]:9")), b"false");
    send(b"", b"");
    send(&[4, 8, 0], b"");
    send(&[4, 255, 0, 9, 127, 48, 96, 9], b"cut");
    send(&[9; 8], b"version");
    send(&header::encode(SocketAddr::new(from.ip(), 99)), b"true");
    assert_eq!(receive(socket, &mut out), Ok((4, Some(SocketAddr::new(from.ip(), 99)))));
    assert_eq!(handle(socket).receive(&mut out, MSG_DONTWAIT), Err(AGAIN));
    assert_eq!(close(socket), Ok(()));
}

#[test]
fn as_many_datagrams_wait_as_the_option_says() {
    let (socket, address) = bound("127.48.96.11:0");
    assert_eq!(handle(socket).set_option(SOL_RDMA, RDMA_RQSIZE, 16), Ok(()));
    let (udp, _) = on_udp("127.48.96.12:0");
    let ours = Introduction { is_data: true, qpn: 7, to: address.ip() };
    for number in 0..20_u8 {
        introduce(&udp, ours, &[number], address);
        // It takes this one now.
        assert_eq!(wait_for(socket, POLLIN, LONG_MS), POLLIN);
    }
    let mut out = [0; 4];
    for number in 0..16 {
        assert_eq!(handle(socket).receive(&mut out, MSG_DONTWAIT).map(|(count, _)| count), Ok(1));
        assert_eq!(out[0], number);
    }
    assert_eq!(handle(socket).receive(&mut out, MSG_DONTWAIT), Err(AGAIN), "the others are lost");
    assert_eq!(close(socket), Ok(()));
}

#[test]
fn a_datagram_is_cut_to_the_buffer_and_fills_pieces_in_turn() {
    let ((one, from), (two, to)) = (bound("127.48.96.13:0"), bound("127.48.96.14:0"));
    let send = |bytes: &[u8]| assert_eq!(handle(one).send(bytes, 0, Some(to)), Ok(bytes.len()));
    let mut out = [0; 4];
    send(b"abcdef");
    assert_eq!(wait_for(two, POLLIN, LONG_MS), POLLIN);
    let looked = handle(two).receive(&mut out[..2], MSG_PEEK);
    assert_eq!((looked, &out[..2]), (Ok((2, Some(from))), &b"ab"[..]));
    assert_eq!((receive(two, &mut out), &out), (Ok((4, Some(from))), b"abcd"));
    assert_eq!(handle(two).receive(&mut out, MSG_DONTWAIT), Err(AGAIN), "the rest is lost");
    let pieces = [&b"ab"[..], b"", b"cde"].map(Ok);
    assert_eq!(handle(one).send_pieces(pieces.into_iter(), 0, Some(to)), Ok(5));
    assert_eq!(wait_for(two, POLLIN, LONG_MS), POLLIN);
    let (mut first, mut second, mut third) = ([0; 1], [0; 3], [0; 8]);
    let pieces = [Ok(&mut first[..]), Ok(&mut second[..]), Ok(&mut third[..])];
    let got = handle(two).receive_pieces(pieces.into_iter(), 0);
    assert_eq!(got, Ok((5, Some(from))), "one datagram");
    assert_eq!((&first, &second, third[0]), (b"a", b"bcd", b'e'));
    assert_eq!((close(one), close(two)), (Ok(()), Ok(())));
}

#[test]
fn the_longest_datagram_is_a_packet_less_its_header() {
    let ((one, _), (two, to)) = (bound("127.48.96.15:0"), bound("127.48.96.16:0"));
    let queue_pair = DatagramQueuePair::new(to.ip(), 16).expect("a device");
    let longest = queue_pair.most - header::length(to.ip());
    let mut out = vec![0; queue_pair.most];
    // The first one goes by UDP, the second one by RDMA.
    for round in 0..2 {
        let sent = handle(one).send(&vec![round; longest], 0, Some(to));
        assert_eq!(sent, Ok(longest));
        assert_eq!(receive(two, &mut out).map(|(count, _)| count), Ok(longest));
        assert_eq!((out[0], out[longest - 1]), (round, round));
        let longer = handle(one).send(&vec![round; longest + 1], 0, Some(to));
        assert_eq!(longer, Err(Errno(libc::EMSGSIZE)), "a byte more");
    }
    assert_eq!((close(one), close(two)), (Ok(()), Ok(())));
}

#[test]
fn a_socket_gets_a_port_when_it_first_sends() {
    let one = new(libc::SOCK_DGRAM);
    let (two, to) = bound("127.48.96.17:0");
    assert_eq!(handle(one).local().map(|local| local.port()), Some(0));
    assert_eq!(handle(one).peer(), None);
    assert_eq!(handle(one).send(b"x", 0, Some(to)), Ok(1));
    let local = handle(one).local().expect("it has a port now");
    assert!(local.port() > 0);
    assert_eq!(receive(two, &mut [0]), Ok((1, Some(local))));
    assert_eq!(handle(one).bind(at("127.48.96.18:0")), Err(INVALID), "it is bound");
    assert_eq!((close(one), close(two)), (Ok(()), Ok(())));
}

#[test]
fn sockets_of_datagrams_have_options_of_their_own() {
    let (socket, _) = bound("127.48.96.19:0");
    let get = |name| handle(socket).option(libc::SOL_SOCKET, name);
    assert_eq!(get(libc::SO_TYPE), Ok(libc::SOCK_DGRAM));
    assert_eq!((get(libc::SO_ERROR), get(libc::SO_ACCEPTCONN)), (Ok(0), Ok(0)));
    assert_eq!(
        handle(socket).option(libc::IPPROTO_TCP, libc::TCP_MAXSEG),
        Err(Errno(libc::ENOPROTOOPT))
    );
    assert_eq!(events(socket), 0);
    assert_eq!(wait_for(socket, POLLIN | POLLOUT, 0), POLLOUT, "there is room");
    assert!(handle(socket).is_datagram());
    assert_eq!(handle(socket).accept().err(), Some(NOT_SUPPORTED));
    assert_eq!(handle(socket).unmap(0, 1), Err(NOT_SUPPORTED));
    assert_eq!(handle(socket).write_mapped(b"x", 0, 0), Err(NOT_SUPPORTED));
    assert_eq!(handle(socket).receive(&mut [0], libc::MSG_OOB), Err(NOT_SUPPORTED));
    assert_eq!(close(socket), Ok(()));
}

#[test]
fn two_sockets_do_not_share_a_port() {
    let (one, address) = bound("127.48.96.20:0");
    let two = new(libc::SOCK_DGRAM);
    assert_eq!(handle(two).bind(address), Err(Errno(libc::EADDRINUSE)));
    assert_eq!(handle(two).bind(at("192.0.2.1:0")), Err(Errno(libc::EADDRNOTAVAIL)));
    assert_eq!(close(one), Ok(()));
    assert_eq!(handle(two).bind(address), Ok(()), "it is free again");
    assert_eq!(close(two), Ok(()));
}

#[test]
fn the_loopback_address_is_that_of_a_device() {
    let any = new(libc::SOCK_DGRAM);
    handle(any).bind(at("0.0.0.0:0")).expect("a free port");
    let port = handle(any).local().expect("it is bound").port();
    let (caller, to) = (new(libc::SOCK_DGRAM), SocketAddr::from(([127, 0, 0, 1], port)));
    let mut out = [0; 8];
    // The first one goes by UDP, the second one by RDMA.
    for text in [&b"one"[..], b"two"] {
        assert_eq!(handle(caller).send(text, 0, Some(to)), Ok(3));
        let from = handle(caller).local();
        assert_eq!((receive(any, &mut out), &out[..3]), (Ok((3, from)), text));
    }
    assert_eq!((close(any), close(caller)), (Ok(()), Ok(())));
}
