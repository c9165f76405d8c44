//! What every datapath must do, checked for the in-process switch.

use std::net::SocketAddr;

use uroce_datapath::{Datapath, LoopbackFabric};
use uroce_testkit::check_every_datapath;
use uroce_testkit::checks::{Trio, Trios, group_is_heard};

fn trio(addresses: [&str; 3]) -> Trio {
    let fabric = LoopbackFabric::new();
    addresses.map(|address| {
        let addr = SocketAddr::new(address.parse().expect("address"), 4791);
        Box::new(fabric.attach(addr).expect("attach")) as Box<dyn Datapath>
    })
}

fn for_all(check: fn(Trios)) {
    check(vec![
        ("loopback v4", trio(["10.0.0.1", "10.0.0.2", "10.0.0.3"])),
        ("loopback v6", trio(["fd00::1", "fd00::2", "fd00::3"])),
    ]);
}

check_every_datapath!(for_all);

#[test]
fn members_of_a_group_hear_it_until_they_leave() {
    let group = "239.1.2.3".parse().expect("group");
    group_is_heard("loopback", trio(["10.0.0.1", "10.0.0.2", "10.0.0.3"]), group);
}
