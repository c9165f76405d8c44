//! What every datapath must do, checked for each of them in this crate.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use uroce_datapath::{
    Datapath, LoopbackFabric, PacketConfig, PacketDatapath, RedirectTarget, SlotDatapath,
    UdpConfig, UdpDatapath, UringDatapath, UringError,
};

use crate::checks;
use crate::checks::{Trio, Trios, group_is_heard};
use crate::netns::Wire;

fn loopback(addresses: [&str; 3]) -> Trio {
    let fabric = LoopbackFabric::new();
    addresses.map(|address| {
        let addr = SocketAddr::new(address.parse().expect("address"), 4791);
        Box::new(fabric.attach(addr).expect("attach")) as Box<dyn Datapath>
    })
}

fn udp(addresses: [&str; 3]) -> Trio {
    addresses.map(|address| {
        let addr = SocketAddr::new(address.parse().expect("address"), 0);
        Box::new(UdpDatapath::bind(&UdpConfig::new(addr)).expect("bind")) as Box<dyn Datapath>
    })
}

/// Shares of addresses where nobody else is. The packets of these checks name slots at random.
fn shared(addresses: [&str; 3]) -> Trio {
    static PORT: AtomicU16 = AtomicU16::new(26_791);
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    addresses.map(|address| {
        let addr = SocketAddr::new(address.parse().expect("address"), port);
        let share = SlotDatapath::udp(&UdpConfig::new(addr), |_| RedirectTarget::Here);
        Box::new(share.expect("a share")) as Box<dyn Datapath>
    })
}

/// Packet sockets on a wire; the first endpoint is at one end of it, the others at the other.
fn packet(addresses: [&'static str; 3], offload: bool) -> Option<Trio> {
    let wire = Wire::new(9000)?;
    let [a, b, c] = addresses.map(|address| address.parse().expect("address"));
    let open = move |address: IpAddr| {
        let config = PacketConfig::new(SocketAddr::new(address, 4791));
        let config = PacketConfig { offload, ..config };
        Box::new(PacketDatapath::open(&config).expect("open")) as Box<dyn Datapath>
    };
    let [b, c] = wire.b.run(move || [open(b), open(c)]);
    Some([wire.a.run(move || open(a)), b, c])
}

fn packet_trios() -> impl Iterator<Item = (&'static str, Trio)> {
    let v4 = ["10.77.0.1", "10.77.0.2", "10.77.0.3"];
    let v6 = ["fd77::1", "fd77::2", "fd77::3"];
    let trios = [
        ("packet v4", packet(v4, true)),
        ("packet v6", packet(v6, true)),
        ("packet v4 without offload", packet(v4, false)),
        ("packet v6 without offload", packet(v6, false)),
    ];
    trios.into_iter().filter_map(|(name, trio)| Some((name, trio?)))
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

fn trios() -> Trios {
    let mut trios = vec![
        ("loopback v4", loopback(["10.0.0.1", "10.0.0.2", "10.0.0.3"])),
        ("loopback v6", loopback(["fd00::1", "fd00::2", "fd00::3"])),
        ("udp v4", udp(["127.0.0.1", "127.0.0.2", "127.0.0.3"])),
        ("udp v6", udp(["::1", "::1", "::1"])),
        ("shared udp v4", shared(["127.91.17.1", "127.91.17.2", "127.91.17.3"])),
    ];
    trios.extend(packet_trios());
    let uring = [
        ("uring v4", uring(["127.0.0.1", "127.0.0.2", "127.0.0.3"])),
        ("uring v6", uring(["::1", "::1", "::1"])),
    ];
    trios.extend(uring.into_iter().filter_map(|(name, trio)| Some((name, trio?))));
    trios
}

#[test]
fn full_batches_of_many_sizes_arrive_whole_and_in_order() {
    checks::full_batches_of_many_sizes_arrive_whole_and_in_order(trios());
}

#[test]
fn e7_e8_the_header_fields_arrive_as_sent() {
    checks::the_header_fields_arrive_as_sent(trios());
}

#[test]
fn e16_the_promised_source_port_is_the_real_one_and_stays() {
    checks::the_promised_source_port_is_the_real_one_and_stays(trios());
}

#[test]
fn nobody_else_sees_a_packet() {
    checks::nobody_else_sees_a_packet(trios());
}

#[test]
fn recv_obeys_its_limit() {
    checks::recv_obeys_its_limit(trios());
}

#[test]
fn the_waiter_wakes_an_armed_receiver() {
    checks::the_waiter_wakes_an_armed_receiver(trios());
}

#[test]
fn no_wake_up_is_lost_between_two_threads() {
    checks::no_wake_up_is_lost_between_two_threads(trios());
}

#[test]
fn a_packet_to_nobody_harms_nothing() {
    checks::a_packet_to_nobody_harms_nothing(trios());
}

#[test]
fn a_unicast_address_is_no_group() {
    checks::a_unicast_address_is_no_group(trios());
}

#[test]
fn members_of_a_group_hear_it_until_they_leave() {
    let group: IpAddr = "239.1.2.3".parse().expect("group");
    let [a, b, c] = loopback(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    group_is_heard("loopback", [a, b, c], group);

    for (name, trio) in packet_trios() {
        let group = if name.contains("v4") { group } else { "ff12::1234".parse().expect("group") };
        group_is_heard(name, trio, group);
    }

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
