//! Places: who gets one, sleeping in it, and restarts.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

#[test]
fn a_client_that_sleeps_is_woken() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let waiter = b.waiter().expect("a descriptor");
    let to_b = slot(&mut b).qpn(1);
    for round in 0..50u8 {
        assert_eq!(receive_within(&mut b, 1, Duration::ZERO).len(), 0);
        assert!(!b.arm(), "nothing is there");
        if round % 10 == 0 {
            // The service sleeps, too.
            std::thread::sleep(Duration::from_millis(2));
        }
        send(&mut a, HERE, &packet(RC_SEND, to_b, &[round]));
        let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
        let woken = poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&timeout));
        assert_eq!(woken, Ok(1), "round {round}");
        b.disarm();
        assert_eq!(receive(&mut b, 1), [packet(RC_SEND, to_b, &[round])]);
        b.arm();
        b.disarm();
    }
}

#[test]
fn clients_have_their_places_again_after_a_restart() {
    let mut running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    b.shared_port().expect("shared").claim_service(7).expect("free");
    let (slot_a, slot_b) = (slot(&mut a), slot(&mut b));
    running.stop();
    // What is sent now is lost, and nothing blocks.
    while a.last_problem().is_none() {
        receive_within(&mut a, 1, Duration::from_millis(1));
    }
    send(&mut a, HERE, &packet(RC_SEND, slot_b.qpn(1), b"lost"));
    assert_eq!(a.stats().tx_dropped, 1);
    assert!(a.poll_timeout().is_some() && !a.arm());
    running.resume();
    let mut newcomer = running.client();
    assert!(![slot_a, slot_b].contains(&slot(&mut newcomer)), "these are kept");
    for client in [&mut a, &mut b] {
        while client.last_problem().is_some() || client.stats().rx_packets == 0 {
            receive_within(client, 1, Duration::from_millis(1));
            let own = slot(client).qpn(1);
            send(client, HERE, &packet(RC_SEND, own, b"to itself"));
        }
    }
    assert_eq!((slot(&mut a), slot(&mut b)), (slot_a, slot_b));
    let taken = newcomer.shared_port().expect("shared").claim_service(7);
    taken.expect_err("still claimed");
}

#[test]
fn a_user_has_so_many_places_and_not_more() {
    let running = Running::with(|options| options.per_user = 2);
    let clients = [running.client(), running.client()];
    let open = || ServedDatapath::open_at(&running.socket(), addr(HERE), false);
    let refused = open().expect_err("one too many").to_string();
    assert!(refused.contains("as many as one may have"), "{refused}");
    drop(clients);
    while open().is_err() {}
}

#[test]
fn others_are_told_why_they_get_no_place() {
    let running = Running::with(|options| options.users = vec![u32::MAX - 1]);
    let open = |text| ServedDatapath::open_at(&running.socket(), addr(text), false);
    let refused = open(HERE).expect_err("another user").to_string();
    assert!(refused.contains("may not be a client (--allow-user)"), "{refused}");
    let refused = open(THERE).expect_err("another address").to_string();
    assert!(refused.contains("start it as `uroce serve 10.0.0.2`"), "{refused}");
    assert_eq!(crate::serves(&running.socket(), addr(HERE)), Some("udp"));
    assert_eq!(crate::serves(&running.socket(), addr(THERE)), None);
    let nowhere = running.folder.join("nothing");
    assert_eq!(crate::serves(&nowhere, addr(HERE)), None);
    let refused = ServedDatapath::open_at(&nowhere, addr(HERE), false).expect_err("no service");
    assert!(refused.to_string().contains("is it running?") && refused.raw_os_error().is_some());
}

#[test]
fn the_status_names_addresses_and_clients() {
    let running = Running::start();
    let mut client = running.client();
    let own = slot(&mut client);
    send(&mut client, HERE, &packet(RC_SEND, own.qpn(1), b"to itself"));
    assert_eq!(receive(&mut client, 1).len(), 1);
    let status = crate::status(&running.socket()).expect("it answers");
    assert_eq!(status.len(), 1, "one address");
    let address = &status[0];
    assert_eq!((address.local, address.datapath.as_str()), (addr(HERE), "loopback"));
    assert_eq!((address.counts.between_clients, address.drops.len()), (1, 0));
    let shown = address.clients[0];
    assert_eq!((shown.slot, shown.process), (own.get(), std::process::id()));
    assert_eq!((shown.sent, shown.received, shown.refused, shown.dropped), (1, 1, 0, 0));
}
