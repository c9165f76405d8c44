//! Many clients at once: everything arrives once, in order, and at the right one.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// One action of a client.
#[derive(Debug, Clone)]
enum Action {
    /// Sends a packet of so many bytes to a client.
    Send(usize, usize),
    /// Reads what is there.
    Read,
    /// Leaves, and another one comes.
    Replace,
}

fn actions() -> impl Strategy<Value = Vec<(usize, Action)>> {
    let action = prop_oneof![
        6 => (0..6usize, 0..4000usize).prop_map(|(to, len)| Action::Send(to, len)),
        3 => Just(Action::Read),
        1 => Just(Action::Replace),
    ];
    prop::collection::vec((0..6usize, action), 1..120)
}

/// What a client should get: the numbers of packets by their sender.
#[derive(Debug, Default)]
struct Mailbox {
    due: HashMap<usize, Vec<u32>>,
    got: HashMap<usize, Vec<u32>>,
}

struct Guest {
    datapath: ServedDatapath,
    /// Tells this client from others that had its place.
    name: usize,
}

/// A packet that says who has sent it, and its number.
fn letter(to: Qpn, from: usize, number: u32, len: usize) -> Vec<u8> {
    let mut payload = vec![number as u8; len + 12];
    payload[..4].copy_from_slice(&(from as u32).to_ne_bytes());
    payload[4..8].copy_from_slice(&number.to_ne_bytes());
    packet(RC_SEND, to, &payload)
}

fn read_all(guest: &mut Guest, boxes: &mut [Mailbox], wanted: Option<usize>) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let mailbox = &mut boxes[guest.name];
        let read =
            |bytes: &[u8]| -> u32 { u32::from_ne_bytes(*bytes.first_chunk().expect("long")) };
        guest
            .datapath
            .recv(64, &mut |rx| {
                let (from, number) = (read(&rx.payload[12..]), read(&rx.payload[16..]));
                let body = &rx.payload[20..rx.payload.len() - 4];
                assert!(body.iter().all(|byte| *byte == number as u8), "bytes of one packet");
                mailbox.got.entry(from as usize).or_default().push(number);
            })
            .expect("connected");
        let got: usize = mailbox.got.values().map(Vec::len).sum();
        if wanted.is_none_or(|wanted| got >= wanted) {
            return;
        }
        assert!(Instant::now() < end, "{got} of {wanted:?} packets");
        std::thread::yield_now();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_packet_arrives_once_in_order_and_unchanged(actions in actions()) {
        let running = Running::with(|options| options.per_user = 200);
        let mut boxes: Vec<Mailbox> = (0..6).map(|_| Mailbox::default()).collect();
        let mut guests: Vec<Guest> =
            (0..6).map(|name| Guest { datapath: running.client(), name }).collect();
        let mut number = 0;
        for (who, action) in actions {
            match action {
                Action::Send(to, len) => {
                    number += 1;
                    let (from, name) = (guests[who].name, guests[to].name);
                    let qpn = slot(&mut guests[to].datapath).qpn(number as u16);
                    send(&mut guests[who].datapath, HERE, &letter(qpn, from, number, len));
                    boxes[name].due.entry(from).or_default().push(number);
                }
                Action::Read => read_all(&mut guests[who], &mut boxes, None),
                Action::Replace => {
                    // What it has sent is to arrive first; it may die with what it has not read.
                    for guest in &mut guests {
                        let wanted = boxes[guest.name].due.values().map(Vec::len).sum();
                        read_all(guest, &mut boxes, Some(wanted));
                    }
                    boxes.push(Mailbox::default());
                    guests[who] = Guest { datapath: running.client(), name: boxes.len() - 1 };
                }
            }
        }
        for guest in &mut guests {
            let wanted = boxes[guest.name].due.values().map(Vec::len).sum();
            read_all(guest, &mut boxes, Some(wanted));
            let mailbox = &boxes[guest.name];
            prop_assert_eq!(&mailbox.due, &mailbox.got);
            prop_assert_eq!(guest.datapath.stats().rx_dropped, 0);
        }
    }
}

#[test]
fn all_slots_can_be_given_and_the_next_client_is_told_that_none_is_left() {
    let running = Running::with(|options| options.per_user = 254);
    let mut clients: Vec<_> = (0..Slot::COUNT).map(|_| running.client()).collect();
    let mut slots: Vec<_> = clients.iter_mut().map(slot).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), Slot::COUNT);
    let open = || ServedDatapath::open_at(&running.socket(), addr(HERE), false);
    let refused = open().expect_err("none is left").to_string();
    assert!(
        refused.contains("as many as one may have") || refused.contains("all slots"),
        "{refused}"
    );
    let gone = slot(&mut clients[77]);
    clients.remove(77);
    let mut next = running.client();
    assert_eq!(slot(&mut next), gone);
    // The first and the last of them reach each other.
    let to = slot(&mut clients[252]).qpn(9);
    send(&mut next, HERE, &packet(RC_SEND, to, b"end to end"));
    assert_eq!(receive(&mut clients[252], 1), [packet(RC_SEND, to, b"end to end")]);
}

#[test]
fn a_slot_that_has_become_free_is_used_last() {
    let running = Running::start();
    let mut first = running.client();
    let old = slot(&mut first);
    drop(first);
    running.await_status("0 clients");
    for _ in 0..20 {
        let mut next = running.client();
        assert_ne!(slot(&mut next), old);
    }
}
