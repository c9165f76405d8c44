use std::net::SocketAddr;

use uroce_datapath::{IpId, RxPacket};
use uroce_testkit::namespace::Namespace;

use super::super::namespace::listen;
use super::super::steering_probe::SlotSet;
use super::*;

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

/// A prober of slot 1 among so many processes, with the socket at which its probes arrive.
struct Bench {
    prober: SteeringProber,
    arrivals: UdpSocket,
    namespace: PortNamespace,
    _slots: Vec<OwnedFd>,
}

fn bench(last: u8, processes: u8) -> Bench {
    bench_at(SocketAddr::from(([127, 91, 20, last], 4791)), processes)
}

fn bench_at(local: SocketAddr, processes: u8) -> Bench {
    let namespace = PortNamespace::of(local).expect("an address of this host");
    let arrivals = UdpSocket::bind(namespace.address()).expect("free");
    arrivals.set_nonblocking(true).expect("a socket");
    let name = |number| namespace.slot(slot(number)).expect("a name");
    let slots = (1..=processes).map(|number| listen(&name(number)).expect("free")).collect();
    let socket = arrivals.try_clone().expect("a descriptor").into();
    let prober = SteeringProber::new(slot(1), namespace, socket);
    Bench { prober, arrivals, namespace, _slots: slots }
}

impl Bench {
    /// The probes that have arrived.
    fn probes(&self) -> Vec<Probe> {
        let mut all = vec![];
        let mut room = [0; 100];
        while let Ok((length, src)) = self.arrivals.recv_from(&mut room) {
            let packet = RxPacket {
                src,
                dst: self.prober.namespace.address(),
                traffic_class: 0,
                hop_limit: 64,
                ip_id: IpId::Hidden(0),
                icrc_checked: false,
                following: None,
                fate: None,
                payload: &room[..length],
            };
            all.push(Probe::read(&packet).expect("a probe"));
        }
        all
    }

    fn answer(&mut self, nonce: u64, index: u8, number: u8, ordered: &[u8]) {
        let mut set = SlotSet::default();
        ordered.iter().for_each(|number| set.add(slot(*number)));
        let answer = Answer { index, slot: slot(number), nonce, ordered: set };
        self.prober.handle_answer(&answer);
    }
}

#[test]
fn every_index_is_asked_once_for_each_process() {
    let mut bench = bench(1, 3);
    assert_eq!(bench.prober.timeout(), None);
    bench.prober.begin();
    let asked: Vec<_> = bench.probes().iter().map(|p| (p.index, p.asker, p.nonce)).collect();
    assert_eq!(asked, [0, 1, 2].map(|index| (index, slot(1), 1)));
    assert!(bench.prober.timeout().is_some_and(|left| left <= ANSWER_TIMEOUT));
    bench.prober.begin();
    assert!(bench.probes().is_empty(), "one round at a time");
}

#[test]
fn a_round_ends_with_the_last_answer_and_is_not_repeated_at_once() {
    let mut bench = bench(2, 2);
    bench.prober.begin();
    bench.answer(1, 0, 2, &[]);
    bench.answer(7, 1, 1, &[]);
    assert!(bench.prober.timeout().is_some(), "that was of another round");
    bench.answer(1, 1, 1, &[]);
    assert_eq!(bench.prober.timeout(), None);
    assert_eq!(bench.prober.found, SocketIndices::from([(slot(1), 1), (slot(2), 0)]));
    bench.probes();
    bench.prober.begin();
    assert!(bench.probes().is_empty(), "it was done a moment ago");
    bench.answer(1, 0, 1, &[]);
    assert_eq!(bench.prober.found[&slot(1)], 1, "what comes later changes nothing");
}

#[test]
fn packets_that_must_stay_in_order_keep_their_way() {
    let mut bench = bench(3, 2);
    bench.prober.begin();
    // Packets of slot 2 go to the process with slot 1, and it has some of unreliable connections.
    bench.answer(1, 0, 1, &[2]);
    bench.answer(1, 1, 2, &[]);
    assert_eq!(bench.prober.found, SocketIndices::from([(slot(1), 0), (slot(2), 0)]));
}

#[test]
fn a_round_without_all_answers_ends_in_time_with_what_was_found() {
    let mut bench = bench(4, 2);
    bench.prober.begin();
    bench.answer(1, 1, 1, &[]);
    bench.prober.handle_timeout();
    assert!(bench.prober.timeout().is_some(), "not yet");
    if let Some(round) = &mut bench.prober.round {
        round.end = Instant::now();
    }
    bench.prober.handle_timeout();
    assert_eq!(bench.prober.timeout(), None);
    assert_eq!(bench.prober.found, SocketIndices::from([(slot(1), 1)]));
}

#[test]
fn rounds_that_find_nothing_new_become_rare() {
    let mut bench = bench(5, 1);
    let mut intervals = vec![];
    for nonce in 1..=12 {
        bench.prober.next = Instant::now();
        bench.prober.begin();
        bench.answer(nonce, 0, 1, &[]);
        intervals.push(bench.prober.interval);
    }
    assert_eq!(intervals[..3], [1, 2, 4].map(|times| times * MIN_INTERVAL));
    assert_eq!(intervals.last(), Some(&MAX_INTERVAL));
    bench.prober.next = Instant::now();
    bench.prober.begin();
    bench.answer(13, 4, 1, &[]);
    assert_eq!(bench.prober.interval, MIN_INTERVAL, "something has changed");
}

#[test]
fn while_another_process_joins_there_is_no_round() {
    let mut bench = bench(6, 2);
    let lock = JoinLock::try_enter(bench.namespace).expect("names").expect("free");
    bench.prober.begin();
    assert!(bench.prober.timeout().is_none() && bench.probes().is_empty());
    drop(lock);
    bench.prober.next = Instant::now();
    bench.prober.begin();
    assert_eq!(bench.probes().len(), 2);
    assert!(JoinLock::try_enter(bench.namespace).expect("names").is_none(), "nor does one join");
}

/// Which is another one on each interface, and cannot be bound without its scope.
#[test]
fn a_link_local_address_is_probed_too() {
    let Some(namespace) = Namespace::open() else { return };
    namespace.sh("ip addr add fe80::7/64 dev lo nodad");
    let asked = namespace.run(|| {
        // The kernel is deaf to a new address of IPv6 for a moment.
        let socket = UdpSocket::bind("[fe80::7%1]:0").expect("free");
        socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a socket");
        let own = socket.local_addr().expect("bound");
        let hears = || socket.send_to(b"x", own).is_ok() && socket.recv(&mut [0; 8]).is_ok();
        assert!((0..1000).any(|_| hears()), "it is not there");
        let mut bench = bench_at("[fe80::7]:4791".parse().expect("an address"), 3);
        bench.prober.begin();
        bench.probes().len()
    });
    assert_eq!(asked, 3);
}
