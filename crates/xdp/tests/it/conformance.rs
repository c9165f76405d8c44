//! What every datapath must do, checked over virtual links.

use std::net::IpAddr;

use uroce_datapath::Datapath;
use uroce_testkit::check_every_datapath;
use uroce_testkit::checks::{Trio, Trios, group_is_heard};
use uroce_xdp::XdpMode;

use crate::lab;
use crate::lab::Lab;

fn trio(lab: &Lab, address: fn(usize) -> IpAddr, mode: XdpMode) -> Trio {
    [0, 1, 2].map(|host| Box::new(lab.open(host, address(host), mode)) as Box<dyn Datapath>)
}

/// Runs a check for both IP versions in both modes that veth has.
fn for_all(check: fn(Trios)) {
    if lab::cannot_run() {
        return;
    }
    let modes = [
        (XdpMode::Generic, ["xdp generic v4", "xdp generic v6"]),
        (XdpMode::Native, ["xdp native v4", "xdp native v6"]),
    ];
    for (mode, [v4, v6]) in modes {
        let lab = Lab::new();
        check(vec![(v4, trio(&lab, lab::v4, mode))]);
        check(vec![(v6, trio(&lab, lab::v6, mode))]);
    }
}

check_every_datapath!(for_all);

#[test]
fn members_of_a_group_hear_it_until_they_leave() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let group = |text: &str| text.parse().expect("group");
    group_is_heard("xdp v4", trio(&lab, lab::v4, XdpMode::Generic), group("239.1.2.3"));
    group_is_heard("xdp v6", trio(&lab, lab::v6, XdpMode::Generic), group("ff12::1234"));
}
