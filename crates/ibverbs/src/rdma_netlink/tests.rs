use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NlasIterator};

use super::attribute::{self as attr, Attributes};
use super::request::NldevRequest;
use super::*;

/// Port number of the asking socket.
const OWN: u32 = 77;
const SEQUENCE: u32 = 9;

fn request(operation: u16, flags: u16, attributes: &Attributes) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.length = (NETLINK_HEADER_LEN + attributes.0.len()) as u32;
    (header.message_type, header.flags) = (5 << 10 | operation, flags | NLM_F_REQUEST);
    header.sequence_number = SEQUENCE;
    let mut bytes = vec![0; NETLINK_HEADER_LEN];
    header.emit(&mut bytes);
    bytes.extend(&attributes.0);
    bytes
}

/// Type and body of each message.
fn messages(datagrams: &[Vec<u8>]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    for datagram in datagrams {
        let mut rest = &datagram[..];
        while !rest.is_empty() {
            let message = NetlinkBuffer::new_checked(rest).expect("a message");
            assert_eq!((message.sequence_number(), message.port_number()), (SEQUENCE, OWN));
            let length = message.length() as usize;
            all.push((message.message_type(), rest[NETLINK_HEADER_LEN..length].to_vec()));
            rest = &rest[length.next_multiple_of(4)..];
        }
    }
    all
}

fn value(body: &[u8], wanted: u16) -> Option<Vec<u8>> {
    let mut all = NlasIterator::new(body).map(|found| found.expect("an attribute"));
    let found = all.find(|found| found.kind() == wanted)?;
    Some(found.value().to_vec())
}

fn error_of(datagrams: &[Vec<u8>]) -> Option<i32> {
    let (kind, body) = messages(datagrams).pop()?;
    (kind == NLMSG_ERROR).then(|| i32::from_ne_bytes(body[..4].try_into().expect("a code")))
}

fn port(index: u32) -> Attributes {
    Attributes::default().word(attr::DEV_INDEX, 0).word(attr::PORT_INDEX, index)
}

#[test]
fn v150_all_devices_are_told_and_the_end_of_the_list() {
    let told = messages(&answer(&request(1, NLM_F_DUMP, &Attributes::default()), OWN));
    let (last, devices) = told.split_last().expect("an end");
    assert_eq!((last.0, &last.1[..]), (NLMSG_DONE, &[0; 4][..]));
    let known = crate::settings::devices();
    assert_eq!(devices.len(), known.len());
    for (number, ((kind, body), device)) in (0_u32..).zip(devices.iter().zip(&known)) {
        assert_eq!(*kind, 5 << 10 | 1);
        assert_eq!(value(body, attr::DEV_INDEX), Some(number.to_ne_bytes().to_vec()));
        let name = [device.name.as_bytes(), &[0]].concat();
        assert_eq!(value(body, attr::DEV_NAME), Some(name));
    }
}

#[test]
fn v150_a_port_names_its_network_interface() {
    let told = messages(&answer(&request(5, NLM_F_ACK, &port(1)), OWN));
    let netdev = crate::settings::devices().remove(0).netdev;
    let name = [netdev.as_bytes(), &[0]].concat();
    assert_eq!(value(&told[0].1, attr::NDEV_NAME), Some(name));
    assert_eq!(told[1].0, NLMSG_ERROR, "the acknowledgement that was asked for");
    assert_eq!((told[1].1[..4].to_vec(), told.len()), (vec![0; 4], 2));
}

#[test]
fn v150_what_is_not_there_is_refused_as_by_a_kernel() {
    let refused = |operation, attributes: &Attributes| {
        error_of(&answer(&request(operation, 0, attributes), OWN))
    };
    assert_eq!(refused(1, &Attributes::default()), Some(-libc::EINVAL));
    assert_eq!(refused(1, &Attributes::default().word(attr::DEV_INDEX, 9999)), Some(-libc::EINVAL));
    assert_eq!(refused(5, &port(2)), Some(-libc::EINVAL));
    assert_eq!(refused(10, &port(1)), Some(-libc::EINVAL), "it names no queue pair");
    assert_eq!(refused(2, &port(1)), Some(-libc::EOPNOTSUPP), "nothing can be set");
}

#[test]
fn v150_counters_are_those_of_the_device() {
    let told = messages(&answer(&request(17, 0, &port(1)), OWN));
    assert!(told[0].1.len() < 4000, "programs read with a buffer of a page: {}", told[0].1.len());
    let counters = value(&told[0].1, attr::STAT_HWCOUNTERS).expect("a table");
    let names: Vec<_> = NlasIterator::new(&counters[..])
        .map(|entry| {
            let entry = entry.expect("an entry");
            let name = value(entry.value(), attr::STAT_HWCOUNTER_ENTRY_NAME).expect("a name");
            String::from_utf8(name).expect("text")
        })
        .collect();
    let known: Vec<_> = uroce_device::hw_counter_names().iter().map(|n| format!("{n}\0")).collect();
    assert_eq!(names, known);
}

#[test]
fn v150_any_bytes_are_answered_without_panic() {
    let whole = request(10, NLM_F_DUMP, &port(1));
    for end in 0..whole.len() {
        answer(&whole[..end], OWN);
    }
    for at in 0..whole.len() {
        for bits in [0x01, 0x80, 0xff] {
            let mut bent = whole.clone();
            bent[at] ^= bits;
            answer(&bent, OWN);
        }
    }
    assert!(answer(&[0; 64], OWN).is_empty());
}

#[test]
fn v150_a_summary_counts_each_kind_of_object() {
    let told = messages(&answer(&request(9, 0, &port(1)), OWN));
    let table = value(&told[0].1, attr::RES_SUMMARY).expect("a table");
    let names: Vec<_> = NlasIterator::new(&table[..])
        .map(|entry| {
            let entry = entry.expect("an entry");
            let count = value(entry.value(), attr::RES_SUMMARY_ENTRY_CURR).expect("a count");
            assert_eq!(count.len(), 8, "a number of 64 bits");
            value(entry.value(), attr::RES_SUMMARY_ENTRY_NAME).expect("a name")
        })
        .collect();
    let wanted = ["pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"];
    assert_eq!(names, wanted.map(|name| [name.as_bytes(), &[0]].concat()));
}

#[test]
fn v150_each_kind_of_object_can_be_listed() {
    for operation in [10, 11, 12, 13, 14, 22, 23] {
        let told = messages(&answer(&request(operation, NLM_F_DUMP, &port(1)), OWN));
        let (last, tables) = told.split_last().expect("an end");
        assert_eq!(last.0, NLMSG_DONE, "{operation}");
        for (kind, body) in tables {
            assert_eq!(*kind, 5 << 10 | operation);
            assert!(value(body, attr::DEV_NAME).is_some());
        }
    }
}

/// An attribute as it stands in a message, with a length that need not be true.
fn raw(length: u16, kind: u16, value: &[u8]) -> Attributes {
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    Attributes(bytes)
}

#[test]
fn v150_an_attribute_has_no_bytes_behind_its_length() {
    // The four bytes behind it would be the number of a device that there is.
    for length in 4..8 {
        let told = answer(&request(1, 0, &raw(length, attr::DEV_INDEX, &[0; 4])), OWN);
        assert_eq!(error_of(&told), Some(-libc::EINVAL), "{length}");
    }
    // The kernel takes the beginning of a longer one, and looks at no flags.
    for (length, kind) in
        [(8, attr::DEV_INDEX), (12, attr::DEV_INDEX), (8, attr::DEV_INDEX | 0x8000)]
    {
        let told = messages(&answer(&request(1, 0, &raw(length, kind, &[0; 8])), OWN));
        assert_eq!(value(&told[0].1, attr::DEV_INDEX), Some(vec![0; 4]), "{length} {kind:#x}");
    }
}

#[test]
fn v150_attributes_behind_one_without_a_true_length_are_not_read() {
    for length in [0, 1, 3, 13, 0x7fff, u16::MAX] {
        let attributes = raw(length, attr::PORT_INDEX, &[]).word(attr::DEV_INDEX, 0);
        let told = answer(&request(1, 0, &attributes), OWN);
        assert_eq!(error_of(&told), Some(-libc::EINVAL), "{length}");
    }
    let behind = Attributes::default().word(attr::DEV_INDEX, 0).and(raw(u16::MAX, 3, &[1; 3]));
    let told = messages(&answer(&request(1, 0, &behind), OWN));
    assert_eq!(told[0].0, 5 << 10 | 1, "what stands before is read");
}

#[test]
fn v150_unknown_commands_of_every_part_are_refused_with_their_header() {
    const KNOWN: [u16; 12] = [1, 5, 6, 9, 10, 11, 12, 13, 14, 17, 22, 23];
    for (part, operation) in (0..16).flat_map(|part| (0..40).map(move |number| (part, number))) {
        if part == 5 && KNOWN.contains(&operation) {
            continue;
        }
        for flags in [0, NLM_F_ACK, NLM_F_DUMP] {
            let mut sent = request(operation, flags, &port(1));
            sent[4..6].copy_from_slice(&(part << 10 | operation).to_ne_bytes());
            let told = messages(&answer(&sent, OWN));
            if part == 0 {
                assert_eq!(told, [], "messages of netlink itself ask for nothing");
                continue;
            }
            let code = (-libc::EOPNOTSUPP).to_ne_bytes();
            let wanted = [&code[..], &sent[..NETLINK_HEADER_LEN]].concat();
            assert_eq!(told, [(NLMSG_ERROR, wanted)], "{part} {operation} {flags:#x}");
        }
    }
}

#[test]
fn v150_requests_of_one_call_are_answered_in_order_up_to_a_limit() {
    let one = [request(6, NLM_F_ACK, &Attributes::default()), request(2, 0, &port(1))].concat();
    let told = messages(&answer(&one, OWN));
    let kinds: Vec<_> = told.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [5 << 10 | 6, NLMSG_ERROR, NLMSG_ERROR]);
    let system = request(6, 0, &Attributes::default());
    for sent in [1, MOST_REQUESTS, MOST_REQUESTS + 1, 400] {
        let told = messages(&answer(&system.repeat(sent), OWN));
        let (answered, refused) = told.split_at(sent.min(MOST_REQUESTS));
        assert!(answered.iter().all(|(kind, _)| *kind == 5 << 10 | 6), "{sent}");
        let code = (-libc::ENOBUFS).to_ne_bytes();
        assert!(refused.iter().all(|(kind, body)| *kind == NLMSG_ERROR && body[..4] == code));
        assert_eq!(told.len(), sent, "none is left without an answer");
    }
    // One that is cut ends it, and what asks for nothing does not.
    let cut = [&system[..], &system[..15]].concat();
    assert_eq!(messages(&answer(&cut, OWN)).len(), 1);
    let mut silent = system.clone();
    silent[6..8].fill(0);
    assert_eq!(messages(&answer(&[silent, system].concat(), OWN)).len(), 1);
}

#[test]
fn v150_the_length_of_a_request_is_not_believed() {
    let whole = request(1, NLM_F_DUMP, &Attributes::default());
    for length in [0, 1, 15, 17, 1 << 16, u32::MAX - 3, u32::MAX] {
        let mut bent = whole.clone();
        bent[..4].copy_from_slice(&length.to_ne_bytes());
        assert!(answer(&bent, OWN).is_empty(), "{length}");
    }
}

#[test]
fn v150_a_long_list_comes_in_datagrams_that_a_page_has_room_for() {
    const OBJECTS: u32 = 500;
    let device = (0, crate::settings::devices().remove(0));
    // As long as connections with two addresses.
    let entries = (0..OBJECTS).map(|number| {
        let about = Attributes::default().word(attr::RES_MRN, number);
        (number, about.bytes(attr::RES_SRC_ADDR, &[7; 128]).bytes(attr::RES_DST_ADDR, &[8; 128]))
    });
    let kind = Some(uroce_device::ResourceKind::Mr);
    let sent = request(13, NLM_F_DUMP, &port(1));
    let (asked, _) = NldevRequest::read(&sent).expect("a request");
    let mut reply = NldevReply { datagrams: Vec::new(), port: OWN };
    for table in object::tables(&device, kind, entries.collect()) {
        reply.add(&asked, asked.kind, NLM_F_MULTIPART, &table.0);
    }
    assert!(reply.datagrams.len() > 10);
    assert!(reply.datagrams.iter().all(|datagram| datagram.len() <= DATAGRAM));
    let mut numbers = Vec::new();
    for (_, body) in messages(&reply.datagrams) {
        assert_eq!(value(&body, attr::DEV_INDEX), Some(vec![0; 4]), "each names its device");
        let table = value(&body, attr::RES_MR).expect("a table");
        numbers.extend(NlasIterator::new(&table[..]).map(|entry| {
            let entry = entry.expect("an entry");
            assert_eq!(entry.kind(), attr::RES_MR + 1);
            value(entry.value(), attr::RES_MRN).expect("a number")
        }));
    }
    let wanted: Vec<_> = (0..OBJECTS).map(|number| number.to_ne_bytes().to_vec()).collect();
    assert_eq!(numbers, wanted);
}
