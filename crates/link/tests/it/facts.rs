//! What the kernel tells about an interface, in network namespaces.

use uroce_link::{Attached, LinkFacts, Offloads, XdpSupport, interface};
use uroce_testkit::namespace::{Namespace, Wire};

fn offloads(namespace: &Namespace, index: u32) -> Offloads {
    namespace.run(move || Offloads::of(index)).expect("Linux 5.7 or later")
}

#[test]
fn a_veth_tells_its_kind_and_that_nothing_is_attached() {
    let Some(wire) = Wire::new(1500) else { return };
    let index = index_of(&wire.a, "wa");
    let facts = wire.a.run(move || LinkFacts::of(index)).expect("there");
    assert_eq!(facts, LinkFacts { kind: Some("veth".to_owned()), xdp: Attached::Nothing });
    let about = wire.a.run(move || interface(index)).expect("there");
    assert!(about.ethernet && !about.loopback && about.index == index);
    assert_eq!((about.mac, about.mtu), ([2, 0, 0, 0, 0, 0x0a], 1500));
}

#[test]
fn offloads_are_those_that_are_on_now() {
    let Some(wire) = Wire::new(1500) else { return };
    let index = index_of(&wire.a, "wa");
    for on in [true, false, true] {
        let word = if on { "on" } else { "off" };
        wire.a.sh(&format!("ethtool -K wa gro {word} gso {word} tx-udp-segmentation {word}"));
        let expected = Offloads { gro: on, gso: on, udp_segmentation: on };
        assert_eq!(offloads(&wire.a, index), expected);
    }
    let nothing = Offloads { gro: false, gso: false, udp_segmentation: false };
    assert_eq!(wire.a.run(move || Offloads::fixed(index)).expect("Linux 5.7 or later"), nothing);
    wire.a.sh("ethtool -K wa gro off");
    let expected = Offloads { gro: false, gso: true, udp_segmentation: true };
    assert_eq!(offloads(&wire.a, index), expected);
}

#[test]
fn an_interface_that_is_gone_is_an_error_of_every_question() {
    let Some(wire) = Wire::new(1500) else { return };
    let index = index_of(&wire.a, "wa");
    wire.a.sh("ip link del wa");
    let errors = wire.a.run(move || {
        let facts = LinkFacts::of(index).expect_err("gone");
        let offloads = Offloads::of(index).expect_err("gone");
        [facts, offloads, interface(index).expect_err("gone")].map(|error| error.raw_os_error())
    });
    assert_eq!(errors, [Some(libc::ENODEV); 3]);
    assert!(wire.a.run(move || XdpSupport::of(index)).is_err());
}

fn index_of(namespace: &Namespace, name: &str) -> u32 {
    let shown = namespace.sh(&format!("ip -o link show {name}"));
    shown.split(':').next().and_then(|index| index.parse().ok()).expect("an index")
}
