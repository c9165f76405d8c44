//! Several engines of one process on the queues of one interface.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use uroce_datapath::{ChannelDatapath, Datapath, RedirectTarget, Route};
use uroce_testkit::namespace::{Namespace, Wire};
use uroce_wire::{ROCE_PORT, Slot};
use uroce_xdp::{XdpConfig, XdpDatapath, XdpError, XdpMode};

use crate::lab::when_free;

const MODES: [XdpMode; 2] = [XdpMode::Generic, XdpMode::Native];
const QUEUES: usize = 4;
const SIZE: usize = 100;

type Engines = Vec<ChannelDatapath<XdpDatapath>>;

fn addr(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("address"), ROCE_PORT)
}

fn try_open(
    namespace: &Namespace,
    ip: &str,
    mode: XdpMode,
    engines: u8,
) -> Result<Engines, XdpError> {
    let config = XdpConfig { mode, ..XdpConfig::new(addr(ip)) };
    let engines = NonZeroU8::new(engines).expect("not 0");
    let opened = namespace.run(move || XdpDatapath::open_several(&config, engines))?;
    Ok(ChannelDatapath::connect(opened, |_| RedirectTarget::Here).expect("descriptors"))
}

fn open(namespace: &Namespace, ip: &str, mode: XdpMode, engines: u8) -> Engines {
    when_free(|| try_open(namespace, ip, mode, engines)).unwrap_or_else(|error| panic!("{error}"))
}

/// Sends a packet to each of these QPNs, by the source port with its place.
fn send(path: &mut dyn Datapath, dst: SocketAddr, qpns: &[[u8; 3]]) {
    for (number, qpn) in (0u8..).zip(qpns) {
        let space = &mut path.tx_space().expect("room")[..SIZE];
        space.fill(number);
        space[Slot::OFFSET..Slot::OFFSET + 3].copy_from_slice(qpn);
        let port = path.source_port(0xC000 + u16::from(number));
        let src = SocketAddr::new(path.local().ip(), port);
        let route = Route { src, dst, hop_limit: 64, traffic_class: 0 };
        path.tx_commit(&route, SIZE, &mut |_, _| ());
    }
    let flush = path.flush().expect("flush");
    assert_eq!(flush.sent, qpns.len(), "{:?}", path.last_problem());
}

/// The numbers of the packets that each engine gets, until there are `count`; and a moment longer.
fn take(engines: &mut Engines, count: usize) -> Vec<Vec<u8>> {
    let mut got = vec![Vec::new(); engines.len()];
    let mut end = Instant::now() + Duration::from_secs(5);
    let mut complete = false;
    while Instant::now() < end {
        for (engine, got) in engines.iter_mut().zip(&mut got) {
            engine.recv(7, &mut |rx| got.push(rx.payload[SIZE - 1])).expect("receive");
        }
        if !complete && got.iter().map(Vec::len).sum::<usize>() >= count {
            (complete, end) = (true, Instant::now() + Duration::from_millis(20));
        }
    }
    got.iter_mut().for_each(|got| got.sort_unstable());
    got
}

#[test]
fn whichever_queue_a_packet_comes_by_its_engine_gets_it() {
    for (mode, count) in MODES.into_iter().flat_map(|mode| [(mode, 4), (mode, 3), (mode, 2)]) {
        let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
        for (from, to) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
            let mut senders = open(&wire.a, from, mode, 4);
            let mut engines = open(&wire.b, to, mode, count);
            let slot = |n: u8| n % count + 1;
            for sender in &mut senders {
                // Each sends by a queue of its own.
                let qpns: Vec<_> = (0..24).map(|n| [slot(n), 0, 9]).collect();
                send(sender, addr(to), &qpns);
                let got = take(&mut engines, 24);
                for (engine, got) in (1..).zip(&got) {
                    let expected: Vec<u8> = (0..24).filter(|&n| slot(n) == engine).collect();
                    assert_eq!(*got, expected, "{} to {engine} of {count}", mode.name());
                }
            }
            let sum =
                |of: fn(&dyn Datapath) -> u64| engines.iter().map(|engine| of(engine)).sum::<u64>();
            let forwarded = sum(|engine| engine.stats().rx_forwarded);
            assert!(forwarded > 0, "{} {count}", mode.name());
            assert_eq!(sum(|engine| engine.stats().rx_adopted), forwarded);
            assert_eq!(sum(|engine| engine.stats().rx_packets), 4 * 24);
            assert_eq!(sum(|engine| engine.stats().rx_unforwarded), 0);
        }
    }
}

#[test]
fn each_member_of_a_group_hears_it_once_also_from_its_own_host() {
    let group: IpAddr = "239.1.2.3".parse().expect("group");
    for mode in MODES {
        let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
        let mut outside = open(&wire.a, "10.77.0.1", mode, 2);
        let mut engines = open(&wire.b, "10.77.0.2", mode, 3);
        let mut check = |engines: &mut Engines, members: [usize; 3]| {
            let to = SocketAddr::new(group, ROCE_PORT);
            let expected = members.map(|n| 4 * n);
            send(&mut outside[1], to, &[[0xff; 3]; 4]);
            let got = take(engines, expected.iter().sum());
            assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), expected, "from outside");
            send(&mut engines[0], to, &[[0xff; 3]; 4]);
            let got = take(engines, expected.iter().sum());
            assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), expected, "from one of them");
        };
        check(&mut engines, [0, 0, 0]);
        engines[1].join(group).expect("joined");
        check(&mut engines, [0, 1, 0]);
        engines[2].join(group).expect("joined");
        check(&mut engines, [0, 1, 1]);
        engines[1].leave(group).expect("left");
        check(&mut engines, [0, 0, 1]);
        engines[2].leave(group).expect("left");
        check(&mut engines, [0, 0, 0]);
        assert!(engines.iter().all(|engine| engine.stats().rx_dropped == 0));
    }
}

#[test]
fn one_program_serves_all_engines_and_ends_with_the_last() {
    let Some(wire) = Wire::with_queues(1500, QUEUES) else { return };
    let programs = || wire.b.sh("ip link show dev wb").matches("prog/xdp").count();
    let mut engines = open(&wire.b, "10.77.0.2", XdpMode::Generic, 2);
    assert_eq!(programs(), 1);
    drop(engines.remove(0));
    assert_eq!(programs(), 1);
    drop(engines);
    let end = Instant::now() + Duration::from_secs(3);
    while programs() > 0 {
        assert!(Instant::now() < end, "the program stays");
    }
}

#[test]
fn more_engines_than_queues_are_refused() {
    let Some(wire) = Wire::with_queues(1500, 2) else { return };
    let error = try_open(&wire.b, "10.77.0.2", XdpMode::Generic, 3).expect_err("two queues");
    assert!(matches!(error, XdpError::TooFewQueues { queues: 2, .. }), "{error}");
    assert_eq!(error.errno(), libc::EINVAL);
    drop(open(&wire.b, "10.77.0.2", XdpMode::Generic, 2));
}
