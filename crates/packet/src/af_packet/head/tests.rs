use uroce_datapath::Route;
use uroce_link::Ethernet;

use super::*;

fn template(src: &str, dst: &str) -> HeaderTemplate {
    let (src, dst) = (src.parse().expect("src"), dst.parse().expect("dst"));
    let route = Route { src, dst, hop_limit: 64, traffic_class: 0 };
    let ethernet = Ethernet { src: [2; 6], dst: [4; 6], vlan: None };
    HeaderTemplate::new(&ethernet, &route).expect("one IP version")
}

fn both() -> [(HeaderTemplate, u16); 2] {
    [
        (template("10.0.0.1:49152", "10.0.0.2:4791"), 0x0800),
        (template("[fd00::1]:49152", "[fd00::2]:4791"), 0x86dd),
    ]
}

#[test]
fn one_packet_has_a_header_that_leaves_nothing_to_the_link() {
    for (headers, ether_type) in both() {
        let mut head = Head::EMPTY;
        assert!(head.fill(&headers, 7, 100, None));
        let mut frame = [0; MAX_HEADERS];
        let len = headers.write(7, 100, &mut frame).expect("room");
        assert_eq!(head.bytes(), [&PLAIN[..], &frame[..len]].concat());
        assert_eq!(head.ether_type(), ether_type);
        assert_eq!(frame[12..14], ether_type.to_be_bytes());
    }
}

#[test]
fn a_super_packet_tells_where_it_is_cut_and_what_is_in_one_block() {
    for (headers, _) in both() {
        let mut head = Head::EMPTY;
        for (in_block, linear) in [(0, headers.len()), (1000, headers.len() + 1000)] {
            let cut = Cut { segment: 1040, in_block };
            assert!(head.fill(&headers, 7, 4 * 1040, Some(cut)));
            let mut frame = [0; MAX_HEADERS];
            let len = headers.write_for_offload(7, 4 * 1040, &mut frame).expect("room");
            let vnet = segmented(linear, headers.udp_at(), 1040);
            assert_eq!(head.bytes(), [&vnet[..], &frame[..len]].concat());
        }
        // What the field cannot hold is its largest value, not a small one.
        head.fill(&headers, 7, 65_000, Some(Cut { segment: 1040, in_block: 65_530 }));
        assert_eq!(head.bytes()[2..4], u16::MAX.to_ne_bytes());
    }
}

#[test]
fn what_is_longer_than_ip_allows_has_no_frame() {
    for (headers, _) in both() {
        let mut head = Head::EMPTY;
        assert!(!head.fill(&headers, 0, 65_536, None));
        assert_eq!(head.bytes(), PLAIN);
    }
}

#[test]
fn headers_of_the_longer_ip_version_leave_nothing_behind() {
    let [(v4, _), (v6, _)] = both();
    let (mut fresh, mut used) = (Head::EMPTY, Head::EMPTY);
    assert!(used.fill(&v6, 9, 500, Some(Cut { segment: 100, in_block: 0 })));
    assert!(used.fill(&v4, 1, 50, None) && fresh.fill(&v4, 1, 50, None));
    assert_eq!((used.bytes(), used.ether_type()), (fresh.bytes(), fresh.ether_type()));
}
