//! Clients that leave, in good order or not: what they had sent is sent, and nobody waits for them.

use rustix::net::Shutdown;

use super::*;
use crate::client::testing::attach;
use crate::head::SentHead;
use crate::ring::{RingSender, SENT};

/// The head of a packet to the served address.
fn head(len: usize) -> crate::head::HeadBytes {
    let (dst, src_port, hop_limit) = (addr(HERE).ip(), 4791, 64);
    let (traffic_class, starts_batch, sealed) = (0, false, false);
    SentHead { dst, src_port, hop_limit, traffic_class, starts_batch, sealed, len }.encode()
}

/// The last acknowledgement of a program that ends.
#[test]
fn what_a_client_sent_before_it_left_arrives() {
    let running = Running::start();
    let (mut b, mut peer) = (running.client(), running.peer());
    let to_b = slot(&mut b).qpn(1);
    for round in 0..30u8 {
        let mut client = running.client();
        let (near, far) = (packet(RC_SEND, to_b, &[round; 8]), Qpn::new(0x99_0001));
        // More than the service takes in one turn.
        for _ in 0..40 {
            assert!(commit(&mut client, HERE, &near));
            assert!(commit(&mut client, THERE, &packet(RC_SEND, far, &[round; 8])));
        }
        client.flush().expect("sent");
        drop(client);
        assert!(receive(&mut b, 40).iter().all(|got| *got == near), "round {round}");
        assert!(receive(&mut peer, 40).iter().all(|got| got[12..20] == [round; 8]));
    }
}

#[test]
fn what_a_client_sent_before_it_wrote_nonsense_arrives() {
    let running = Running::start();
    let mut b = running.client();
    let bytes = packet(RC_SEND, slot(&mut b).qpn(1), b"before the nonsense");
    for _ in 0..10 {
        let bad = attach(&running.socket(), addr(HERE));
        let mut ring = RingSender::new(SENT);
        for _ in 0..3 {
            assert!(ring.push(&bad.memory, &head(bytes.len()), &bytes));
        }
        assert!(ring.push(&bad.memory, &[0xee; crate::head::HEAD], &bytes));
        ring.publish(&bad.memory);
        assert_eq!(receive(&mut b, 3), [&bytes[..]; 3]);
    }
    running.await_status("1 clients");
}

/// It has closed its socket, and fills its ring all the same.
#[test]
fn a_client_that_has_hung_up_is_not_served_for_ever() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let gone = attach(&running.socket(), addr(HERE));
    let nobody = packet(RC_SEND, Slot::new(250).expect("a slot").qpn(1), b"");
    rustix::net::shutdown(&gone.control, Shutdown::Both).expect("connected");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut ring = RingSender::new(SENT);
            while !stop.load(Ordering::Relaxed) {
                ring.push(&gone.memory, &head(nobody.len()), &nobody);
                ring.publish(&gone.memory);
            }
        });
        let to_b = slot(&mut b).qpn(1);
        for _ in 0..50 {
            send(&mut a, HERE, &packet(RC_SEND, to_b, b"beside it"));
            receive(&mut b, 1);
        }
        stop.store(true, Ordering::Relaxed);
    });
    running.await_status("2 clients");
}
