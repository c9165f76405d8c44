//! What every datapath must do, checked for packet sockets.

use std::net::{IpAddr, SocketAddr};

use uroce_datapath::Datapath;
use uroce_packet::{PacketConfig, PacketDatapath};
use uroce_testkit::check_every_datapath;
use uroce_testkit::checks::{Trio, Trios, group_is_heard};
use uroce_testkit::namespace::Wire;

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

fn for_all(check: fn(Trios)) {
    check(packet_trios().collect());
}

check_every_datapath!(for_all);

#[test]
fn members_of_a_group_hear_it_until_they_leave() {
    for (name, trio) in packet_trios() {
        let group = if name.contains("v4") { "239.1.2.3" } else { "ff12::1234" };
        group_is_heard(name, trio, group.parse().expect("group"));
    }
}
