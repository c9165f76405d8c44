//! After set-up nothing is allocated for a packet.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use uroce_datapath::{Datapath, Route};
use uroce_testkit::allocations::{CountingAllocator, allocations};
use uroce_testkit::namespace::Wire;
use uroce_xdp::{XdpConfig, XdpDatapath, XdpMode};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Full bursts of many sizes, some to ourselves; returns whether all arrived.
fn rounds(a: &mut XdpDatapath, b: &mut XdpDatapath, routes: &[Route], rounds: usize) -> bool {
    (0..rounds).all(|round| {
        let (mut there, mut own) = (0, 0);
        while let Some(space) = a.tx_space() {
            let n = there + own;
            let len = 64 + (n * 37 + round * 11) % 4100;
            space[..len].fill(n as u8);
            let route = &routes[n % routes.len()];
            a.tx_commit(route, len, &mut |_, packet| packet[0] = 1);
            if route.dst == a.local() { own += 1 } else { there += 1 }
        }
        a.flush().expect("flush");
        let mut left = [(&mut *a, own), (&mut *b, there)];
        left.iter_mut().all(|(path, left)| {
            let end = Instant::now() + Duration::from_secs(2);
            while *left > 0 && Instant::now() < end {
                *left -= path
                    .recv(usize::MAX, &mut |packet| assert_eq!(packet.payload[0], 1))
                    .expect("recv");
            }
            path.arm();
            *left == 0
        })
    })
}

#[test]
fn no_packet_allocates() {
    let Some(wire) = Wire::new(9000) else { return };
    let open = |ip: [u8; 4]| {
        let config = XdpConfig { mode: XdpMode::Generic, ..XdpConfig::new((ip, 4791).into()) };
        XdpDatapath::open(&config).expect("open")
    };
    let mut a = wire.a.run(move || open([10, 77, 0, 1]));
    let mut b = wire.b.run(move || open([10, 77, 0, 2]));
    let src = SocketAddr::new(a.local().ip(), 0xC001);
    let routes = [b.local(), b.local(), a.local()].map(|dst| Route {
        src,
        dst,
        hop_limit: 64,
        traffic_class: 0,
    });
    assert!(rounds(&mut a, &mut b, &routes, 20));
    let before = allocations();
    assert!(before > 0, "the counter works");
    assert!(rounds(&mut a, &mut b, &routes, 50));
    assert_eq!(allocations() - before, 0);
}
