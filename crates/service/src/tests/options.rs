//! What the datapath of a client says of itself, and how it ends.

use uroce_datapath::{IcrcRx, IcrcTx};

use super::*;

#[test]
fn a_client_has_the_abilities_of_the_datapath_behind_it() {
    let running = Running::start();
    let inner = running.peer().caps().clone();
    let client = running.client();
    let caps = client.caps();
    assert_eq!((caps.mtu, caps.segments), (inner.mtu, inner.segments));
    assert_eq!((caps.icrc.rx, caps.icrc.tx), (IcrcRx::Verify, IcrcTx::Skip));
    assert_eq!(client.local(), addr(HERE));
    let sealing = ServedDatapath::open_at(&running.socket(), addr(HERE), true).expect("a place");
    assert_eq!(sealing.caps().icrc.tx, IcrcTx::Seal);
}

#[test]
fn a_full_ring_blocks_the_sender_and_loses_nothing() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let to_b = slot(&mut b).qpn(1);
    let bytes = packet(RC_SEND, to_b, &[5; 4000]);
    let (mut sent, mut got, mut blocked) = (0, 0, false);
    while sent < 2000 {
        if commit(&mut a, HERE, &bytes) {
            sent += 1;
        } else {
            blocked |= a.flush().expect("sent").blocked;
            got += receive_within(&mut b, 256, Duration::ZERO).len();
            got += receive_within(&mut b, 256, Duration::from_micros(200)).len();
        }
    }
    a.flush().expect("sent");
    assert!(blocked, "128 packets fill the ring");
    receive(&mut b, sent - got);
    assert_eq!((a.stats().tx_packets, b.stats().rx_packets), (2000, 2000));
    assert_eq!(b.stats().rx_dropped, 0);
}

#[test]
fn what_is_too_short_for_a_packet_is_dropped_where_it_was_made() {
    let running = Running::start();
    let mut client = running.client();
    send(&mut client, HERE, &[0; 15]);
    assert_eq!((client.stats().tx_dropped, client.stats().tx_packets), (1, 0));
    let own = slot(&mut client).qpn(1);
    send(&mut client, HERE, &packet(RC_SEND, own, b""));
    assert_eq!(receive(&mut client, 1), [packet(RC_SEND, own, b"")]);
}

#[test]
fn ipv6_is_served_as_well() {
    let fabric = LoopbackFabric::new();
    let local = addr("[fd00::1]:4791");
    let inner = Box::new(fabric.attach(local).expect("free"));
    let mut peer = fabric.attach(addr("[fd00::2]:4791")).expect("free");
    let running = Running::start();
    let socket = running.folder.join("second");
    let options = ServiceOptions {
        socket: Some(socket.clone()),
        slots: running.folder.join("second-slots"),
        ..running.options.clone()
    };
    let mut service = PortService::new(vec![inner], gsi, (None, options)).expect("a service");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| service.run(&stop).expect("no failure"));
        let mut client = ServedDatapath::open_at(&socket, local, false).expect("a place");
        let bytes = packet(RC_SEND, slot(&mut client).qpn(3), b"from the peer");
        send(&mut peer, "[fd00::1]:4791", &bytes);
        assert_eq!(receive(&mut client, 1), std::slice::from_ref(&bytes));
        let bytes = packet(RC_SEND, Qpn::new(0x99_0001), b"to the peer");
        send(&mut client, "[fd00::2]:4791", &bytes);
        let got = receive(&mut peer, 1);
        assert_eq!(got[0][..got[0].len() - 4], bytes[..bytes.len() - 4]);
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_service_ends_its_own_socket_and_no_other() {
    let running = Running::start();
    let inner = Box::new(LoopbackFabric::new().attach(addr(HERE)).expect("free"));
    let taken = PortService::new(vec![inner], gsi, (None, running.options.clone()));
    let error = taken.expect_err("a service runs there").kind();
    assert_eq!(error, std::io::ErrorKind::AddrInUse);
    running.await_status("0 clients");
}

#[test]
fn the_status_names_clients_and_what_they_did() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let to_b = slot(&mut b).qpn(1);
    send(&mut a, HERE, &packet(RC_SEND, to_b, b"one"));
    receive(&mut b, 1);
    let (user, process) = (rustix::process::geteuid().as_raw(), std::process::id());
    running.await_status("10.0.0.1:4791: datapath loopback, 2 clients");
    running.await_status(&format!(
        "slot {}: user {user}, process {process}: 1 packets sent",
        slot(&mut a)
    ));
    running.await_status(&format!(
        "slot {}: user {user}, process {process}: 0 packets sent, 1 received",
        to_b.get() >> 16
    ));
}
