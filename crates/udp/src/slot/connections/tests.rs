use super::super::namespace::listen;
use super::*;

fn namespace(last: u8) -> PortNamespace {
    PortNamespace::of(([127, 91, 18, last], 4791).into()).expect("an address of this host")
}

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

fn listener(namespace: PortNamespace, number: u8) -> OwnedFd {
    listen(&namespace.slot(slot(number)).expect("a name")).expect("free")
}

fn received(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut room = vec![0; 100_000];
    let (length, _) = net::recv(socket, &mut room[..], net::RecvFlags::DONTWAIT).ok()?;
    room.truncate(length);
    // Nothing: the other end is closed.
    (length > 0).then_some(room)
}

#[test]
fn a_message_reaches_the_process_with_that_slot() {
    let namespace = namespace(1);
    let listeners = [1, 2].map(|number| listener(namespace, number));
    let mut connections = Connections::new(namespace);
    assert!(connections.reaches(slot(1)) && connections.reaches(slot(2)));
    let peers = listeners.map(|listener| net::accept(&listener).expect("connected"));
    connections.send(slot(2), b"two").expect("delivered");
    connections.send(slot(1), b"one").expect("delivered");
    connections.send(slot(1), b"more").expect("delivered");
    assert_eq!(peers.each_ref().map(received), [Some(b"one".to_vec()), Some(b"two".to_vec())]);
    assert_eq!(peers.each_ref().map(received), [Some(b"more".to_vec()), None]);
}

#[test]
fn a_slot_without_a_process_is_not_tried_again_at_once() {
    let namespace = namespace(2);
    let mut connections = Connections::new(namespace);
    assert!(!connections.reaches(slot(1)));
    assert_eq!(connections.send(slot(1), b"x"), Err(Undelivered));
    assert_eq!(connections.send(slot(9), b"x"), Err(Undelivered), "nobody has asked for it");
    let _listener = listener(namespace, 1);
    let end = Instant::now() + Duration::from_secs(10);
    while !connections.reaches(slot(1)) {
        assert!(Instant::now() < end, "a process that has come is found");
    }
    connections.send(slot(1), b"x").expect("delivered");
}

/// As many connections wait for the process as may. It is there all the same, and what is for it is nobody else's.
#[test]
fn a_process_that_cannot_be_reached_for_a_moment_is_no_absent_one() {
    let namespace = namespace(5);
    let full = listener(namespace, 1);
    let name = namespace.slot(slot(1)).expect("a name");
    let mut waiting = Vec::new();
    let refused = loop {
        match connect(namespace, &name) {
            Ok(socket) => waiting.push(socket),
            Err(error) => break error,
        }
    };
    assert_eq!(Errno::from_io_error(&refused), Some(Errno::AGAIN));
    let mut connections = Connections::new(namespace);
    assert!(connections.reaches(slot(1)), "it has the slot");
    assert_eq!(connections.send(slot(1), b"x"), Err(Undelivered));
    drop(net::accept(&full).expect("the first one"));
    assert!(connections.reaches(slot(1)));
    connections.send(slot(1), b"x").expect("there is room for one more");
}

#[test]
fn a_process_that_has_ended_is_forgotten() {
    let namespace = namespace(3);
    let first = listener(namespace, 1);
    let mut connections = Connections::new(namespace);
    assert!(connections.reaches(slot(1)));
    drop(net::accept(&first).expect("connected"));
    drop(first);
    assert_eq!(connections.send(slot(1), b"x"), Err(Undelivered));
    let second = listener(namespace, 1);
    assert!(connections.reaches(slot(1)), "its successor");
    connections.send(slot(1), b"y").expect("delivered");
    let peer = net::accept(&second).expect("connected");
    assert_eq!(received(&peer), Some(b"y".to_vec()));
}

#[test]
fn a_process_that_does_not_read_loses_messages_and_gets_them_again_when_it_does() {
    let namespace = namespace(4);
    let listener = listener(namespace, 1);
    let mut connections = Connections::new(namespace);
    assert!(connections.reaches(slot(1)));
    let peer = net::accept(&listener).expect("connected");
    let message = vec![7; 60_000];
    let sent = (0..10_000).take_while(|_| connections.send(slot(1), &message).is_ok()).count();
    assert!((1..10_000).contains(&sent), "the buffer has an end");
    assert_eq!(connections.send(slot(1), &message), Err(Undelivered), "not waited for again");
    assert!(connections.reaches(slot(1)), "it is still there");
    let got = std::iter::from_fn(|| received(&peer)).count();
    assert_eq!(got, sent, "what was delivered is whole");
    connections.send(slot(1), &message).expect("delivered");
}

#[test]
fn a_service_is_found_by_its_number_and_for_a_while_without_a_look() {
    let namespace = namespace(5);
    let now = Instant::now();
    let mut services = ServiceConnections::new(namespace);
    assert!(services.send(7, now, b"x").is_err() && !services.is_cached(7, now), "nobody listens");
    let listener = listen(&namespace.service(7).expect("a name")).expect("free");
    services.send(7, now, b"one").expect("delivered");
    assert!(services.is_cached(7, now) && !services.is_cached(8, now));
    services.send(7, now, b"two").expect("delivered");
    let peer = net::accept(&listener).expect("connected");
    assert_eq!([received(&peer), received(&peer)], [b"one", b"two"].map(|b| Some(b.to_vec())));
    assert!(!services.is_cached(7, now + SERVICE_CACHE_TTL), "another one may listen now");
    services.send(7, now, b"three").expect("delivered");
    assert!(received(&peer).is_none(), "a connection of its own");
}

#[test]
fn a_service_that_moves_to_another_process_is_followed() {
    let namespace = namespace(6);
    let now = Instant::now();
    let mut services = ServiceConnections::new(namespace);
    let first = listen(&namespace.service(7).expect("a name")).expect("free");
    services.send(7, now, b"one").expect("delivered");
    drop(net::accept(&first).expect("connected"));
    drop(first);
    let second = listen(&namespace.service(7).expect("a name")).expect("free");
    services.send(7, now, b"two").expect("delivered to the other one");
    let peer = net::accept(&second).expect("connected");
    assert_eq!(received(&peer), Some(b"two".to_vec()));
}
