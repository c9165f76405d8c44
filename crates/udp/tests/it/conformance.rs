//! What every datapath must do, checked for those on UDP sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};

use uroce_datapath::{Datapath, RedirectTarget};
use uroce_testkit::check_every_datapath;
use uroce_testkit::checks::{Trio, Trios, group_is_heard};
use uroce_udp::{SlotDatapath, UdpConfig, UdpDatapath, UringDatapath, UringError};

fn udp(addresses: [&str; 3]) -> Trio {
    addresses.map(|address| {
        let addr = SocketAddr::new(address.parse().expect("address"), 0);
        Box::new(UdpDatapath::bind(&UdpConfig::new(addr)).expect("bind")) as Box<dyn Datapath>
    })
}

/// Shares of addresses that no other process uses. The packets of these checks name slots at random.
fn shared(addresses: [&str; 3]) -> Trio {
    static PORT: AtomicU16 = AtomicU16::new(26_791);
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    addresses.map(|address| {
        let addr = SocketAddr::new(address.parse().expect("address"), port);
        let share = SlotDatapath::udp(&UdpConfig::new(addr), |_| RedirectTarget::Here);
        Box::new(share.expect("a share")) as Box<dyn Datapath>
    })
}

/// `None` where io_uring is not permitted; a test says so.
fn uring(addresses: [&str; 3]) -> Option<Trio> {
    let mut opened = Vec::new();
    for address in addresses {
        let addr = SocketAddr::new(address.parse().expect("address"), 0);
        match UringDatapath::bind(&UdpConfig::new(addr)) {
            Ok(path) => opened.push(Box::new(path) as Box<dyn Datapath>),
            Err(error @ UringError::Bind(_)) => panic!("{error}"),
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "{error}");
                println!("skipped: {error}");
                return None;
            }
        }
    }
    opened.try_into().ok()
}

fn for_all(check: fn(Trios)) {
    let mut trios = vec![
        ("udp v4", udp(["127.0.0.1", "127.0.0.2", "127.0.0.3"])),
        ("udp v6", udp(["::1", "::1", "::1"])),
        ("shared udp v4", shared(["127.91.17.1", "127.91.17.2", "127.91.17.3"])),
    ];
    let uring = [
        ("uring v4", uring(["127.0.0.1", "127.0.0.2", "127.0.0.3"])),
        ("uring v6", uring(["::1", "::1", "::1"])),
    ];
    trios.extend(uring.into_iter().filter_map(|(name, trio)| Some((name, trio?))));
    check(trios);
}

check_every_datapath!(for_all);

#[test]
fn members_of_a_group_hear_it_until_they_leave() {
    let group = "239.1.2.3".parse().expect("group");
    let first = udp(["127.0.0.1", "127.0.0.4", "127.0.0.5"]).into_iter().next().expect("one");
    let port = first.local().port();
    let others = ["127.0.0.2", "127.0.0.3"].map(|address| {
        let local = SocketAddr::new(address.parse().expect("address"), port);
        Box::new(UdpDatapath::bind(&UdpConfig::new(local)).expect("bind")) as Box<dyn Datapath>
    });
    let [b, c] = others;
    group_is_heard("udp", [first, b, c], group);
    // `lo` has no IPv6 multicast; an interface-local group does not leave the host either.
    if let Some(address) = ipv6_address() {
        let address = address.as_str();
        group_is_heard("udp v6", udp([address; 3]), "ff11::1234".parse().expect("group"));
    }
}

/// The address that this host would use for IPv6, if it has one.
fn ipv6_address() -> Option<String> {
    let probe = std::net::UdpSocket::bind("[::]:0").ok()?;
    probe.connect("[2001:db8::1]:9").ok()?;
    let address = probe.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}
