//! Links and the ends of clients and of the service.

use uroce_testkit::wait_until;

use super::links::{link, number_of, numbered, talk_until};
use super::*;

/// The last acknowledgement of a program that ends.
#[test]
fn what_a_client_sent_over_a_link_before_it_left_arrives() {
    let running = Running::start();
    let mut b = running.client();
    let to_b = slot(&mut b).qpn(1);
    for round in 0..20 {
        let mut a = running.client();
        link(&mut a, &mut b);
        for number in 0..100 {
            assert!(commit(&mut a, HERE, &numbered(RC_SEND, to_b, round * 100 + number, 500)));
        }
        a.flush().expect("sent");
        let old = slot(&mut a);
        drop(a);
        if round % 2 == 0 {
            running.await_status("1 clients");
        }
        let got = receive(&mut b, 100);
        let due: Vec<_> = (round * 100..round * 100 + 100).collect();
        assert_eq!(got.iter().map(|got| number_of(got)).collect::<Vec<_>>(), due);
        wait_until("the link has ended", || {
            receive_within(&mut b, 1, Duration::from_micros(50));
            b.link_counts() == (0, 0)
        });
        // What is for nobody is dropped by the service as before.
        send(&mut b, HERE, &packet(RC_SEND, old.qpn(1), b"too late"));
    }
    running.await_status("drop_no_process");
}

/// A program that ends while its peer sends on, and another one in its slot.
#[test]
fn a_client_that_leaves_takes_its_link_with_it() {
    let running = Running::with(|options| options.per_user = 254);
    let (mut a, mut b) = (running.client(), running.client());
    link(&mut a, &mut b);
    let old = slot(&mut a);
    drop(a);
    running.await_status("dropped, 0 links");
    let mut others: Vec<_> = (0..Slot::COUNT - 2).map(|_| running.client()).collect();
    let mut next = running.client();
    assert_eq!(slot(&mut next), old, "the only one that is left");
    let bytes = packet(RC_SEND, old.qpn(1), b"to the new one");
    wait_until("it is heard", || {
        send(&mut b, HERE, &bytes);
        receive_within(&mut b, 1, Duration::from_micros(50));
        !receive_within(&mut next, 1, Duration::from_micros(50)).is_empty()
    });
    receive_within(&mut next, 1000, Duration::from_millis(5));
    talk_until(((1, 1), (1, 1)), &mut b, &mut next);
    others.clear();
}

#[test]
fn links_end_with_the_service_and_are_made_again() {
    let mut running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    let to_b = slot(&mut b).qpn(1);
    for round in 0..3 {
        link(&mut a, &mut b);
        running.stop();
        // They talk on until they see it.
        for client in [&mut a, &mut b] {
            wait_until("it has gone", || {
                receive_within(client, 1, Duration::from_micros(100));
                client.last_problem().is_some()
            });
            assert_eq!(client.link_counts(), (0, 0));
        }
        send(&mut a, HERE, &packet(RC_SEND, to_b, b"lost"));
        running.resume();
        for client in [&mut a, &mut b] {
            wait_until("it is back", || {
                receive_within(client, 1, Duration::from_micros(100));
                client.last_problem().is_none()
            });
        }
        let bytes = numbered(RC_SEND, to_b, round, 20);
        send(&mut a, HERE, &bytes);
        assert_eq!(receive(&mut b, 1), [bytes]);
    }
}

/// Traffic over links does not hide that the service has gone: its slots are kept for a while only.
#[test]
fn clients_that_only_use_links_see_that_the_service_has_gone() {
    let mut running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    link(&mut a, &mut b);
    let bytes = packet(RC_SEND, slot(&mut b).qpn(1), b"on and on");
    running.stop();
    wait_until("b sees it", || {
        // No call is without a packet.
        (0..100).for_each(|_| {
            commit(&mut a, HERE, &bytes);
            a.flush().expect("sent");
            b.recv(1, &mut |_| ()).expect("connected");
        });
        b.last_problem().is_some()
    });
    running.resume();
    for client in [&mut a, &mut b] {
        wait_until("it is back", || {
            receive_within(client, 1, Duration::from_micros(100));
            client.last_problem().is_none() && client.link_counts() == (0, 0)
        });
    }
}
