//! Several datapaths on one address, as several processes have them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use uroce_datapath::{Datapath, IpId, RedirectTarget, RxPacket, SharedPort};
use uroce_host::{BindError, PortHolder};
use uroce_udp::{SlotDatapath, UdpConfig, UdpDatapath, UringDatapath, slots_taken};
use uroce_wire::Slot;

const PORT: u16 = 4791;
/// Payload bytes behind the QPN, which name who a packet to QP 1 is for.
const NAMED: usize = 8;

/// QP 1 packets of these tests name their addressee in plain.
fn addressee(rx: &RxPacket<'_>) -> RedirectTarget {
    match rx.payload.get(NAMED..NAMED + 2) {
        Some(&[b's', number]) => {
            Slot::new(number).map_or(RedirectTarget::Here, RedirectTarget::Slot)
        }
        Some(&[b'c', service]) => RedirectTarget::Service(service.into()),
        Some(b"**") => RedirectTarget::Everyone,
        _ => RedirectTarget::Here,
    }
}

/// Each test has an address of its own.
fn local(last: u8) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(127, 91, 14, last).into(), PORT)
}

fn share(local: SocketAddr) -> SlotDatapath<UdpDatapath> {
    SlotDatapath::udp(&UdpConfig::new(local), addressee).expect("a share")
}

fn slot(datapath: &impl SharedPort) -> u8 {
    datapath.slot().get()
}

fn packet(qpn: [u8; 3], rest: &[u8]) -> Vec<u8> {
    let head = [100, 0x40, 0xff, 0xff, 0, qpn[0], qpn[1], qpn[2]];
    [&head[..], rest].concat()
}

/// The payloads that arrive within a moment, until there are `count`.
fn arrivals(datapath: &mut impl Datapath, count: usize) -> Vec<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(5);
    let mut got = Vec::new();
    while got.len() < count && Instant::now() < end {
        let more = datapath.recv(64, &mut |rx| got.push(rx.payload.to_vec()));
        more.expect("receive");
    }
    got
}

fn sender(local: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((local.ip(), 0)).expect("a socket");
    socket.connect(local).expect("connected");
    socket
}

#[test]
fn each_share_has_its_slot_and_frees_it() {
    let local = local(1);
    let (first, second) = (share(local), share(local));
    assert_eq!((slot(&first), slot(&second)), (1, 2));
    let taken = |local| slots_taken(local).expect("shown").into_iter().map(Slot::get).collect();
    let (two, one): (Vec<u8>, Vec<u8>) = (taken(local), {
        drop(first);
        taken(local)
    });
    assert_eq!((two, one), (vec![1, 2], vec![2]));
    assert_eq!((slot(&share(local)), slot(&second)), (1, 2));
}

#[test]
fn the_kernel_gives_each_its_packets() {
    let local = local(2);
    let mut shares: Vec<_> = (0..5).map(|_| share(local)).collect();
    let from = sender(local);
    for share in &mut shares {
        let sent = packet([slot(share), 1, 2], b"for one of them");
        (0..20).for_each(|_| assert_eq!(from.send(&sent).expect("sent"), sent.len()));
        assert_eq!(arrivals(share, 20), vec![sent; 20]);
        assert_eq!(share.stats().rx_adopted, 0, "steered, not handed over");
    }
    assert!(shares.iter().all(|share| share.stats().rx_forwarded == 0));
}

/// Whoever is in the first place gets what is for the last one, who has come to be there.
#[test]
fn a_misrouted_packet_is_redirected_with_its_headers() {
    let local = local(3);
    let mut shares: Vec<_> = (0..3).map(|_| share(local)).collect();
    drop(shares.remove(0));
    let from = sender(local);
    from.set_ttl(17).expect("set");
    let sent: Vec<_> = (0..40).map(|n| packet([3, 0, n], &[n; 100])).collect();
    sent.iter().for_each(|payload| assert_eq!(from.send(payload).expect("sent"), payload.len()));
    let mut got = Vec::new();
    let end = Instant::now() + Duration::from_secs(5);
    while got.len() < sent.len() && Instant::now() < end {
        for share in &mut shares {
            let own = share.slot();
            let each = share.recv(7, &mut |rx| {
                assert_eq!(own.get(), 3);
                assert_eq!((rx.src, rx.dst), (from.local_addr().expect("bound"), local));
                assert_eq!((rx.hop_limit, rx.traffic_class), (17, 0));
                // Its place is that in the letter: how many stand in one is a matter of time.
                assert!(matches!(rx.ip_id, IpId::Hidden(_)), "{:?}", rx.ip_id);
                got.push(rx.payload.to_vec());
            });
            each.expect("receive");
        }
    }
    assert_eq!(got, sent, "all of them, in order");
    let stats: Vec<_> = shares.iter().map(|share| share.stats()).collect();
    assert_eq!(stats[1].rx_packets, 40);
    assert_eq!(stats[0].rx_forwarded, stats[1].rx_adopted);
    assert_eq!((stats[0].rx_packets, stats[0].rx_unforwarded), (0, 0));
}

/// After a while, nothing goes misrouted any more.
#[test]
fn a_probe_repairs_the_steering() {
    let local = local(10);
    let mut shares: Vec<_> = (0..5).map(|_| share(local)).collect();
    drop(shares.remove(1));
    drop(shares.remove(0));
    shares.push(share(local));
    assert_eq!(shares.iter().map(slot).collect::<Vec<_>>(), [3, 4, 5, 1]);
    let from = sender(local);
    let end = Instant::now() + Duration::from_secs(20);
    let (mut sent, mut steered) = (0, 0);
    while steered < 100 {
        assert!(Instant::now() < end, "packets still go astray");
        let before: u64 = shares.iter().map(|share| share.stats().rx_forwarded).sum();
        for number in [3, 4, 5, 1] {
            let payload = packet([number, 0, 0], b"to each");
            assert_eq!(from.send(&payload).expect("sent"), payload.len());
            sent += 1;
        }
        while shares.iter().map(|share| share.stats().rx_packets).sum::<u64>() < sent {
            assert!(Instant::now() < end, "packets are lost");
            shares.iter_mut().for_each(|share| {
                arrivals_now(share);
            });
        }
        let after: u64 = shares.iter().map(|share| share.stats().rx_forwarded).sum();
        steered = if after == before { steered + 1 } else { 0 };
    }
    assert!(shares.iter().all(|share| share.stats().rx_unforwarded == 0));
}

#[test]
fn a_packet_for_an_unknown_slot_stays_where_it_arrived() {
    let local = local(4);
    let mut share = share(local);
    let from = sender(local);
    let others = [[0, 0, 0], [0, 0, 1], [9, 9, 9], [254, 0, 0], [255, 255, 255]];
    let sent: Vec<_> = others.into_iter().map(|qpn| packet(qpn, b"unknown")).collect();
    sent.iter().for_each(|payload| assert_eq!(from.send(payload).expect("sent"), payload.len()));
    assert_eq!(arrivals(&mut share, sent.len()), sent);
    assert_eq!(share.stats().rx_packets, 5);
}

#[test]
fn packets_to_qp_1_find_slot_service_or_everyone() {
    let local = local(5);
    let mut shares: Vec<_> = (0..4).map(|_| share(local)).collect();
    shares[1].claim_service(b'x'.into()).expect("free");
    shares[1].claim_service(b'x'.into()).expect("ours");
    assert!(shares[2].claim_service(b'x'.into()).is_err(), "taken");
    let from = sender(local);
    let (to_slot, to_service, to_all) =
        (packet([0, 0, 1], b"s\x03"), packet([0, 0, 1], b"cx"), packet([0, 0, 1], b"**"));
    for payload in [&to_slot, &to_service, &to_all] {
        assert_eq!(from.send(payload).expect("sent"), payload.len());
    }
    let wanted =
        [vec![&to_all], vec![&to_all, &to_service], vec![&to_all, &to_slot], vec![&to_all]];
    let mut got = vec![Vec::new(); 4];
    let end = Instant::now() + Duration::from_secs(5);
    while got.iter().map(Vec::len).sum::<usize>() < 6 && Instant::now() < end {
        for (share, got) in shares.iter_mut().zip(&mut got) {
            share.recv(64, &mut |rx| got.push(rx.payload.to_vec())).expect("receive");
        }
    }
    got.iter_mut().for_each(|got| got.sort());
    assert_eq!(got.iter().map(|got| got.iter().collect::<Vec<_>>()).collect::<Vec<_>>(), wanted);
    shares[1].release_service(b'x'.into());
    shares[2].claim_service(b'x'.into()).expect("free again");
}

#[test]
fn a_process_that_sleeps_is_woken_for_a_redirected_packet() {
    use std::os::fd::AsFd;
    let local = local(6);
    let mut shares: Vec<_> = (0..2).map(|_| share(local)).collect();
    let sleeper_waits = shares[1].waiter().expect("a descriptor");
    assert_eq!(arrivals_now(&mut shares[1]), 0);
    assert!(!shares[1].arm());
    // To QP 1, for slot 2, from as many ports as it takes until the other share gets one.
    let payload = packet([0, 0, 1], b"s\x02");
    let mut ports = 0..100;
    while shares[0].stats().rx_forwarded == 0 && ports.next().is_some() {
        assert_eq!(sender(local).send(&payload).expect("sent"), payload.len());
        arrivals_now(&mut shares[0]);
    }
    let mut waits = [rustix_poll(sleeper_waits.as_fd())];
    let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut waits, Some(&patience)).expect("poll"), 1);
    assert!(!arrivals(&mut shares[1], 1).is_empty());
}

fn rustix_poll(fd: std::os::fd::BorrowedFd<'_>) -> rustix::event::PollFd<'_> {
    rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)
}

fn arrivals_now(datapath: &mut impl Datapath) -> usize {
    let mut count = 0;
    datapath.recv(64, &mut |_| count += 1).expect("receive");
    count
}

#[test]
fn uring_shares_with_udp() {
    let local = local(7);
    let mut udp = share(local);
    let mut uring = match SlotDatapath::<UringDatapath>::uring(&UdpConfig::new(local), addressee) {
        Ok(uring) => uring,
        Err(error) if std::env::var_os("CI").is_none() => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let from = sender(local);
    for number in [1, 2] {
        let sent = packet([number, 1, 1], b"to each");
        assert_eq!(from.send(&sent).expect("sent"), sent.len());
        let got = if number == 1 { arrivals(&mut udp, 1) } else { arrivals(&mut uring, 1) };
        assert_eq!(got, [sent]);
    }
    drop(udp);
    let sent = packet([2, 1, 1], b"to the one that is left");
    assert_eq!(from.send(&sent).expect("sent"), sent.len());
    assert_eq!(arrivals(&mut uring, 1), [sent]);
}

#[test]
fn a_group_is_heard_by_all_that_joined() {
    let local = local(8);
    let group: IpAddr = Ipv4Addr::new(239, 91, 14, 8).into();
    let mut shares: Vec<_> = (0..3).map(|_| share(local)).collect();
    shares[0].join(group).expect("joined");
    shares[2].join(group).expect("joined");
    let from = UdpSocket::bind((local.ip(), 0)).expect("a socket");
    let sent = packet([255, 255, 255], b"to all");
    socket2::SockRef::from(&from)
        .set_multicast_if_v4(match &local.ip() {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => unreachable!("it is v4"),
        })
        .expect("set");
    from.send_to(&sent, (group, PORT)).expect("sent");
    assert_eq!(arrivals(&mut shares[0], 1), std::slice::from_ref(&sent));
    assert_eq!(arrivals(&mut shares[2], 1), [sent]);
    assert_eq!(arrivals_now(&mut shares[1]), 0);
}

#[test]
fn who_does_not_share_is_told_who_has_the_port() {
    let local = local(9);
    let _share = share(local);
    let error = UdpDatapath::bind(&UdpConfig::new(local)).expect_err("taken");
    assert!(matches!(error, BindError::PortBusy { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("a process of this user"), "{error}");
}

#[test]
fn an_address_of_ipv6_is_shared_too() {
    let local: SocketAddr = "[::1]:26891".parse().expect("an address");
    let mut shares: Vec<_> = (0..3).map(|_| share(local)).collect();
    drop(shares.remove(0));
    let from = sender(local);
    for (index, number) in [(0, 2), (1, 3)] {
        let sent = packet([number, 0, 0], b"to each");
        assert_eq!(from.send(&sent).expect("sent"), sent.len());
        let end = Instant::now() + Duration::from_secs(5);
        while shares[index].stats().rx_packets == 0 && Instant::now() < end {
            shares.iter_mut().for_each(|share| {
                share
                    .recv(64, &mut |rx| {
                        assert_eq!((rx.payload, rx.ip_id), (&sent[..], IpId::NotPresent));
                    })
                    .expect("receive");
            });
        }
        assert_eq!(shares[index].stats().rx_packets, 1);
    }
}

#[test]
fn when_all_slots_are_taken_the_error_says_so() {
    let local = local(14);
    let all: Vec<_> = Slot::all()
        .map(|slot| {
            let socket = seqpacket();
            rustix::net::bind(&socket, &name_of(local, slot.get())).expect("free");
            socket
        })
        .collect();
    let error = SlotDatapath::udp(&UdpConfig::new(local), addressee).expect_err("no slot");
    assert!(matches!(error, BindError::NoSlot(_)), "{error}");
    assert!(error.to_string().starts_with("254 processes use 127.91.14.14"), "{error}");
    drop(all);
    assert_eq!(slot(&share(local)), 1);
}

/// Runs `work` in a thread of the user nobody; `None`, with a reason, where that is not permitted.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let nobody = rustix::process::Uid::from_raw(65_534);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?;
            Ok::<T, rustix::io::Errno>(work())
        });
        match thread.join().expect("no panic") {
            Ok(done) => Some(done),
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "{error}");
                println!("skipped: no thread of another user: {error}");
                None
            }
        }
    })
}

#[test]
fn a42_when_another_user_has_all_names_the_error_says_who() {
    let local = local(18);
    let Some(all) = as_nobody(|| {
        let take = |slot: Slot| {
            let socket = seqpacket();
            rustix::net::bind(&socket, &name_of(local, slot.get())).expect("free");
            rustix::net::listen(&socket, 8).expect("listens");
            socket
        };
        Slot::all().map(take).collect::<Vec<_>>()
    }) else {
        return;
    };
    let error = SlotDatapath::udp(&UdpConfig::new(local), addressee).expect_err("no slot");
    assert!(matches!(error, BindError::ForeignSlots { user: 65_534, count: 254, .. }), "{error}");
    assert!(error.to_string().contains("uid 65534"), "{error}");
    drop(all);
}

#[test]
fn another_user_is_told_whose_the_port_is() {
    let local = local(11);
    let _share = share(local);
    let open = || SlotDatapath::udp(&UdpConfig::new(local), addressee);
    let Some(opened) = as_nobody(|| open().err()) else { return };
    let error = opened.expect("another user's");
    let BindError::PortBusy { holder: PortHolder::Other { uid, .. }, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(uid, rustix::process::geteuid().as_raw());
    assert!(error.to_string().contains("only processes of one user can share"), "{error}");
}

#[test]
fn a_process_that_has_changed_its_user_still_hands_packets_over() {
    let local = local(12);
    let mut share = share(local);
    let bring = || {
        let socket = connect_to(local, 1)?;
        rustix::net::send(&socket, &letter_to(1), rustix::net::SendFlags::NOSIGNAL)
    };
    assert!(bring().is_ok());
    assert_eq!(arrivals(&mut share, 1).len(), 1, "one of ours may");
    let Some(outcome) = as_nobody(bring) else { return };
    assert!(outcome.is_ok());
    assert_eq!(
        arrivals(&mut share, 1).len(),
        1,
        "this process has a slot, whatever its user is now"
    );
}

#[test]
fn a_service_of_a_process_that_has_changed_its_user_is_found() {
    let local = local(16);
    let mut callee = share(local);
    let mut caller = share(local);
    // The name is claimed as another user; the slot is that of the user who bound the port.
    let Some(claimed) = as_nobody(|| callee.claim_service(7)) else { return };
    claimed.expect("free");
    let from = sender(local);
    for _ in 0..2 {
        from.send(&packet([0, 0, 1], &[b'c', 7])).expect("sent");
    }
    let end = Instant::now() + Duration::from_secs(5);
    let mut got = 0;
    while got < 2 && Instant::now() < end {
        assert_eq!(arrivals_now(&mut caller), 0, "it is not the caller's");
        got += arrivals_now(&mut callee);
    }
    assert_eq!(got, 2);
}

#[test]
fn a41_packets_for_everyone_and_for_unknown_services_are_rare() {
    let local = local(17);
    let (mut first, mut second) = (share(local), share(local));
    let from = sender(local);
    let begin = Instant::now();
    for _ in 0..100 {
        from.send(&packet([0, 0, 1], b"**")).expect("sent");
        from.send(&packet([0, 0, 1], &[b'c', 9])).expect("sent");
    }
    let end = begin + Duration::from_secs(5);
    let (mut both, mut quiet) = ([0, 0], begin);
    while Instant::now() < end && quiet.elapsed() < Duration::from_millis(300) {
        let now = [arrivals_now(&mut first), arrivals_now(&mut second)];
        both = [both[0] + now[0], both[1] + now[1]];
        if now != [0, 0] {
            quiet = Instant::now();
        }
    }
    let tenths = begin.elapsed().as_millis() as usize / 100 + 1;
    let lost = (first.stats().rx_unforwarded + second.stats().rx_unforwarded) as usize;
    // The kernel gives the packets to one of both: it keeps what is for all of them, and requests that none
    // takes. The other one gets few copies, and few calls are looked for.
    let copies = (both[0] + both[1] + lost).saturating_sub(200);
    assert!((1..=2 * tenths).contains(&copies), "{both:?}, {lost} lost, {tenths}");
    assert!(lost >= 100usize.saturating_sub(10 * tenths), "{both:?}, {lost} lost, {tenths}");
}

/// Who takes the name of a slot gets nothing by it.
#[test]
fn nothing_is_handed_to_another_user() {
    let local = local(13);
    let name = name_of(local, 1);
    let Some(thief) = as_nobody(|| {
        let socket = seqpacket();
        rustix::net::bind(&socket, &name).expect("free");
        rustix::net::listen(&socket, 8).expect("listens");
        socket
    }) else {
        return;
    };
    let mut share = share(local);
    assert_eq!(slot(&share), 2, "the first is taken");
    let from = sender(local);
    let sent = packet([1, 2, 3], b"for a queue pair of slot 1");
    assert_eq!(from.send(&sent).expect("sent"), sent.len());
    assert_eq!(arrivals(&mut share, 1), [sent], "it stays");
    let accepted = rustix::net::accept_with(&thief, rustix::net::SocketFlags::NONBLOCK);
    let heard = accepted.and_then(|caller| {
        let mut bytes = [0; 512];
        rustix::net::recv(&caller, &mut bytes, rustix::net::RecvFlags::DONTWAIT)
    });
    assert!(!matches!(heard, Ok((length, _)) if length > 0), "not a byte of it");
}

fn name_of(local: SocketAddr, slot: u8) -> rustix::net::SocketAddrUnix {
    let name = format!("uroce1/{local}/slot/{slot}");
    rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name")
}

fn seqpacket() -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket")
}

fn connect_to(local: SocketAddr, slot: u8) -> rustix::io::Result<std::os::fd::OwnedFd> {
    let socket = seqpacket();
    rustix::net::connect(&socket, &name_of(local, slot)).map(|()| socket)
}

/// A letter with one packet, from 127.0.0.1 to 127.0.0.1.
fn letter_to(slot: u8) -> Vec<u8> {
    let payload = packet([slot, 0, 0], b"by hand");
    let address = [2, 0, 0x12, 0xb7, 127, 0, 0, 1];
    let mut head = vec![0; 64];
    (head[1], head[6], head[34]) = (64, 2, 2);
    head[6..14].copy_from_slice(&address);
    head[34..42].copy_from_slice(&address);
    head[62..].copy_from_slice(&(payload.len() as u16).to_ne_bytes());
    [head, payload].concat()
}
