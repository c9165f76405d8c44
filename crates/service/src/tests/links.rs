//! Links between two clients: the same packets in the same order as by the service, without it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_testkit::wait_until;

use super::*;
use crate::client::testing::attach;

const UC_SEND: u8 = 0x24;

/// More packets than two clients have to exchange before they get a link.
pub(super) const ENOUGH: u32 = 80;

/// A packet with that number in it.
pub(super) fn numbered(opcode: u8, qpn: Qpn, number: u32, len: usize) -> Vec<u8> {
    let mut payload = vec![number as u8; len.max(4)];
    payload[..4].copy_from_slice(&number.to_ne_bytes());
    packet(opcode, qpn, &payload)
}

pub(super) fn number_of(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(*bytes[12..].first_chunk().expect("a number"))
}

/// Has the two exchange packets until each has one link more, over which it sends and receives.
pub(super) fn link(a: &mut ServedDatapath, b: &mut ServedDatapath) {
    let ((sends_a, open_a), (sends_b, open_b)) = (a.link_counts(), b.link_counts());
    let goal = ((sends_a + 1, open_a + 1), (sends_b + 1, open_b + 1));
    talk_until(goal, a, b);
}

/// Has the two exchange packets until they have at least so many links to send and to receive.
pub(super) fn talk_until(
    goal: ((usize, usize), (usize, usize)),
    a: &mut ServedDatapath,
    b: &mut ServedDatapath,
) {
    let (to_a, to_b) = (slot(a).qpn(1), slot(b).qpn(1));
    wait_until("a link", || {
        send(a, HERE, &packet(RC_SEND, to_b, b"hello"));
        receive(b, 1);
        send(b, HERE, &packet(RC_SEND, to_a, b"hello"));
        receive(a, 1);
        let has = |(sends, open), goal: (usize, usize)| sends >= goal.0 && open >= goal.1;
        has(a.link_counts(), goal.0) && has(b.link_counts(), goal.1)
    });
}

fn between_clients(running: &Running) -> u64 {
    let status = crate::status(&running.socket()).expect("it answers");
    status[0].counts.between_clients
}

#[test]
fn packets_of_two_clients_with_a_link_bypass_the_service() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    link(&mut a, &mut b);
    running.await_status("dropped, 1 links");
    let (before, to_b) = (between_clients(&running), slot(&mut b).qpn(7));
    for number in 0..500 {
        let bytes = numbered(RC_SEND, to_b, number, number as usize * 8);
        send(&mut a, HERE, &bytes);
        assert_eq!(receive(&mut b, 1), [bytes]);
    }
    // What goes to others still goes by the service, and so does what is for no one client.
    let mut peer = running.peer();
    send(&mut a, THERE, &packet(RC_SEND, Qpn::new(0x99_0001), b"to the peer!"));
    assert_eq!(receive(&mut peer, 1)[0][12..24], *b"to the peer!");
    assert_eq!(between_clients(&running), before, "the service has seen none of them");
    let reply = datagram(Qpn::GSI, Qpn::GSI, &[slot(&mut b).get()]);
    send(&mut a, HERE, &reply);
    assert_eq!(receive(&mut b, 1), [reply]);
    assert_eq!(between_clients(&running), before + 1);
    assert_eq!((a.stats().tx_dropped, b.stats().rx_dropped), (0, 0));
}

#[test]
fn a_packet_over_a_link_looks_like_one_by_the_service() {
    let running = Running::start();
    let mut seen = vec![];
    for links in [false, true] {
        let (mut a, mut b) = (running.client(), running.client());
        if links {
            link(&mut a, &mut b);
        }
        let to_b = slot(&mut b).qpn(1);
        let src = SocketAddr::new(addr(HERE).ip(), 0xC123);
        let route = Route { src, dst: addr(HERE), hop_limit: 9, traffic_class: 5 };
        let bytes = packet(RC_SEND, to_b, b"one");
        a.tx_space().expect("room")[..bytes.len()].copy_from_slice(&bytes);
        a.tx_commit(&route, bytes.len(), &mut |_, _| ());
        a.flush().expect("sent");
        wait_until("the packet", || {
            let mut note = |rx: RxPacket<'_>| {
                let own = rx.payload.iter().zip(&bytes).filter(|(a, b)| a == b).count();
                let (class, hops, id) = (rx.traffic_class, rx.hop_limit, rx.ip_id);
                seen.push((rx.src, rx.dst, class, hops, id, rx.icrc_checked, own));
            };
            b.recv(1, &mut note).expect("connected") > 0
        });
    }
    assert_eq!(seen[0], seen[1]);
}

/// UC loses what is out of order for ever. The sender does not wait when the way changes.
#[test]
fn nothing_is_lost_or_out_of_order_when_a_flow_changes_over() {
    const PACKETS: u32 = 3000;
    let running = Running::start();
    for round in 0..12usize {
        let (mut a, mut b) = (running.client(), running.client());
        let slots = [slot(&mut a), slot(&mut b)];
        let taken = [AtomicU32::new(0), AtomicU32::new(0)];
        let ends = [(&mut a, 0), (&mut b, 1)];
        std::thread::scope(|scope| {
            for (own, end) in ends {
                let (taken, to) = (&taken, slots[1 - end].qpn(1));
                scope.spawn(move || {
                    let (mut sent, mut expected) = (0, 0);
                    while sent < PACKETS || expected < PACKETS {
                        // So much is on the way that it fits into one ring.
                        let others = taken[1 - end].load(Ordering::Relaxed);
                        for _ in 0..round + 1 {
                            let bytes = numbered(UC_SEND, to, sent, sent as usize % 999);
                            if sent < PACKETS && sent - others < 100 && commit(own, HERE, &bytes) {
                                sent += 1;
                            }
                        }
                        own.flush().expect("sent");
                        let mut check = |rx: RxPacket<'_>| {
                            assert_eq!(number_of(rx.payload), expected, "round {round}");
                            expected += 1;
                        };
                        own.recv(7, &mut check).expect("connected");
                        taken[end].store(expected, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((a.link_counts(), b.link_counts()), ((1, 1), (1, 1)), "round {round}");
    }
    running.await_status("packets sent");
}

/// What each of three clients gets from each other one, by a script of who sends how much to whom.
fn play(
    script: &[(usize, usize, usize)],
    links: usize,
) -> (BTreeMap<(usize, usize), Vec<u32>>, usize) {
    let running = Running::with(|options| options.links = links);
    let mut clients: Vec<_> = (0..3).map(|_| running.client()).collect();
    let mut got: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    let mut wanted = [0; 3];
    for (number, (from, to, len)) in script.iter().copied().enumerate() {
        let qpn = slot(&mut clients[to]).qpn(from as u16);
        // As many packets as make a flow, so that it changes over in the middle.
        for n in 0..30 {
            send(&mut clients[from], HERE, &numbered(UC_SEND, qpn, number as u32 * 30 + n, len));
        }
        wanted[to] += 30;
        for packet in receive(&mut clients[to], 30) {
            got.entry((usize::from(packet[7]), to)).or_default().push(number_of(&packet));
        }
    }
    let used = clients.iter().map(|client| client.link_counts().0).sum();
    (got, used)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn clients_get_the_same_with_and_without_links(
        script in prop::collection::vec((0..3usize, 0..3usize, 4..3000usize), 20..60),
    ) {
        let (with, _) = play(&script, 32);
        let (without, unused) = play(&script, 0);
        prop_assert_eq!(with, without);
        prop_assert_eq!(unused, 0);
    }
}

#[test]
fn a_client_that_sleeps_is_woken_over_a_link() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    link(&mut a, &mut b);
    let waiter = b.waiter().expect("a descriptor");
    let to_b = slot(&mut b).qpn(1);
    for round in 0..50u8 {
        assert_eq!(receive_within(&mut b, 1, Duration::ZERO).len(), 0);
        wait_until("nothing is there", || !b.arm());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&now)), Ok(0));
        send(&mut a, HERE, &packet(RC_SEND, to_b, &[round]));
        let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
        let woken = poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&timeout));
        assert_eq!(woken, Ok(1), "round {round}");
        assert!(b.arm(), "a packet is there");
        b.disarm();
        assert_eq!(receive(&mut b, 1), [packet(RC_SEND, to_b, &[round])]);
    }
}

#[test]
fn a_client_has_so_many_links_and_others_are_reached_all_the_same() {
    let running = Running::with(|options| options.links = 2);
    let mut hub = running.client();
    let mut others: Vec<_> = (0..4).map(|_| running.client()).collect();
    others[..2].iter_mut().for_each(|other| link(&mut hub, other));
    for round in 0..ENOUGH {
        for other in &mut others {
            let (to_hub, to_other) = (slot(&mut hub).qpn(1), slot(other).qpn(1));
            send(&mut hub, HERE, &numbered(RC_SEND, to_other, round, 100));
            assert_eq!(number_of(&receive(other, 1)[0]), round);
            send(other, HERE, &numbered(RC_SEND, to_hub, round, 100));
            assert_eq!(number_of(&receive(&mut hub, 1)[0]), round);
        }
    }
    assert_eq!((hub.link_counts(), others[3].link_counts()), ((2, 2), (0, 0)));
    running.await_status("dropped, 2 links");
    // One that leaves makes room for another one.
    others.remove(0);
    wait_until("the link has ended", || {
        receive_within(&mut hub, 1, Duration::from_micros(50));
        hub.link_counts() == (1, 1)
    });
    let (mut next, mut third) = (running.client(), others.pop().expect("it is there"));
    link(&mut third, &mut next);
    link(&mut hub, &mut running.client());
}

/// The mark finds no room in the ring of a client that does not read for a while.
#[test]
fn a_link_begins_behind_a_full_ring() {
    let running = Running::start();
    let (mut a, mut b, mut peer) = (running.client(), running.client(), running.peer());
    let to_b = slot(&mut b).qpn(1);
    let bytes = packet(RC_SEND, to_b, &[9; 4000]);
    while crate::status(&running.socket()).expect("it answers")[0].drops.is_empty() {
        (0..64).for_each(|_| send(&mut peer, HERE, &bytes));
    }
    for _ in 0..ENOUGH {
        send(&mut a, HERE, &bytes);
    }
    wait_until("a sends over the link", || {
        receive_within(&mut a, 1, Duration::from_micros(50));
        a.link_counts().0 == 1
    });
    (0..200).for_each(|number| send(&mut a, HERE, &numbered(UC_SEND, to_b, number, 50)));
    let mut expected = 0;
    wait_until("all of them", || {
        for got in receive_within(&mut b, 64, Duration::from_micros(50)) {
            if got[0] == UC_SEND {
                assert_eq!(number_of(&got), expected);
                expected += 1;
            }
        }
        expected == 200
    });
}

#[test]
fn a_client_that_does_not_know_links_is_served_without() {
    let running = Running::start();
    let (mut a, raw) = (running.client(), attach(&running.socket(), addr(HERE)));
    // It never takes its end; others reach each other.
    let bytes = packet(RC_SEND, raw.slot.qpn(1), b"to the silent one");
    (0..ENOUGH).for_each(|_| send(&mut a, HERE, &bytes));
    let mut b = running.client();
    link(&mut a, &mut b);
    drop(raw);
    running.await_status("2 clients");
    link(&mut b, &mut running.client());
}
