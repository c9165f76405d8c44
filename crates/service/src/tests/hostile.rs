//! Clients that do what none should: they harm themselves only.

use super::*;
use crate::client::testing::{Attachment, attach};
use crate::control::ControlSocket;
use crate::message::{ClientMessage, ServiceMessage};
use crate::ring::{ARRIVED, CLIENT_SLEEPS, MEMORY, SENT};

/// Two sound clients can talk: the service has survived.
fn still_serves(running: &Running) {
    let (mut a, mut b) = (running.client(), running.client());
    let to_b = slot(&mut b).qpn(1);
    send(&mut a, HERE, &packet(RC_SEND, to_b, b"alive"));
    assert_eq!(receive(&mut b, 1), [packet(RC_SEND, to_b, b"alive")]);
}

fn is_put_out(client: &Attachment) {
    let end = Instant::now() + Duration::from_secs(20);
    while client.control.receive().is_ok() {
        assert!(Instant::now() < end, "it still has its place");
        client.control.send(&ClientMessage::Wake.encode()).ok();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a31_who_writes_nonsense_into_a_ring_loses_its_place() {
    let running = Running::start();
    let bad_indices = [1, 63, 64 * 1024 * 1024, u32::MAX, u32::MAX - 63];
    for index in bad_indices {
        let client = attach(&running.socket(), addr(HERE));
        client.memory.store(SENT.sent_word(), index);
        is_put_out(&client);
    }
    for kind in [0, 1, 2, 3, 0xff] {
        let client = attach(&running.socket(), addr(HERE));
        let filler = vec![kind; 64];
        client.memory.write(SENT.first_byte(), &filler);
        client.memory.store(SENT.sent_word(), 64);
        is_put_out(&client);
    }
    still_serves(&running);
}

/// The whole memory changes all the time while the service works on it.
#[test]
fn a31_a_client_that_scribbles_over_its_memory_harms_nobody_else() {
    let running = Running::start();
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise
    };
    for _ in 0..50 {
        let client = attach(&running.socket(), addr(HERE));
        for _ in 0..200 {
            let at = next() as usize % (MEMORY / 64) * 64;
            client.memory.write(at, &next().to_ne_bytes());
            client.memory.store(SENT.sent_word(), next() as u32 & !63 & 0xffff);
            client.memory.store(ARRIVED.taken_word(), next() as u32);
            client.memory.store(CLIENT_SLEEPS, next() as u32);
        }
        client.control.send(&ClientMessage::Wake.encode()).ok();
    }
    still_serves(&running);
}

#[test]
fn a_client_that_stops_to_read_loses_packets_and_nobody_else_does() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let stopped = attach(&running.socket(), addr(HERE));
    let to_b = slot(&mut b).qpn(1);
    let payload = [7; 4000];
    let mut sent = 0;
    while sent < 3000 {
        if commit(&mut a, HERE, &packet(RC_SEND, stopped.slot.qpn(1), &payload)) {
            sent += 1;
        }
        a.flush().expect("sent");
    }
    send(&mut a, HERE, &packet(RC_SEND, to_b, b"past it"));
    assert_eq!(receive(&mut b, 1), [packet(RC_SEND, to_b, b"past it")]);
    running.await_status("drop_queue_full");
    drop(stopped);
    still_serves(&running);
}

#[test]
fn a_client_that_floods_leaves_room_for_others() {
    let running = Running::start();
    let (mut flooder, mut a, mut b) = (running.client(), running.client(), running.client());
    let nobody = Slot::new(250).expect("a slot").qpn(1);
    let to_b = slot(&mut b).qpn(1);
    let bytes = packet(RC_SEND, to_b, b"in between");
    for _ in 0..200 {
        while commit(&mut flooder, HERE, &packet(RC_SEND, nobody, &[0; 64])) {}
        flooder.flush().expect("sent");
        send(&mut a, HERE, &bytes);
        assert_eq!(receive(&mut b, 1), std::slice::from_ref(&bytes));
    }
}

#[test]
fn messages_that_are_none_close_the_connection() {
    let running = Running::start();
    let long = [b'a'; 300];
    for bytes in [&b"x"[..], b"a", b"q\x01\0\0\0", &long, &[0; 64]] {
        let control = ControlSocket::connect(&running.socket()).expect("listened on");
        control.send(bytes).expect("sent");
        let end = Instant::now() + Duration::from_secs(20);
        while control.receive().is_ok() {
            assert!(Instant::now() < end, "{bytes:?}");
        }
        let client = attach(&running.socket(), addr(HERE));
        client.control.send(bytes).expect("sent");
        is_put_out(&client);
    }
    still_serves(&running);
}

#[test]
fn floods_of_connections_and_descriptors_are_bounded() {
    let running = Running::start();
    let connect = || ControlSocket::connect(&running.socket());
    let client = attach(&running.socket(), addr(HERE));
    let silent: Vec<_> = (0..200).filter_map(|_| connect().ok()).collect();
    for _ in 0..500 {
        let message = ClientMessage::Join(1, addr("239.1.1.1:0").ip()).encode();
        let own = std::os::fd::AsFd::as_fd(&client.control);
        // Its answers are never read.
        client.control.send_with(&message, &[own]).ok();
    }
    drop(silent);
    still_serves(&running);
    drop(client);
    // Closed in the middle of everything, many times; while the service still counts those before, it closes first.
    for _ in 0..100 {
        let control = connect().expect("listened on");
        control.send(&ClientMessage::Attach(addr(HERE), None).encode()).ok();
    }
    still_serves(&running);
}

#[test]
fn what_a_client_may_claim_and_join_is_bounded() {
    let running = Running::start();
    let mut client = running.client();
    let joined = (0..100u8).filter(|n| client.join([239, 7, 7, *n].into()).is_ok()).count();
    assert_eq!(joined, 32);
    let mut claimed = 0;
    while client.shared_port().expect("shared").claim_service(claimed).is_ok() {
        claimed += 1;
    }
    assert_eq!(claimed, 4096);
}

/// How many links a client was told of that it has not read of yet.
fn links_on_the_way(client: &Attachment) -> usize {
    std::iter::from_fn(|| client.control.receive().expect("connected"))
        .filter(|told| {
            matches!(ServiceMessage::decode(told.bytes()), Some(ServiceMessage::Link(_)))
        })
        .count()
}

/// Makes a client that sends so much to the other one that the two may have a link.
fn caller_of(running: &Running, to: &Attachment) -> ServedDatapath {
    let mut caller = running.client();
    for _ in 0..100 {
        send(&mut caller, HERE, &packet(RC_SEND, to.slot.qpn(1), b"hello"));
    }
    std::thread::sleep(Duration::from_millis(10));
    caller
}

#[test]
fn a31_descriptors_wait_for_a_client_for_one_link_at_a_time_whatever_becomes_of_that() {
    let running = Running::start();
    let lazy = attach(&running.socket(), addr(HERE));
    let callers: Vec<_> = (1..=10)
        .map(|number| {
            let caller = caller_of(&running, &lazy);
            lazy.control.send(&ClientMessage::Unlink(number).encode()).expect("sent");
            caller
        })
        .collect();
    assert_eq!(links_on_the_way(&lazy), 1, "it says that they have ended");
    drop(callers);
    let gone = attach(&running.socket(), addr(HERE));
    (0..10).for_each(|_| drop(caller_of(&running, &gone)));
    assert_eq!(links_on_the_way(&gone), 1, "the others leave");
}
