//! Which clients a packet reaches, without a thread or a socket of a service.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use uroce_datapath::IpId;
use uroce_host::process;

use super::*;
use crate::control::ControlSocket;
use crate::head::ArrivedHead;
use crate::ring::{ARRIVED, MEMORY, RingReceiver};
use crate::sys::shared_memory::SharedMemory;

/// The client's end of what it shares with the service.
struct Guest {
    memory: SharedMemory,
    ring: RingReceiver,
    slot: Slot,
    _control: ControlSocket,
}

impl Guest {
    fn join(clients: &mut Clients, number: u8) -> Self {
        let slot = Slot::new(number).expect("a slot");
        let (memory, file) = SharedMemory::create(MEMORY).expect("memory");
        let theirs = SharedMemory::open(&file, MEMORY).expect("the same");
        let kind = SocketType::SEQPACKET;
        let (a, b) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("sockets");
        let (a, control) = (ControlSocket::of(a), ControlSocket::of(b));
        let peer = process::peer(&a).expect("ours");
        clients.add(AttachedClient::new(a, memory, slot, peer));
        Self { memory: theirs, ring: RingReceiver::new(ARRIVED), slot, _control: control }
    }

    /// How many packets have come since the last call.
    fn count(&mut self, clients: &mut Clients) -> usize {
        if let Some(client) = clients.get(self.slot) {
            client.publish();
        }
        let mut count = 0;
        while let Some(head) = self.ring.next(&self.memory).expect("a sound service") {
            let head = ArrivedHead::decode(&head).expect("a packet");
            self.ring.take(&self.memory, &mut vec![0; head.len]);
            count += 1;
        }
        self.ring.release(&self.memory);
        count
    }
}

fn gsi(rx: &RxPacket<'_>) -> RedirectTarget {
    match rx.payload[8] {
        0 => RedirectTarget::Here,
        1 => RedirectTarget::Everyone,
        2 => RedirectTarget::Service(7),
        number => Slot::new(number).map_or(RedirectTarget::Here, RedirectTarget::Slot),
    }
}

fn deliver_to(clients: &mut Clients, qpn: Qpn, dst: &str, kind: u8) {
    let mut payload = [0; 32];
    payload[5..8].copy_from_slice(&qpn.get().to_be_bytes()[1..]);
    payload[8] = kind;
    clients.deliver(&RxPacket {
        src: "10.0.0.9:4791".parse().expect("an address"),
        dst: dst.parse().expect("an address"),
        traffic_class: 0,
        hop_limit: 64,
        ip_id: IpId::Known(1),
        icrc_checked: true,
        following: None,
        fate: None,
        payload: &payload,
    });
}

const HERE: &str = "10.0.0.1:4791";
const GROUP: &str = "239.1.1.1:4791";

fn dropped(clients: &Clients, reason: DropReason) -> u64 {
    clients.drops().find(|(known, _)| *known == reason).map_or(0, |(_, count)| count)
}

#[test]
fn a_packet_for_a_queue_pair_reaches_its_owner_alone() {
    let mut clients = Clients::new(gsi, 0);
    let mut guests = [3, 200, 9].map(|number| Guest::join(&mut clients, number));
    for (n, number) in [3u8, 200, 9].into_iter().enumerate() {
        deliver_to(&mut clients, Slot::new(number).expect("a slot").qpn(77), HERE, 0);
        let counts = guests.each_mut().map(|guest| guest.count(&mut clients));
        assert_eq!(counts[n], 1);
        assert_eq!(counts.iter().sum::<usize>(), 1);
    }
    deliver_to(&mut clients, Slot::new(4).expect("a slot").qpn(77), HERE, 0);
    assert_eq!(dropped(&clients, DropReason::NoProcess), 1);
}

#[test]
fn what_no_client_is_known_for_goes_to_the_lowest_slot() {
    let mut clients = Clients::new(gsi, 0);
    deliver_to(&mut clients, Qpn::GSI, HERE, 0);
    assert_eq!(dropped(&clients, DropReason::NoProcess), 1, "nobody is there");
    let mut guests = [30, 2, 9].map(|number| Guest::join(&mut clients, number));
    deliver_to(&mut clients, Qpn::GSI, HERE, 0);
    deliver_to(&mut clients, Qpn::GSI, HERE, 2);
    assert_eq!(guests.each_mut().map(|guest| guest.count(&mut clients)), [0, 2, 0]);
    clients.claim(guests[0].slot, 7).expect("free");
    deliver_to(&mut clients, Qpn::GSI, HERE, 2);
    deliver_to(&mut clients, Qpn::GSI, HERE, 9);
    assert_eq!(guests.each_mut().map(|guest| guest.count(&mut clients)), [1, 0, 1]);
    deliver_to(&mut clients, Qpn::GSI, HERE, 100);
    assert_eq!(dropped(&clients, DropReason::NoProcess), 2, "a slot without a client");
}

#[test]
fn a_message_for_all_reaches_each_of_them_once_and_not_too_often() {
    let mut clients = Clients::new(gsi, 0);
    let mut guests = [3, 4, 5].map(|number| Guest::join(&mut clients, number));
    deliver_to(&mut clients, Qpn::GSI, HERE, 1);
    assert_eq!(guests.each_mut().map(|guest| guest.count(&mut clients)), [1, 1, 1]);
    for _ in 0..1000 {
        deliver_to(&mut clients, Qpn::GSI, HERE, 1);
    }
    let limited = dropped(&clients, DropReason::CmRateLimit);
    let counts = guests.each_mut().map(|guest| guest.count(&mut clients));
    assert_eq!(counts, [1000 - limited as usize; 3]);
    assert!(limited > 0, "1000 at once");
}

#[test]
fn a_group_opens_with_its_first_member_and_closes_with_its_last() {
    let mut clients = Clients::new(gsi, 0);
    let mut guests = [3, 4].map(|number| Guest::join(&mut clients, number));
    let group = GROUP.parse::<std::net::SocketAddr>().expect("an address").ip();
    let mut opened = 0;
    for slot in [guests[0].slot, guests[1].slot, guests[0].slot] {
        let open = || {
            opened += 1;
            Ok(())
        };
        clients.join(slot, group, open).expect("joined");
    }
    assert_eq!(opened, 1);
    deliver_to(&mut clients, Qpn::MULTICAST, GROUP, 0);
    assert_eq!(guests.each_mut().map(|guest| guest.count(&mut clients)), [1, 1], "each once");
    assert!(!clients.leave(guests[0].slot, group), "one is left");
    assert!(!clients.leave(guests[0].slot, group), "no member any more");
    assert_eq!(clients.remove(guests[1].slot), [group]);
    deliver_to(&mut clients, Qpn::MULTICAST, GROUP, 0);
    assert_eq!(dropped(&clients, DropReason::NoMulticastMember), 1);
    let refused = || Err(io::ErrorKind::PermissionDenied.into());
    clients.join(guests[0].slot, group, refused).expect_err("the kernel refuses");
    assert!(!clients.leave(guests[0].slot, group), "never joined");
}

#[test]
fn claims_have_one_owner_and_a_limit() {
    let mut clients = Clients::new(gsi, 0);
    let guests = [3, 4].map(|number| Guest::join(&mut clients, number));
    for service in 0..MAX_SERVICES as u64 {
        clients.claim(guests[0].slot, service).expect("free");
    }
    let full = clients.claim(guests[0].slot, u64::MAX).expect_err("too many");
    assert_eq!(Errno::from_io_error(&full), Some(Errno::NOSPC));
    clients.claim(guests[0].slot, 5).expect("its own");
    clients.claim(guests[1].slot, u64::MAX).expect("not kept by the one that was refused");
    clients.claim(guests[1].slot, 5).expect_err("taken");
    clients.release(guests[1].slot, 5);
    clients.claim(guests[1].slot, 5).expect_err("not its own to give back");
    clients.remove(guests[0].slot);
    clients.claim(guests[1].slot, 5).expect("free with its owner gone");
}

#[test]
fn a_full_ring_is_counted_and_a_later_packet_finds_room() {
    let mut clients = Clients::new(gsi, 0);
    let mut guest = Guest::join(&mut clients, 3);
    let qpn = guest.slot.qpn(1);
    let mut sent = 0;
    while dropped(&clients, DropReason::QueueFull) == 0 {
        deliver_to(&mut clients, qpn, HERE, 0);
        sent += 1;
    }
    assert_eq!(guest.memory.load(crate::ring::DROPPED), 1, "the client can see it");
    assert_eq!(guest.count(&mut clients), sent - 1);
    deliver_to(&mut clients, qpn, HERE, 0);
    assert_eq!(guest.count(&mut clients), 1);
}
