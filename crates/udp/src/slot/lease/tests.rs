use super::*;

/// Each test has an address of its own.
fn namespace(last: u8) -> PortNamespace {
    PortNamespace::of(([127, 91, 16, last], 4791).into()).expect("an address of this host")
}

#[test]
fn the_first_slot_that_is_free_is_taken() {
    let namespace = namespace(1);
    let take = || SlotLease::take(namespace).expect("names").expect("free");
    let mut leases: Vec<_> = (0..4).map(|_| take()).collect();
    let numbers = |leases: &[SlotLease]| leases.iter().map(|l| l.slot.get()).collect::<Vec<_>>();
    assert_eq!(numbers(&leases), [1, 2, 3, 4]);
    assert_eq!(namespace.slots_taken().expect("shown").len(), 4);
    leases.remove(1);
    leases.push(take());
    assert_eq!(numbers(&leases), [1, 3, 4, 2], "the one that became free");
    leases.clear();
    assert_eq!(take().slot.get(), 1);
}

#[test]
fn when_all_slots_are_taken_there_is_none() {
    let namespace = namespace(2);
    let mut leases: Vec<_> = std::iter::from_fn(|| SlotLease::take(namespace).expect("names"))
        .take(Slot::COUNT + 1)
        .collect();
    assert_eq!(leases.len(), Slot::COUNT);
    assert!(SlotLease::take(namespace).expect("names").is_none());
    let last = leases.pop().expect("many").slot;
    assert_eq!(SlotLease::take(namespace).expect("names").expect("free").slot, last);
}

#[test]
fn addresses_and_ports_have_slots_of_their_own() {
    let here = namespace(3);
    let port = PortNamespace::of(([127, 91, 16, 3], 4792).into()).expect("an address");
    let leases = [here, port, namespace(4)]
        .map(|namespace| SlotLease::take(namespace).expect("names").expect("free"));
    assert_eq!(leases.map(|lease| lease.slot.get()), [1, 1, 1]);
}

#[test]
fn one_process_joins_at_a_time() {
    let namespace = namespace(5);
    let first = JoinLock::try_enter(namespace).expect("names").expect("free");
    assert!(JoinLock::try_enter(namespace).expect("names").is_none());
    assert!(JoinLock::try_enter(self::namespace(6)).expect("names").is_some(), "another address");
    drop(first);
    let second = JoinLock::enter(namespace).expect("names");
    assert!(second._socket.is_some() && JoinLock::try_enter(namespace).expect("names").is_none());
}

#[test]
fn who_waits_for_the_lock_gets_it_from_who_had_it() {
    let namespace = namespace(7);
    let first = JoinLock::try_enter(namespace).expect("names").expect("free");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| JoinLock::enter(namespace).expect("names"));
        drop(first);
        assert!(waits.join().expect("no panic")._socket.is_some());
    });
}

#[test]
fn only_a_name_that_is_taken_counts_as_taken() {
    assert!(is_taken(&Errno::ADDRINUSE.into()));
    assert!(!is_taken(&Errno::MFILE.into()) && !is_taken(&io::ErrorKind::AddrInUse.into()));
}
