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
        following: None,
        fate: None,
        payload,
    }
}

/// The posts of two engines with what comes to them.
fn two() -> [(Sender, Receiver<Box<PacketBatch>>); 2] {
    let wakeups: Arc<[Wakeup]> = (0..2).map(|_| Wakeup::new().expect("a descriptor")).collect();
    let (channels, ends): (Vec<_>, Vec<_>) = (0..2).map(|_| channel(2)).unzip();
    let channels: Arc<[SenderEnds]> = channels.into();
    let [first, second] = ends.try_into().expect("two");
    let sender = |own, ends| Sender::new(own, Arc::clone(&channels), Arc::clone(&wakeups), ends);
    [sender(0, first), sender(1, second)]
}

fn read(inlet: &Receiver<Box<PacketBatch>>, by: &Sender) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while let Ok(mut batch) = inlet.try_recv() {
        batch.packets.take(usize::MAX, &mut |rx| got.push(rx.payload.to_vec()));
        by.give_back(batch);
    }
    got
}

#[test]
fn packets_arrive_in_order_and_parcels_come_back() {
    let [(mut from, _), (to, inlet)] = two();
    for round in 0..3 * MAX_BATCHES {
        let sent = [vec![round as u8; 40], vec![1; 4000], vec![]];
        sent.iter().for_each(|payload| from.put(1, &packet(payload)));
        from.send_filled(false);
        assert_eq!(read(&inlet, &to), sent);
    }
    from.collect();
    assert_eq!(
        (from.spare.len(), from.counts.handed),
        (1, 9 * MAX_BATCHES as u64),
        "one is enough"
    );
}

#[test]
fn an_engine_that_does_not_keep_up_gets_full_parcels_and_then_nothing() {
    let [(mut from, _), (to, inlet)] = two();
    // One by one: what does not leave promptly is put together.
    let sent: Vec<_> = (0..1000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    for payload in &sent {
        from.put(1, &packet(payload));
        from.send_filled(false);
    }
    assert!(
        from.destinations[1].in_transit < EAGER_BATCHES + 5,
        "{} under way",
        from.destinations[1].in_transit
    );
    // An engine that is about to sleep sends everything.
    from.send_filled(true);
    assert_eq!(read(&inlet, &to), sent);

    // As many bytes as there is room for, and some more.
    let long = vec![7; 60_000];
    for _ in 0..MAX_BATCHES + 3 {
        from.put(1, &packet(&long));
        from.send_filled(false);
    }
    from.send_filled(true);
    assert_eq!(from.counts.lost, 3);
    assert_eq!(read(&inlet, &to), vec![long.clone(); MAX_BATCHES]);
    from.put(1, &packet(&long));
    from.send_filled(true);
    assert_eq!(read(&inlet, &to).len(), 1, "there is room again");
}

#[test]
fn what_is_for_an_engine_that_is_gone_is_counted() {
    let [(mut from, _), redirected] = two();
    drop(redirected);
    from.put(1, &packet(b"one"));
    from.put(1, &packet(b"two"));
    from.send_filled(false);
    assert_eq!((from.counts.lost, from.counts.handed), (2, 0));
    assert!(from.wakeups[1].is_empty());
}
