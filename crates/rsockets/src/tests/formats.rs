//! What goes over the wire, byte by byte, and what is made of bytes that are not as they should be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_verbs_abi::{RDMA_INLINE, RDMA_IOMAPSIZE, RDMA_RQSIZE, RDMA_SQSIZE, SOL_RDMA};

use super::at;
use crate::datagram_header::{self as header, Introduction};
use crate::options::Options;
use crate::protocol::{Iomap, Message, PrivateData, Remote, iomaps_for};

const TABLE: Remote = Remote { addr: 0x0102_0304_0506_0708, rkey: 0x1112_1314, length: 2 };
const DATA: Remote = Remote { addr: 0x2122_2324_2526_2728, rkey: 0x3132_3334, length: 0x4142_4344 };

fn private_data() -> PrivateData {
    PrivateData { big_endian: false, credits: 0x5152, table: TABLE, iomaps: 0, data: DATA }
}

#[test]
fn private_data_is_big_endian_whatever_the_host_is() {
    #[rustfmt::skip]
    let wanted = [
        1, 2, 0x51, 0x52, 0, 0, 0, 0,
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 2,
        0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44,
    ];
    assert_eq!(private_data().encode(), wanted);
    let mut big = private_data();
    big.big_endian = true;
    assert_eq!(big.encode()[1], 3);
    assert_eq!(PrivateData::decode(&big.encode()), Some(big));
}

#[test]
fn a_peer_without_mapped_buffers_has_none_whatever_it_counts() {
    let mut bytes = private_data().encode();
    bytes[7] = 200;
    let with_flag = PrivateData::decode(&bytes).expect("it may be");
    assert_eq!(with_flag.iomaps, 72 << 8);
    bytes[1] = 0;
    let without = PrivateData::decode(&bytes).expect("it may be");
    assert_eq!((without.iomaps, without.big_endian), (0, false));
    bytes[1] = 0xfc;
    assert_eq!(PrivateData::decode(&bytes), Some(without), "flags of later versions");
    bytes[4..7].fill(0xff);
    assert_eq!(PrivateData::decode(&bytes), Some(without), "reserved bytes");
}

#[test]
fn a_table_and_a_buffer_end_at_the_last_address_at_most() {
    let decodes = |change: &dyn Fn(&mut PrivateData)| {
        let mut changed = private_data();
        change(&mut changed);
        PrivateData::decode(&changed.encode()).is_some()
    };
    assert!(decodes(&|it| it.data.addr = u64::MAX - u64::from(DATA.length)));
    assert!(!decodes(&|it| it.data.addr = u64::MAX - u64::from(DATA.length) + 1));
    assert!(decodes(&|it| it.table.addr = u64::MAX - 2 * 16));
    assert!(!decodes(&|it| it.table.addr = u64::MAX - 2 * 16 + 1));
    let with_iomaps = |it: &mut PrivateData, addr| (it.iomaps, it.table.addr) = (3, addr);
    assert!(decodes(&|it| with_iomaps(it, u64::MAX - 2 * 16 - 3 * 24)));
    assert!(!decodes(&|it| with_iomaps(it, u64::MAX - 2 * 16 - 3 * 24 + 1)));
    assert!(decodes(&|it| it.table.length = u32::MAX), "2^32 entries do not wrap");
    assert!(!decodes(&|it| it.table.length = 0));
    assert!(decodes(&|it| it.data.length = 0), "it sends us nothing");
}

#[test]
fn numbers_of_mapped_buffers_are_told_exactly_up_to_128_and_in_steps_of_256_above() {
    let told = |wanted| {
        let mut it = private_data();
        it.iomaps = wanted;
        let bytes = it.encode();
        (bytes[7], PrivateData::decode(&bytes).expect("it may be").iomaps)
    };
    assert_eq!([0, 1, 127, 128].map(told), [(0, 0), (1, 1), (127, 127), (128, 128)]);
    assert_eq!(
        [256, 511, 512, 32_512].map(told),
        [(129, 256), (129, 256), (130, 512), (255, 32_512)]
    );
    assert_eq!(told(u32::MAX), (255, 32_512), "the most that fits");
    assert_eq!([129, 255].map(iomaps_for), [128, 128], "they are between the two scales");
}

#[test]
fn entries_of_tables_are_in_either_byte_order() {
    let big = DATA.entry(true);
    assert_eq!(big[..8], DATA.addr.to_be_bytes());
    assert_eq!(
        (&big[8..12], &big[12..]),
        (&[0x31, 0x32, 0x33, 0x34][..], &[0x41, 0x42, 0x43, 0x44][..])
    );
    let little = DATA.entry(false);
    assert_eq!(little[..8], DATA.addr.to_le_bytes());
    assert_eq!(
        (&little[8..12], &little[12..]),
        (&[0x34, 0x33, 0x32, 0x31][..], &[0x44, 0x43, 0x42, 0x41][..])
    );
    let iomap = Iomap { offset: 0x0102, buffer: DATA };
    assert_eq!(
        (&iomap.entry(false)[..8], &iomap.entry(false)[8..]),
        (&[2, 1, 0, 0, 0, 0, 0, 0][..], &little[..])
    );
    assert_eq!(
        (&iomap.entry(true)[..8], &iomap.entry(true)[8..]),
        (&[0, 0, 0, 0, 0, 0, 1, 2][..], &big[..])
    );
}

#[test]
fn immediates_are_those_of_the_protocol_text() {
    for (message, imm) in [
        (Message::Data(5), 5),
        (Message::Credits(0xffff), 0x8000_ffff),
        (Message::IomapUpdated(7), 0xc000_0007),
        (Message::Disconnect, 0xe000_0000),
        (Message::Keepalive, 0xe000_0001),
        (Message::Shutdown, 0xe000_0002),
    ] {
        assert_eq!((message.encode(), Message::decode(imm)), (imm, Some(message)));
    }
    assert_eq!(Message::Data(1 << 29).encode(), 0, "a length is cut to its field");
    for unused in [0x2000_0000, 0x4000_0001, 0x7fff_ffff, 0xa000_0000, 0xe000_0003, u32::MAX] {
        assert_eq!(Message::decode(unused), None, "{unused:#x}");
    }
}

fn v4() -> Introduction {
    Introduction { is_data: true, qpn: 0xabcdef, to: IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)) }
}

#[test]
fn introductions_are_laid_out_as_the_protocol_says() {
    let bytes = v4().encode();
    assert_eq!(bytes, [0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0xab, 0xcd, 0xef, 10, 1, 2, 3]);
    let ip = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    let bytes = Introduction { is_data: false, qpn: 1, to: ip.into() }.encode();
    assert_eq!((bytes[4..8].to_vec(), bytes.len()), (vec![6, 7, 28, 0], 28));
    assert_eq!(bytes[12..], ip.octets());
    let more = Introduction { qpn: 0xff_abcdef, ..v4() };
    assert_eq!(more.encode(), v4().encode(), "queue pair numbers have 24 bits");
}

#[test]
fn introductions_that_are_none_are_refused() {
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = v4().encode();
        bytes.extend(b"data");
        change(&mut bytes);
        Introduction::decode(&bytes).map(|(found, data)| (found, data.to_vec()))
    };
    assert_eq!(with(|_| ()), Some((v4(), b"data".to_vec())));
    type Change = fn(&mut Vec<u8>);
    let wrong: [(&str, Change); 9] = [
        ("another tag", |bytes| bytes[3] = 0x54),
        ("a type between the two", |bytes| bytes[5] = 1),
        ("a type above them", |bytes| bytes[5] = 8),
        ("version 5", |bytes| bytes[4] = 5),
        ("IPv6 in 4 bytes", |bytes| bytes[4] = 6),
        ("shorter than the fixed part", |bytes| bytes[6] = 11),
        ("no address", |bytes| bytes[6] = 12),
        ("3 bytes of an address", |bytes| bytes[6] = 15),
        ("longer than the datagram", |bytes| bytes[6] = 21),
    ];
    for (why, change) in wrong {
        assert_eq!(with(change), None, "{why}");
    }
    assert_eq!(with(|bytes| bytes[6] = 20), Some((v4(), vec![])), "a longer header is passed over");
    assert_eq!(with(|bytes| bytes[8] = 0xff), Some((v4(), b"data".to_vec())), "24 bits");
    assert_eq!(with(|bytes| bytes[7] = 0xff), Some((v4(), b"data".to_vec())), "reserved");
}

#[test]
fn headers_between_queue_pairs_are_laid_out_as_the_protocol_says() {
    let from: SocketAddr = at("10.1.2.3:258");
    assert_eq!(header::encode(from), [4, 8, 1, 2, 10, 1, 2, 3]);
    let from = at("[2001:db8::7]:513");
    let bytes = header::encode(from);
    assert_eq!((bytes[..8].to_vec(), bytes.len()), (vec![6, 24, 2, 1, 0, 0, 0, 0], 24));
    assert_eq!(header::length(from.ip()), 24);
    assert_eq!(header::decode(&bytes), Some((from, &[][..])));
}

#[test]
fn headers_between_queue_pairs_that_are_none_are_refused() {
    let with = |index: usize, byte| {
        let mut bytes = header::encode(at("10.1.2.3:258"));
        bytes.extend([7; 4]);
        bytes[index] = byte;
        header::decode(&bytes).map(|(from, data)| (from, data.len()))
    };
    assert_eq!(with(1, 8), Some((at("10.1.2.3:258"), 4)));
    assert_eq!((with(0, 0), with(0, 5)), (None, None), "another version");
    assert_eq!(with(0, 6), None, "8 bytes are no IPv6 header");
    assert_eq!((with(1, 0), with(1, 3), with(1, 7)), (None, None, None), "cut in the address");
    assert_eq!(with(1, 12), Some((at("10.1.2.3:258"), 0)), "a longer header is passed over");
    assert_eq!((with(1, 13), with(1, 255)), (None, None), "longer than the datagram");
    let mut long = header::encode(at("[2001:db8::7]:513"));
    long[1] = 23;
    assert_eq!(header::decode(&long), None, "15 bytes of an address");
}

#[test]
fn the_end_of_any_datagram_is_its_data() {
    let mut state = 3_u32;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..40)
            .map(|index| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Often a length or a version that is almost right.
                if index < 8 { (state >> 24) as u8 % 30 } else { (state >> 24) as u8 }
            })
            .collect();
        if let Some((_, data)) = header::decode(&bytes) {
            assert!(bytes.ends_with(data) && data.len() < bytes.len());
        }
        let tagged = [&[0x55; 4][..], &bytes].concat();
        if let Some((found, data)) = Introduction::decode(&tagged) {
            assert!(tagged.ends_with(data) && found.qpn < 1 << 24);
        }
    }
}

#[test]
fn the_limits_of_options_hold_on_both_sides() {
    let mut options = Options::new();
    let mut round = |level, name, value| {
        options.set(level, name, value).map(|()| options.get(level, name).expect("it was set"))
    };
    for name in [RDMA_SQSIZE, RDMA_RQSIZE] {
        assert_eq!([0, 15, 16, 17].map(|n| round(SOL_RDMA, name, n)), [16, 16, 16, 17].map(Ok));
        let large = [15_999, 16_000, 16_001, i32::MAX].map(|n| round(SOL_RDMA, name, n));
        assert_eq!(large, [15_999, 16_000, 16_000, 16_000].map(Ok));
    }
    for name in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        let sizes = [4_095, 4_096, 4_097, (1 << 28) - 1, (1 << 28) + 1];
        let kept = sizes.map(|n| round(libc::SOL_SOCKET, name, n));
        assert_eq!(kept, [4_096, 4_096, 4_098, 1 << 28, 1 << 28].map(Ok));
        assert_eq!(round(libc::SOL_SOCKET, name, i32::MIN), Err(INVALID));
    }
    assert_eq!(round(SOL_RDMA, RDMA_INLINE, 0), Ok(0));
    assert_eq!(round(SOL_RDMA, RDMA_INLINE, i32::MAX), Ok(i32::MAX));
    assert_eq!(round(SOL_RDMA, RDMA_INLINE, -1), Err(INVALID));
    assert_eq!(round(SOL_RDMA, RDMA_IOMAPSIZE, 300), Ok(256), "as the peer can be told");
    assert_eq!(round(SOL_RDMA, RDMA_IOMAPSIZE, -1), Err(INVALID));
    assert_eq!(options.get(SOL_RDMA, RDMA_IOMAPSIZE), Ok(256), "a refused value changes nothing");
}

#[test]
fn options_are_kept_by_level_and_name() {
    let mut options = Options::new();
    let kept = [
        (libc::SOL_SOCKET, libc::SO_REUSEADDR),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    ];
    for (index, (level, name)) in kept.into_iter().enumerate() {
        assert_eq!(options.get(level, name), Ok(0), "{level} {name}");
        assert_eq!(options.set(level, name, index as i32 + 1), Ok(()));
    }
    for (index, (level, name)) in kept.into_iter().enumerate() {
        assert_eq!(options.get(level, name), Ok(index as i32 + 1), "{level} {name}");
        assert_eq!(options.set(level, name, 0), Ok(()));
        assert_eq!(options.get(level, name), Ok(0), "the last value counts");
    }
    let unknown = Errno(libc::ENOPROTOOPT);
    for (level, name) in [(libc::SOL_SOCKET, libc::SO_BROADCAST), (SOL_RDMA, 99), (-1, 0)] {
        assert_eq!(options.set(level, name, 1), Err(unknown), "{level} {name}");
        assert_eq!(options.get(level, name), Err(unknown));
    }
    assert_eq!(options.kept.len(), kept.len(), "each is kept once");
}
