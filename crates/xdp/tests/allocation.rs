//! After set-up nothing is allocated for a packet.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use uroce_datapath::{Datapath, Route};
use uroce_xdp::{XdpDatapath, XdpMode};

#[path = "../../datapath/tests/counting/mod.rs"]
mod counting;
mod lab;

use counting::allocations;
use lab::Lab;

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
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let mut a = lab.open(0, lab::v4(0), XdpMode::Generic);
    let mut b = lab.open(1, lab::v4(1), XdpMode::Generic);
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
