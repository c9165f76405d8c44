//! After set-up packet sockets allocate nothing for a packet.

use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use uroce_datapath::{ChannelDatapath, Datapath, RedirectTarget, Route};
use uroce_packet::{PacketConfig, PacketDatapath};
use uroce_testkit::allocations::{CountingAllocator, allocations};
use uroce_testkit::checks::nothing_is_allocated;
use uroce_testkit::namespace::Wire;
use uroce_wire::Slot;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

#[test]
fn packet_sockets_allocate_nothing() {
    for addresses in [["10.77.0.1", "10.77.0.2"], ["fd77::1", "fd77::2"]] {
        let Some(wire) = Wire::new(9000) else { return };
        let [a, b] = addresses.map(|ip| SocketAddr::new(ip.parse().expect("address"), 4791));
        let open = |local| Box::new(PacketDatapath::open(&PacketConfig::new(local)).expect("open"));
        nothing_is_allocated(wire.a.run(move || open(a)), wire.b.run(move || open(b)));
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
