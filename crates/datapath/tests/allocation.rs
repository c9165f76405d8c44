//! After set-up the datapaths allocate nothing for a packet.

mod counting;
#[path = "it/netns/mod.rs"]
mod netns;

use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use counting::allocations;
use netns::Wire;
use uroce_datapath::{
    ChannelDatapath, Datapath, LoopbackFabric, PacketConfig, PacketDatapath, RedirectTarget, Route,
    SlotDatapath, UdpConfig, UdpDatapath, UringDatapath,
};
use uroce_wire::Slot;

/// Full bursts in packets of many sizes and in GSO batches; returns packets sent and received.
fn rounds(
    a: &mut dyn Datapath,
    b: &mut dyn Datapath,
    routes: &[Route],
    rounds: usize,
) -> (usize, usize) {
    let (mut sent, mut received) = (0, 0);
    let slot = b.shared_port().map_or(0, |port| port.slot().get());
    for round in 0..rounds {
        let mut n = 0;
        while let Some(space) = a.tx_space() {
            let len = if round % 2 == 0 { 64 + (n * 37 + round) % 4000 } else { 1084 };
            space[..len].fill(n as u8);
            space[Slot::OFFSET] = slot;
            a.tx_commit(&routes[n / 8 % routes.len()], len, &mut |_, packet| packet[0] = 1);
            n += 1;
        }
        sent += a.flush().expect("flush").sent;
        received +=
            b.recv(usize::MAX, &mut |packet| assert_eq!(packet.payload[0], 1)).expect("recv");
        b.arm();
    }
    (sent, received)
}

fn check(mut a: Box<dyn Datapath>, mut b: Box<dyn Datapath>) {
    let ports = [0xC001, 0xC002, 0xC003].map(|wanted| a.source_port(wanted));
    let routes = [(0, 64, 0), (1, 64, 0x20), (2, 9, 3)].map(|(port, hop_limit, traffic_class)| {
        let src = SocketAddr::new(a.local().ip(), ports[port]);
        Route { src, dst: b.local(), hop_limit, traffic_class }
    });
    rounds(&mut a, &mut b, &routes, 40);
    let before = allocations();
    assert!(before > 0, "the counter works");
    let (sent, received) = rounds(&mut a, &mut b, &routes, 100);
    assert_eq!(allocations() - before, 0);
    assert!(sent >= 100 * 40, "{sent} packets");
    assert_eq!(received, sent);
}

#[test]
fn loopback_allocates_nothing() {
    let fabric = LoopbackFabric::new();
    let [a, b] = ["10.0.0.1:4791", "10.0.0.2:4791"]
        .map(|addr| Box::new(fabric.attach(addr.parse().expect("address")).expect("attach")));
    check(a, b);
}

#[test]
fn udp_allocates_nothing() {
    for addresses in [["127.0.0.1:0", "127.0.0.2:0"], ["[::1]:0", "[::1]:0"]] {
        let [a, b] = addresses.map(|addr| {
            let config = UdpConfig::new(addr.parse().expect("address"));
            Box::new(UdpDatapath::bind(&config).expect("bind"))
        });
        check(a, b);
    }
}

/// The second is not alone on its address.
#[test]
fn a_share_allocates_nothing() {
    let share = |addr: &str| {
        let config = UdpConfig::new(addr.parse().expect("address"));
        SlotDatapath::udp(&config, |_| RedirectTarget::Here).expect("a share")
    };
    let _first = share("127.91.16.2:4791");
    check(Box::new(share("127.91.16.1:4791")), Box::new(share("127.91.16.2:4791")));
}

#[test]
fn uring_allocates_nothing() {
    let open = |addr: &str| UringDatapath::bind(&UdpConfig::new(addr.parse().expect("address")));
    match (open("127.0.0.1:0"), open("127.0.0.2:0")) {
        (Ok(a), Ok(b)) => check(Box::new(a), Box::new(b)),
        (Err(error), _) | (_, Err(error)) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            println!("skipped: {error}");
        }
    }
}

#[test]
fn packet_sockets_allocate_nothing() {
    for addresses in [["10.77.0.1", "10.77.0.2"], ["fd77::1", "fd77::2"]] {
        let Some(wire) = Wire::new(9000) else { return };
        let [a, b] = addresses.map(|ip| SocketAddr::new(ip.parse().expect("address"), 4791));
        let open = |local| Box::new(PacketDatapath::open(&PacketConfig::new(local)).expect("open"));
        check(wire.a.run(move || open(a)), wire.b.run(move || open(b)));
    }
}

/// Bursts that arrive as one, for two engines in turn.
#[test]
fn engines_that_hand_over_to_each_other_allocate_nothing() {
    const BURST: usize = 40;
    let Some(wire) = Wire::new(9000) else { return };
    let [a, b] =
        ["10.77.0.1", "10.77.0.2"].map(|ip| SocketAddr::new(ip.parse().expect("address"), 4791));
    let mut from = wire.a.run(move || PacketDatapath::open(&PacketConfig::new(a)).expect("open"));
    let mut engines = wire.b.run(move || {
        let two = NonZeroU8::new(2).expect("not 0");
        let opened = PacketDatapath::open_several(&PacketConfig::new(b), two).expect("open");
        ChannelDatapath::connect(opened, |_| RedirectTarget::Here).expect("descriptors")
    });
    let src = SocketAddr::new(a.ip(), from.source_port(0xC001));
    let route = Route { src, dst: b, hop_limit: 64, traffic_class: 0 };
    let mut round = |number: usize| {
        for n in 0..BURST {
            let space = &mut from.tx_space().expect("room")[..1084];
            space.fill(0);
            space[Slot::OFFSET] = ((n + number) % 2) as u8 + 1;
            from.tx_commit(&route, 1084, &mut |_, _| ());
        }
        assert_eq!(from.flush().expect("flush").sent, BURST);
        let (mut got, end) = (0, Instant::now() + Duration::from_secs(5));
        while got < BURST {
            assert!(Instant::now() < end, "{got} of {BURST}");
            engines.iter_mut().for_each(|engine| {
                engine.recv(64, &mut |_| got += 1).expect("recv");
                engine.arm();
            });
        }
    };
    (0..20).for_each(&mut round);
    let before = allocations();
    (0..100).for_each(&mut round);
    assert_eq!(allocations() - before, 0);
    assert!(engines.iter().all(|engine| engine.stats().rx_adopted == 120 * BURST as u64 / 4));
}
