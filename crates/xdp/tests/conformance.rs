//! What every datapath must do, checked over virtual links.

use std::net::IpAddr;

use uroce_datapath::Datapath;
use uroce_xdp::XdpMode;

#[path = "../../datapath/tests/it/checks/mod.rs"]
mod checks;
mod lab;

use checks::{Trio, Trios, group_is_heard};
use lab::Lab;

fn trio(lab: &Lab, address: fn(usize) -> IpAddr, mode: XdpMode) -> Trio {
    [0, 1, 2].map(|host| Box::new(lab.open(host, address(host), mode)) as Box<dyn Datapath>)
}

/// Runs a check for both IP versions in both modes that veth has.
fn for_all(check: fn(Trios)) {
    if lab::cannot_run() {
        return;
    }
    for mode in [XdpMode::Generic, XdpMode::Native] {
        let lab = Lab::new();
        let name = |version| format!("xdp {} {version}", mode.name());
        check(vec![(name("v4").leak(), trio(&lab, lab::v4, mode))]);
        check(vec![(name("v6").leak(), trio(&lab, lab::v6, mode))]);
    }
}

#[test]
fn full_batches_of_many_sizes_arrive_whole_and_in_order() {
    for_all(checks::full_batches_of_many_sizes_arrive_whole_and_in_order);
}

#[test]
fn e7_e8_the_header_fields_arrive_as_sent() {
    for_all(checks::the_header_fields_arrive_as_sent);
}

#[test]
fn e16_the_promised_source_port_is_the_real_one_and_stays() {
    for_all(checks::the_promised_source_port_is_the_real_one_and_stays);
}

#[test]
fn nobody_else_sees_a_packet() {
    for_all(checks::nobody_else_sees_a_packet);
}

#[test]
fn recv_obeys_its_limit() {
    for_all(checks::recv_obeys_its_limit);
}

#[test]
fn the_waiter_wakes_an_armed_receiver() {
    for_all(checks::the_waiter_wakes_an_armed_receiver);
}

#[test]
fn no_wake_up_is_lost_between_two_threads() {
    for_all(checks::no_wake_up_is_lost_between_two_threads);
}

#[test]
fn a_packet_to_nobody_harms_nothing() {
    for_all(checks::a_packet_to_nobody_harms_nothing);
}

#[test]
fn a_unicast_address_is_no_group() {
    for_all(checks::a_unicast_address_is_no_group);
}

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
