//! Clients that do over a link what none should: they lose the link, and nobody loses anything else.

use rustix::net::{SendFlags, send as send_message};
use uroce_testkit::wait_until;

use super::links::{ENOUGH, link, number_of, numbered};
use super::*;
use crate::client::testing::{Attachment, attach};
use crate::control::ControlSocket;
use crate::head::{self, HeadBytes, MAX_PAYLOAD, SentHead};
use crate::message::{ClientMessage, LinkEnd, ServiceMessage};
use crate::ring::{
    LINK_MEMORY, LINK_RINGS, LINK_SLEEPS, RingPlace, RingReceiver, RingSender, SENT,
};
use crate::sys::shared_memory::SharedMemory;

/// A client whose link to a sound one is in the hands of a test.
struct Hostile {
    client: Attachment,
    to_service: RingSender,
    end: LinkEnd,
    memory: SharedMemory,
    socket: ControlSocket,
    sent: RingSender,
}

fn head(dst: &str, len: usize) -> HeadBytes {
    let (dst, src_port, hop_limit) = (addr(dst).ip(), 4791, 64);
    let (traffic_class, starts_batch, sealed) = (0, false, false);
    SentHead { dst, src_port, hop_limit, traffic_class, starts_batch, sealed, len }.encode()
}

/// The link that the service has made for this client.
fn take_link(client: &Attachment) -> Option<(LinkEnd, SharedMemory, ControlSocket)> {
    let datagram = client.control.receive().expect("it has its place")?;
    let Some(ServiceMessage::Link(end)) = ServiceMessage::decode(datagram.bytes()) else {
        return None;
    };
    let [file, socket] = datagram.descriptors;
    let memory = SharedMemory::open(&file.expect("its memory"), LINK_MEMORY).expect("sealed");
    Some((end, memory, ControlSocket::of(socket.expect("its socket"))))
}

impl Hostile {
    /// A client with a link to `victim`, who sends over it.
    fn new(running: &Running, victim: &mut ServedDatapath) -> Self {
        let client = attach(&running.socket(), addr(HERE));
        let before = victim.link_counts().0;
        let bytes = packet(RC_SEND, client.slot.qpn(1), b"hello");
        (0..ENOUGH).for_each(|_| send(victim, HERE, &bytes));
        let mut link = None;
        wait_until("a link", || {
            receive_within(victim, 1, Duration::from_micros(50));
            link = link.take().or_else(|| take_link(&client));
            link.is_some() && victim.link_counts().0 > before
        });
        let (end, memory, socket) = link.expect("waited for");
        let sent = RingSender::new(LINK_RINGS[usize::from(end.sends)]);
        Self { client, to_service: RingSender::new(SENT), end, memory, socket, sent }
    }

    fn ring(&self) -> RingPlace {
        LINK_RINGS[usize::from(self.end.sends)]
    }

    /// Writes to the ring to the service.
    fn tell_service(&mut self, head: &HeadBytes, payload: &[u8]) {
        assert!(self.to_service.push(&self.client.memory, head, payload));
        self.to_service.publish(&self.client.memory);
        self.client.control.send(&ClientMessage::Wake.encode()).ok();
    }

    /// Says that its packets come over the link from here on.
    fn switch(&mut self) {
        self.tell_service(&head::switch(self.end.number), &[0; 16]);
    }

    fn send(&mut self, head: &HeadBytes, payload: &[u8]) {
        assert!(self.sent.push(&self.memory, head, payload));
        self.sent.publish(&self.memory);
    }
}

/// Looks whether it may sleep, and receives what is there if not, as a device does: the service tells by its ring that a link
/// has ended.
fn fall_asleep(client: &mut ServedDatapath) {
    wait_until("it sleeps", || {
        let there = client.arm();
        if there {
            receive_within(client, 1, Duration::from_micros(50));
        }
        !there
    });
    client.disarm();
}

/// The victim has given the link up; packets of the hostile client reach it by the service.
fn is_unlinked(hostile: &mut Hostile, victim: &mut ServedDatapath) {
    wait_until("the link has ended", || {
        receive_within(victim, 1, Duration::from_micros(50));
        victim.link_counts() == (0, 0)
    });
    let bytes = numbered(RC_SEND, slot(victim).qpn(1), 4711, 4);
    hostile.tell_service(&head(HERE, bytes.len()), &bytes);
    assert_eq!(receive(victim, 1), [bytes]);
    // And the other way.
    let bytes = packet(RC_SEND, hostile.client.slot.qpn(1), b"by the service");
    send(victim, HERE, &bytes);
    let mut unlinked = false;
    wait_until("the service says so", || {
        let datagram = hostile.client.control.receive().expect("it has its place");
        let message = datagram.and_then(|datagram| ServiceMessage::decode(datagram.bytes()));
        unlinked |= message == Some(ServiceMessage::Unlink(hostile.end.number));
        unlinked
    });
}

#[test]
fn a31_nonsense_over_a_link_costs_the_link() {
    let running = Running::start();
    for index in [1, 63, 64 * 1024 * 1024, u32::MAX, u32::MAX - 63] {
        let mut victim = running.client();
        let mut hostile = Hostile::new(&running, &mut victim);
        hostile.switch();
        hostile.memory.store(hostile.ring().sent_word(), index);
        is_unlinked(&mut hostile, &mut victim);
    }
    let mut long = head(HERE, 16);
    long[4..6].copy_from_slice(&(MAX_PAYLOAD as u16 + 1).to_ne_bytes());
    let nonsense = [[0; 64], [1; 64], [3; 64], [0xff; 64], long, head::switch(1)];
    for bytes in nonsense {
        let mut victim = running.client();
        let mut hostile = Hostile::new(&running, &mut victim);
        hostile.switch();
        hostile.memory.write(hostile.ring().first_byte(), &bytes);
        hostile.memory.store(hostile.ring().sent_word(), 4096);
        is_unlinked(&mut hostile, &mut victim);
    }
    link(&mut running.client(), &mut running.client());
}

/// The rules of the service hold over a link: no source but its own, no other destination.
#[test]
fn forged_packets_over_a_link_are_dropped_and_counted() {
    let running = Running::start();
    let (mut victim, mut other) = (running.client(), running.client());
    let mut hostile = Hostile::new(&running, &mut victim);
    hostile.switch();
    let (own, to) = (hostile.client.slot.qpn(5), slot(&mut victim).qpn(6));
    let not_its_own = slot(&mut other).qpn(5);
    let short = &datagram(to, own, b"")[..16];
    for (dst, bytes) in [
        (HERE, datagram(to, not_its_own, b"forged")),
        (HERE, datagram(to, to, b"forged")),
        (HERE, short.to_vec()),
        (THERE, packet(RC_SEND, to, b"elsewhere")),
        ("[fd00::1]:4791", packet(RC_SEND, to, b"another version")),
        ("239.1.2.3:4791", packet(RC_SEND, Qpn::MULTICAST, b"to a group")),
        (HERE, packet(RC_SEND, not_its_own, b"for another one")),
        (HERE, datagram(Qpn::GSI, Qpn::GSI, b"past the claims")),
        (HERE, datagram(to, own, b"true")),
    ] {
        hostile.send(&head(dst, bytes.len()), &bytes);
    }
    assert_eq!(receive(&mut victim, 1), [datagram(to, own, b"true")]);
    let stats = victim.stats();
    let refused = stats.rx_refused;
    assert_eq!((refused.wrong_peer, refused.too_short, refused.wrong_destination), (2, 1, 5));
    assert_eq!(stats.rx_dropped, 8);
    assert_eq!(victim.link_counts(), (1, 1));
}

/// All of its memory changes all the time.
#[test]
fn a31_a_client_that_scribbles_over_a_link_harms_nobody_else() {
    let running = Running::start();
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise
    };
    let (mut a, mut b) = (running.client(), running.client());
    link(&mut a, &mut b);
    let to_b = slot(&mut b).qpn(1);
    for round in 0..30 {
        let mut victim = running.client();
        let mut hostile = Hostile::new(&running, &mut victim);
        hostile.switch();
        let to_hostile = packet(RC_SEND, hostile.client.slot.qpn(1), &[1; 600]);
        for _ in 0..200 {
            let at = next() as usize % (LINK_MEMORY / 64) * 64;
            hostile.memory.write(at, &next().to_ne_bytes());
            let first = hostile.ring().first_byte() + next() as usize % 4096;
            hostile.memory.write(first, &head(HERE, 16 + next() as usize % 99));
            hostile.memory.store(hostile.ring().sent_word(), next() as u32 & !63 & 0xffff);
            let other = LINK_RINGS[1 - usize::from(hostile.end.sends)];
            hostile.memory.store(other.taken_word(), next() as u32);
            hostile.memory.store(LINK_SLEEPS[usize::from(hostile.end.sends)], next() as u32);
            commit(&mut victim, HERE, &to_hostile);
            victim.flush().expect("sent");
            victim.recv(8, &mut |_| ()).expect("connected");
        }
        let bytes = numbered(RC_SEND, to_b, round, 40);
        send(&mut a, HERE, &bytes);
        assert_eq!(receive(&mut b, 1), [bytes]);
        let own = numbered(RC_SEND, slot(&mut victim).qpn(1), round, 40);
        send(&mut victim, HERE, &own);
        wait_until("its own", || {
            receive_within(&mut victim, 8, Duration::ZERO).contains(&own) || {
                receive_within(&mut victim, 8, Duration::from_micros(50)).contains(&own)
            }
        });
    }
    assert_eq!((a.link_counts(), b.link_counts()), ((1, 1), (1, 1)));
}

#[test]
fn a_client_that_never_reads_its_link_costs_packets_for_itself_only() {
    let running = Running::start();
    let (mut a, mut b) = (running.client(), running.client());
    link(&mut a, &mut b);
    let hostile = Hostile::new(&running, &mut a);
    let (bytes, to_b) =
        (packet(RC_SEND, hostile.client.slot.qpn(1), &[7; 4000]), slot(&mut b).qpn(1));
    for number in 0..1000 {
        send(&mut a, HERE, &bytes);
        let near = numbered(RC_SEND, to_b, number, 9);
        send(&mut a, HERE, &near);
        assert_eq!(receive(&mut b, 1), [near]);
    }
    // 4096 bytes each, in 2 MiB.
    let dropped = a.stats().tx_dropped;
    assert!((480..=495).contains(&dropped), "{dropped}");
    // It reads what it got, and gets more.
    let mut ring = RingReceiver::new(LINK_RINGS[1 - usize::from(hostile.end.sends)]);
    for _ in 0..100 {
        ring.next(&hostile.memory).expect("a sound sender").expect("a packet");
        ring.take(&hostile.memory, &mut vec![0; bytes.len()]);
    }
    ring.release(&hostile.memory);
    send(&mut a, HERE, &bytes);
    assert_eq!(a.stats().tx_dropped, dropped);
}

/// What is written to a link waits until what the same client had sent before was received.
#[test]
fn a_link_is_read_behind_its_mark_only() {
    let running = Running::start();
    let mut victim = running.client();
    let mut hostile = Hostile::new(&running, &mut victim);
    let to = slot(&mut victim).qpn(1);
    let bytes = |number| numbered(RC_SEND, to, number, 30);
    hostile.send(&head(HERE, bytes(1).len()), &bytes(1));
    assert!(receive_within(&mut victim, 1, Duration::from_millis(20)).is_empty());
    // Marks of links that it does not have are for nobody.
    for number in [0, hostile.end.number + 1, u32::MAX] {
        hostile.tell_service(&head::switch(number), &[0; 16]);
    }
    hostile.tell_service(&head(HERE, bytes(0).len()), &bytes(0));
    hostile.switch();
    hostile.switch();
    let got: Vec<_> = receive(&mut victim, 2).iter().map(|got| number_of(got)).collect();
    assert_eq!(got, [0, 1]);
}

#[test]
fn a_client_that_floods_the_socket_of_a_link_loses_the_link() {
    let running = Running::start();
    let mut victim = running.client();
    let mut hostile = Hostile::new(&running, &mut victim);
    let message = [0; 9];
    while send_message(&hostile.socket, &message, SendFlags::DONTWAIT).is_ok() {}
    fall_asleep(&mut victim);
    is_unlinked(&mut hostile, &mut victim);
    // It has closed the socket, and nothing else.
    let mut victim = running.client();
    let mut hostile = Hostile::new(&running, &mut victim);
    rustix::net::shutdown(&hostile.socket, rustix::net::Shutdown::Both).expect("connected");
    fall_asleep(&mut victim);
    is_unlinked(&mut hostile, &mut victim);
}

/// It ends the link again and again.
#[test]
fn two_clients_whose_link_was_ended_get_no_other_one() {
    let running = Running::start();
    let mut victim = running.client();
    let mut hostile = Hostile::new(&running, &mut victim);
    for number in [hostile.end.number, hostile.end.number, 0, u32::MAX] {
        hostile.client.control.send(&ClientMessage::Unlink(number).encode()).expect("sent");
    }
    wait_until("the link has ended", || {
        receive_within(&mut victim, 1, Duration::from_micros(50));
        victim.link_counts().0 == 0
    });
    let bytes = packet(RC_SEND, hostile.client.slot.qpn(1), b"hello");
    for _ in 0..2000 {
        wait_until("room", || commit(&mut victim, HERE, &bytes) || victim.flush().is_err());
        victim.flush().expect("sent");
    }
    running.await_status("dropped, 0 links");
    assert_eq!(victim.link_counts(), (0, 0));
    assert!(take_link(&hostile.client).is_none());
    let own = numbered(RC_SEND, slot(&mut victim).qpn(1), 1, 9);
    hostile.tell_service(&head(HERE, own.len()), &own);
    assert_eq!(receive(&mut victim, 1), [own]);
}

/// It keeps the memory of the link, and its slot may be another client's by then.
#[test]
fn a31_a_client_that_has_left_is_not_heard_any_more() {
    const SENT: usize = 300;
    let running = Running::start();
    let mut victim = running.client();
    let mut hostile = Hostile::new(&running, &mut victim);
    hostile.switch();
    wait_until("the link is open", || {
        receive_within(&mut victim, 1, Duration::from_micros(50));
        victim.link_counts() == (1, 1)
    });
    let bytes = numbered(RC_SEND, slot(&mut victim).qpn(1), 7, 30);
    (0..SENT).for_each(|_| hostile.send(&head(HERE, bytes.len()), &bytes));
    let Hostile { client, memory, mut sent, .. } = hostile;
    drop(client);
    wait_until("the link has ended", || {
        assert_eq!(victim.recv(0, &mut |_| ()).expect("connected"), 0);
        victim.link_counts().0 == 0
    });
    for _ in 0..SENT {
        assert!(sent.push(&memory, &head(HERE, bytes.len()), &bytes));
        sent.publish(&memory);
    }
    let got = receive_within(&mut victim, 2 * SENT, Duration::from_millis(300));
    assert_eq!(got.len(), SENT, "what it had sent before it left");
    assert_eq!(victim.links_held(), 0);
}

/// Neither in one way of leaving nor in the other.
#[test]
fn a31_what_is_in_links_that_were_never_opened_is_not_kept_for_ever() {
    let running = Running::start();
    let mut victim = running.client();
    for leaves in [true, false, true] {
        let mut hostile = Hostile::new(&running, &mut victim);
        let bytes = numbered(RC_SEND, slot(&mut victim).qpn(1), 7, 30);
        hostile.send(&head(HERE, bytes.len()), &bytes);
        if leaves {
            drop(hostile);
        } else {
            let message = ClientMessage::Unlink(hostile.end.number).encode();
            hostile.client.control.send(&message).expect("sent");
        }
        wait_until("the link is forgotten", || {
            receive_within(&mut victim, 1, Duration::from_micros(50));
            victim.links_held() == 0
        });
    }
}
