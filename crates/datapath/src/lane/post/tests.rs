use super::*;
use crate::packet::IpId;

fn packet(payload: &[u8]) -> RxPacket<'_> {
    let addr = "10.0.0.1:4791".parse().expect("address");
    RxPacket {
        src: addr,
        dst: addr,
        traffic_class: 0,
        hop_limit: 64,
        ip_id: IpId::NotPresent,
        icrc_checked: false,
        fate: None,
        payload,
    }
}

/// The posts of two engines with what comes to them.
fn two() -> [(Post, Receiver<Box<Parcel>>); 2] {
    let bells: Arc<[Bell]> = (0..2).map(|_| Bell::new().expect("a descriptor")).collect();
    let (doors, mail): (Vec<_>, Vec<_>) = (0..2).map(|_| door(2)).unzip();
    let doors: Arc<[Door]> = doors.into();
    let [first, second] = mail.try_into().expect("two");
    let post = |own, mail| Post::new(own, Arc::clone(&doors), Arc::clone(&bells), mail);
    [post(0, first), post(1, second)]
}

fn read(inlet: &Receiver<Box<Parcel>>, by: &Post) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while let Ok(mut parcel) = inlet.try_recv() {
        parcel.packets.take(usize::MAX, &mut |rx| got.push(rx.payload.to_vec()));
        by.give_back(parcel);
    }
    got
}

#[test]
fn packets_arrive_in_order_and_parcels_come_back() {
    let [(mut from, _), (to, inlet)] = two();
    for round in 0..3 * MOST {
        let sent = [vec![round as u8; 40], vec![1; 4000], vec![]];
        sent.iter().for_each(|payload| from.put(1, &packet(payload)));
        from.settle(false);
        assert_eq!(read(&inlet, &to), sent);
    }
    from.collect();
    assert_eq!((from.spare.len(), from.counts.handed), (1, 9 * MOST as u64), "one is enough");
}

#[test]
fn an_engine_that_does_not_keep_up_gets_full_parcels_and_then_nothing() {
    let [(mut from, _), (to, inlet)] = two();
    // One by one: what does not leave promptly is put together.
    let sent: Vec<_> = (0..1000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    for payload in &sent {
        from.put(1, &packet(payload));
        from.settle(false);
    }
    assert!(from.lanes[1].away < PROMPT + 5, "{} under way", from.lanes[1].away);
    // Whoever is about to sleep keeps nothing back.
    from.settle(true);
    assert_eq!(read(&inlet, &to), sent);

    // As many bytes as there is room for, and some more.
    let long = vec![7; 60_000];
    for _ in 0..MOST + 3 {
        from.put(1, &packet(&long));
        from.settle(false);
    }
    from.settle(true);
    assert_eq!(from.counts.lost, 3);
    assert_eq!(read(&inlet, &to), vec![long.clone(); MOST]);
    from.put(1, &packet(&long));
    from.settle(true);
    assert_eq!(read(&inlet, &to).len(), 1, "there is room again");
}

#[test]
fn what_is_for_an_engine_that_is_gone_is_counted() {
    let [(mut from, _), gone] = two();
    drop(gone);
    from.put(1, &packet(b"one"));
    from.put(1, &packet(b"two"));
    from.settle(false);
    assert_eq!((from.counts.lost, from.counts.handed), (2, 0));
    assert!(from.bells[1].is_silent());
}
