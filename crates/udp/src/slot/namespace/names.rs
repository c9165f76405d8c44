//! Names, and who may connect to them.

use super::*;

fn namespace(last: u8) -> PortNamespace {
    PortNamespace::of(([127, 91, 17, last], 4791).into()).expect("an address of this host")
}

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

#[test]
fn slots_are_listed_in_order_and_other_names_are_not() {
    let namespace = namespace(1);
    assert_eq!(namespace.slots_taken().expect("shown"), []);
    // The system shows them in an order of its own; many, so that it is not this one by chance.
    let numbers = [200, 3, 17, 90, 45, 131, 66, 9, 250, 120];
    let _slots =
        numbers.map(|number| listen(&namespace.slot(slot(number)).expect("a name")).expect("free"));
    let strange = ["slot/0", "slot/255", "slot/x", "slot/", "slot/1/2", "slots/5", "door"];
    let _others = strange.map(|what| listen(&namespace.name(what).expect("a name")).expect("free"));
    let _service = listen(&namespace.service(4).expect("a name")).expect("free");
    let expected = [3, 9, 17, 45, 66, 90, 120, 131, 200, 250].map(slot);
    assert_eq!(namespace.slots_taken().expect("shown"), expected);
    let local = ([127, 91, 17, 1], 4791).into();
    assert_eq!(slots_taken(local).expect("shown"), expected);
}

#[test]
fn a_name_is_of_one_process_until_that_one_closes_it() {
    let name = namespace(2).slot(slot(1)).expect("a name");
    let error = connect(namespace(2), &name).expect_err("nobody is there");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let first = listen(&name).expect("free");
    let error = listen(&name).expect_err("taken");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    connect(namespace(2), &name).expect("of this user");
    drop(first);
    listen(&name).expect("free again");
}

#[test]
fn a_process_of_another_user_is_refused() {
    let ours = namespace(3);
    let stranger = PortNamespace { user: ours.user + 1, ..ours };
    let name = ours.slot(slot(1)).expect("a name");
    let _socket = listen(&name).expect("free");
    let refused = |result: io::Result<OwnedFd>| {
        Errno::from_io_error(&result.expect_err("another user")) == Some(Errno::PERM)
    };
    assert!(refused(connect(stranger, &name)));
    let _service = listen(&ours.service(9).expect("a name")).expect("free");
    assert!(refused(connect_to_service(stranger, 9)), "it has no slot of that user either");
    connect_to_service(ours, 9).expect("of this user");
}

#[test]
fn slots_of_other_users_are_counted() {
    let ours = namespace(4);
    let stranger = PortNamespace { user: ours.user + 1, ..ours };
    let _slots = [1, 2].map(|n| listen(&ours.slot(slot(n)).expect("a name")).expect("free"));
    assert_eq!(ours.foreign_peers(), (0, None));
    let peer = Peer { pid: std::process::id(), user: ours.user };
    assert_eq!(stranger.foreign_peers(), (2, Some(peer)));
}

#[test]
fn messages_keep_their_borders() {
    let ours = namespace(5);
    let name = ours.slot(slot(1)).expect("a name");
    let listener = listen(&name).expect("free");
    let from = connect(ours, &name).expect("of this user");
    let to = net::accept(&listener).expect("waiting");
    for message in [&b"one"[..], b"three", b"2"] {
        net::send(&from, message, net::SendFlags::empty()).expect("room");
    }
    let lengths = [(); 3].map(|()| {
        let mut room = [0; 64];
        net::recv(&to, &mut room[..], net::RecvFlags::empty()).expect("waiting").0
    });
    assert_eq!(lengths, [3, 5, 1]);
}

#[test]
fn a_link_local_address_is_named_with_its_scope() {
    let named = |scope: u32| {
        let own =
            std::net::SocketAddrV6::new(std::net::Ipv6Addr::from(0xfe80_u128 << 112), 1, 0, scope);
        PortNamespace::new(own.into()).slot(slot(1)).expect("a name")
    };
    assert_ne!(named(1), named(2), "the same address on two links is two addresses");
    assert_eq!(named(1), named(1));
}
