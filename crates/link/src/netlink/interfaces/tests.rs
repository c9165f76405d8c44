//! What Linux 6.18 says of a namespace with `lo` and a veth pair, read by us and by `netlink-packet-route`.

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::link::{LinkAttribute, LinkFlags};
use proptest::prelude::*;

use super::*;

/// `RTM_GETLINK` and `RTM_GETADDR`, each answer with its end.
const LINKS: &[u8] = include_bytes!("links.bin");
const ADDRESSES: &[u8] = include_bytes!("addresses.bin");

/// The messages that a dump consists of.
fn messages(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = vec![];
    while let Some(length) = word(bytes, 0).filter(|&length| length > 20) {
        let (message, behind) = bytes.split_at(length as usize);
        all.push(message);
        bytes = behind;
    }
    all
}

fn bodies(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    messages(bytes).into_iter().map(|message| &message[16..])
}

#[test]
fn links_are_read_as_recorded() {
    let listed = |index, name: &str, mtu, last| ListedInterface {
        index,
        name: name.to_owned(),
        mac: Some([if last == 0 { 0 } else { 2 }, 0, 0, 0, 0, last]),
        mtu: Some(mtu),
        up: true,
        running: true,
        loopback: false,
        addresses: vec![],
    };
    let found: Vec<_> = bodies(LINKS).map(ListedInterface::read).collect();
    let lo = ListedInterface { loopback: true, ..listed(1, "lo", 65536, 0) };
    let point = ListedInterface { up: false, running: false, ..listed(2, "point0", 1500, 0x0b) };
    let ether = ListedInterface { running: false, ..listed(3, "ether0", 9000, 0x0a) };
    assert_eq!(found, [lo, point, ether].map(Some));
}

#[test]
fn an_address_is_that_of_the_near_end_whatever_its_label() {
    let found: Vec<_> = bodies(ADDRESSES).map(|body| own_address(body).expect("read")).collect();
    let expected = [
        (1, "127.0.0.1"),
        (2, "198.51.100.1"),
        (2, "198.51.100.1"),
        (3, "192.0.2.1"),
        (3, "192.0.2.7"),
        (1, "::1"),
        (3, "fd00::1"),
    ];
    assert_eq!(found, expected.map(|(index, text)| (index, text.parse().expect("address"))));
}

/// The interface as `netlink-packet-route` reads it.
fn twin(message: &[u8]) -> ListedInterface {
    let read = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message).expect("a message");
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = read.payload else {
        panic!("no link: {:?}", read.header);
    };
    let has = |flag| link.header.flags.contains(flag);
    let mut found = ListedInterface {
        index: link.header.index,
        name: String::new(),
        mac: None,
        mtu: None,
        up: has(LinkFlags::Up),
        running: has(LinkFlags::Up | LinkFlags::Running),
        loopback: has(LinkFlags::Loopback),
        addresses: vec![],
    };
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => found.name = name,
            LinkAttribute::Address(mac) => found.mac = mac.try_into().ok(),
            LinkAttribute::Mtu(mtu) => found.mtu = Some(mtu),
            _ => {}
        }
    }
    found
}

#[test]
fn a_library_reads_the_same() {
    for message in messages(LINKS) {
        assert_eq!(ListedInterface::read(&message[16..]), Some(twin(message)));
    }
    for message in messages(ADDRESSES) {
        let read = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message).expect("a message");
        let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(about)) = read.payload
        else {
            panic!("no address: {:?}", read.header);
        };
        let of = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| {
            about.attributes.iter().find_map(wanted)
        };
        let local = of(|found| match found {
            AddressAttribute::Local(ip) => Some(*ip),
            _ => None,
        });
        let address = of(|found| match found {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        });
        let expected = (about.header.index, local.or(address).expect("an address"));
        assert_eq!(own_address(&message[16..]), Some(expected));
    }
}

#[test]
fn a_link_that_is_cut_off_is_none_or_has_fewer_facts() {
    for body in bodies(LINKS) {
        let whole = ListedInterface::read(body).expect("read");
        for length in 0..body.len() {
            let Some(found) = ListedInterface::read(&body[..length]) else {
                assert!(length < LINK + 16, "the name comes first: {length}");
                continue;
            };
            assert_eq!((found.index, &found.name), (whole.index, &whole.name));
            assert!(found.mtu.is_none_or(|mtu| Some(mtu) == whole.mtu));
            assert!(found.mac.is_none_or(|mac| Some(mac) == whole.mac));
        }
    }
    for body in bodies(ADDRESSES) {
        let read = (0..body.len()).filter_map(|length| own_address(&body[..length]));
        assert!(read.into_iter().all(|(index, _)| Some(index) == word(body, 4)));
    }
}

proptest! {
    #[test]
    fn flipped_bytes_are_read_without_panic(
        at in any::<prop::sample::Index>(), value in any::<u8>(), length in any::<prop::sample::Index>(),
    ) {
        for body in bodies(LINKS).chain(bodies(ADDRESSES)) {
            let mut bytes = body.to_vec();
            bytes[at.index(body.len())] = value;
            bytes.truncate(length.index(body.len() + 1));
            let name = ListedInterface::read(&bytes).map(|found| found.name.len());
            prop_assert!(name.is_none_or(|name| name <= 3 * bytes.len()));
            own_address(&bytes);
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
        ListedInterface::read(&bytes);
        own_address(&bytes);
    }
}

#[test]
fn lo_is_listed_first_with_its_address() {
    let all = interfaces().expect("netlink");
    let lo = all.first().expect("lo");
    assert!(lo.loopback && lo.index == 1 && lo.name == "lo", "{lo:?}");
    assert!(lo.addresses.contains(&IpAddr::from([127, 0, 0, 1])));
    assert!(all.is_sorted_by_key(|interface| interface.index));
}
