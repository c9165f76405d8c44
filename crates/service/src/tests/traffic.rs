//! What is for whom.

use uroce_datapath::IpId;
use uroce_wire::Flow;

use super::*;

#[test]
fn packets_find_clients_and_leave_with_an_icrc() {
    let running = Running::start();
    let (mut a, mut b, mut peer) = (running.client(), running.client(), running.peer());
    let (to_a, to_b) = (slot(&mut a).qpn(5), slot(&mut b).qpn(6));
    assert_ne!(slot(&mut a), slot(&mut b));
    assert_eq!(a.caps().name, "served");

    send(&mut a, HERE, &packet(RC_SEND, to_b, b"from a to b"));
    assert_eq!(receive(&mut b, 1), [packet(RC_SEND, to_b, b"from a to b")]);

    send(&mut a, THERE, &packet(RC_SEND, Qpn::new(0x99_0001), b"to the peer!"));
    let mut seen = None;
    while seen.is_none() {
        let flow =
            Flow { src: addr(HERE).ip(), dst: addr(THERE).ip(), src_port: 4791, dst_port: 4791 };
        peer.recv(1, &mut |rx| {
            let IpId::Known(id) = rx.ip_id else { panic!("IPv4") };
            assert!(uroce_wire::verify(&flow, id, rx.payload), "the service writes the ICRC");
            seen = Some((rx.src, rx.traffic_class, rx.payload[12..24].to_vec()));
        })
        .expect("connected");
    }
    assert_eq!(seen, Some((addr(HERE), 3, b"to the peer!".to_vec())));

    for (qpn, client) in [(to_a, &mut a), (to_b, &mut b)] {
        send(&mut peer, HERE, &packet(RC_SEND, qpn, b"from peer"));
        assert_eq!(receive(client, 1), [packet(RC_SEND, qpn, b"from peer")]);
    }
    let nobody = Slot::new(200).expect("a slot").qpn(1);
    send(&mut peer, HERE, &packet(RC_SEND, nobody, b"for nobody"));
    running.await_status("drop_no_process 1");
}

/// A client that seals for itself, as with captures and faults: right stays right, and wrong stays wrong.
#[test]
fn an_icrc_of_the_client_stays_as_right_as_it_was() {
    let running = Running::start();
    let mut client = ServedDatapath::open_at(&running.socket(), addr(HERE), true).expect("a place");
    let mut peer = running.peer();
    let flow = Flow { src: addr(HERE).ip(), dst: addr(THERE).ip(), src_port: 4791, dst_port: 4791 };
    for damage in [0, 1] {
        let mut bytes = packet(RC_SEND, Qpn::new(0x99_0001), b"sealed");
        let end = bytes.len() - 4;
        let icrc = uroce_wire::icrc(&flow, 0, &bytes[..end]) ^ damage;
        bytes[end..].copy_from_slice(&icrc.to_le_bytes());
        send(&mut client, THERE, &bytes);
        let mut right = None;
        while right.is_none() {
            peer.recv(1, &mut |rx| {
                right = Some(uroce_wire::verify(&flow, rx.ip_id.known_or_zero(), rx.payload));
            })
            .expect("connected");
        }
        assert_eq!(right, Some(damage == 0));
    }
}

#[test]
fn a_client_sends_from_its_own_queue_pairs_only() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let (own, other) = (slot(&mut a).qpn(5), slot(&mut b).qpn(6));
    send(&mut a, HERE, &datagram(other, other, b"forged"));
    send(&mut a, HERE, &datagram(other, own, b"true"));
    send(&mut a, "[fd00::1]:4791", &packet(RC_SEND, other, b"another version"));
    send(&mut a, "255.255.255.255:4791", &packet(RC_SEND, other, b"for all"));
    assert_eq!(receive(&mut b, 1), [datagram(other, own, b"true")]);
    running.await_status("drop_wrong_peer 1");
    running.await_status("drop_wrong_destination 2");
    running.await_status("3 refused");
}

#[test]
fn requests_go_to_the_client_that_claimed_their_service() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let claim =
        |client: &mut ServedDatapath| client.shared_port().expect("shared").claim_service(7);
    claim(&mut b).expect("free");
    claim(&mut b).expect("its own");
    let taken = claim(&mut a).expect_err("taken");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let request = datagram(Qpn::GSI, Qpn::GSI, b"s");
    send(&mut a, HERE, &request);
    assert_eq!(receive(&mut b, 1), std::slice::from_ref(&request));
    b.shared_port().expect("shared").release_service(7);
    while claim(&mut a).is_err() {}
    send(&mut b, HERE, &request);
    assert_eq!(receive(&mut a, 1), [request]);

    let reply = datagram(Qpn::GSI, Qpn::GSI, &[slot(&mut b).get()]);
    send(&mut a, HERE, &reply);
    assert_eq!(receive(&mut b, 1), [reply]);
    let reject = datagram(Qpn::GSI, Qpn::GSI, b"e");
    (0..20).for_each(|_| send(&mut a, HERE, &reject));
    assert_eq!((receive(&mut a, 1), receive(&mut b, 1)), (vec![reject.clone()], vec![reject]));
    running.await_status("drop_cm_rate_limit");
}

#[test]
fn a_group_is_for_its_members() {
    let running = Running::start();
    let (mut a, mut b, mut peer) = (running.client(), running.client(), running.peer());
    let group = "239.1.2.3:4791";
    a.join(addr(group).ip()).expect("joined");
    a.join(addr(group).ip()).expect("joined before");
    b.join(addr(HERE).ip()).expect_err("no group");
    let bytes = datagram(Qpn::MULTICAST, Qpn::new(0x42), b"for members");
    send(&mut peer, group, &bytes);
    assert_eq!(receive(&mut a, 1), std::slice::from_ref(&bytes));
    assert_eq!(receive_within(&mut b, 1, Duration::from_millis(20)), [[0u8; 0]; 0]);
    b.join(addr(group).ip()).expect("joined");
    a.leave(addr(group).ip()).expect("left");
    while receive_within(&mut a, 1, Duration::from_millis(20)) == [bytes.clone()] {}
    send(&mut peer, group, &bytes);
    assert_eq!(receive(&mut b, 1), [bytes]);
}
