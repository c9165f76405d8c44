//! Address handles, GIDs and multicast groups.

use std::net::{IpAddr, Ipv4Addr};
use std::ptr::null_mut;

use libc::{EBUSY, EINVAL, ENOENT, c_int};
use uroce_device::wire::Gid;

use super::{attributes, errno, in_state, queue_pair, why, world};
use crate::abi::*;
use crate::ah::{ibv_create_ah, ibv_create_ah_from_wc, ibv_destroy_ah, ibv_init_ah_from_wc};
use crate::contract_tests::World;
use crate::mcast::{ibv_attach_mcast, ibv_detach_mcast};
use crate::object::zeroed;
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use crate::qp_create::ibv_destroy_qp;

fn handle(world: &World, change: impl Fn(&mut ibv_ah_attr)) -> Result<*mut ibv_ah, c_int> {
    let mut attr = attributes(world, world.qp).ah_attr;
    change(&mut attr);
    // SAFETY: as the manual page wants it.
    why(unsafe { ibv_create_ah(world.pd, &raw mut attr) })
}

#[test]
fn r131_an_address_handle_needs_a_global_route_and_takes_any_static_rate() {
    let world = world(100);
    type Change = fn(&mut ibv_ah_attr);
    let wrong: [(&str, Change); 7] = [
        ("port 0", |attr| attr.port_num = 0),
        ("port 2", |attr| attr.port_num = 2),
        ("no route", |attr| attr.is_global = 0),
        ("no such GID", |attr| attr.grh.sgid_index = 2),
        ("no address", |attr| attr.grh.dgid.raw = [0; 16]),
        ("the unspecified address of IPv4", |attr| attr.grh.dgid.raw[12..].fill(0)),
        ("an address of IPv6", |attr| attr.grh.dgid.raw[0] = 0x20),
    ];
    for (why, change) in wrong {
        assert_eq!(handle(&world, change).err(), Some(EINVAL), "{why}");
    }
    for change in [
        (|_| ()) as Change,
        |attr| attr.grh.sgid_index = 1,
        |attr| (attr.dlid, attr.src_path_bits, attr.static_rate) = (7, 7, 7),
    ] {
        let ah = handle(&world, change).expect("it may be");
        // SAFETY: just made; destroyed twice.
        unsafe {
            assert_eq!(((*ah).pd, (*ah).context), (world.pd, world.context));
            assert_eq!((ibv_destroy_ah(ah), ibv_destroy_ah(ah)), (0, ENOENT));
        }
    }
    world.end();
}

#[test]
fn a_domain_stays_while_it_has_address_handles() {
    let world = world(101);
    let mut attr = attributes(&world, world.qp).ah_attr;
    // SAFETY: as the manual pages want it.
    unsafe {
        let pd = ibv_alloc_pd(world.context);
        let handles = [(); 2].map(|()| ibv_create_ah(pd, &raw mut attr));
        for ah in handles {
            assert_eq!((ibv_dealloc_pd(pd), ibv_destroy_ah(ah)), (EBUSY, 0));
        }
        assert_eq!(ibv_dealloc_pd(pd), 0);
        assert_eq!(why(ibv_create_ah(pd, &raw mut attr)).err(), Some(ENOENT), "it is gone");
    }
    world.end();
}

/// The 40 bytes before a datagram over IPv4: 20 of nothing, and the IP header.
fn ipv4_header(source: [u8; 4], tos: u8) -> [u8; 40] {
    let mut header = [0; 40];
    (header[20], header[21], header[28], header[29]) = (0x45, tos, 64, 17);
    header[32..36].copy_from_slice(&source);
    header[36..40].copy_from_slice(&[127, 47, 101, 102]);
    let words = header[20..].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[30..32].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    header
}

/// The same over IPv6.
fn ipv6_header(source: [u8; 16]) -> [u8; 40] {
    let mut header = [0; 40];
    header[..4].copy_from_slice(&0x6681_2345_u32.to_be_bytes());
    header[8..24].copy_from_slice(&source);
    header
}

fn answer(world: &World, header: &[u8; 40], flags: u32, port: u8) -> Result<ibv_ah_attr, c_int> {
    let mut wc = ibv_wc { wc_flags: flags, slid: 3, dlid_path_bits: 1, ..ibv_wc::default() };
    let grh = header.as_ptr().cast_mut().cast();
    // SAFETY: integers; the call as the manual page wants it.
    unsafe {
        let mut attr: ibv_ah_attr = zeroed();
        match ibv_init_ah_from_wc(world.context, port, &raw mut wc, grh, &raw mut attr) {
            0 => Ok(attr),
            _ => Err(errno()),
        }
    }
}

#[test]
fn an_answer_goes_to_who_sent_the_datagram() {
    let world = world(102);
    let header = ipv4_header([10, 1, 2, 3], 0x68);
    let attr = answer(&world, &header, IBV_WC_GRH, 1).expect("it may be");
    let wanted = Gid::from_ip(IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)));
    assert_eq!(attr.grh.dgid.raw, *wanted.bytes());
    assert_eq!((attr.grh.traffic_class, attr.grh.hop_limit, attr.is_global), (0x68, 0xff, 1));
    assert_eq!((attr.dlid, attr.src_path_bits, attr.sl, attr.port_num), (3, 1, 0, 1));
    let source = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let attr = answer(&world, &ipv6_header(source), IBV_WC_GRH, 1).expect("it may be");
    assert_eq!((attr.grh.dgid.raw, attr.grh.traffic_class), (source, 0x68));
    assert_eq!(attr.grh.flow_label, 0x12345);
    let mut broken = header;
    broken[30] ^= 1;
    let attr = answer(&world, &broken, IBV_WC_GRH, 1).expect("then it is one of IPv6");
    assert_ne!(attr.grh.dgid.raw, *wanted.bytes());
    for (flags, port) in [(0, 1), (IBV_WC_WITH_IMM, 1), (IBV_WC_GRH, 0), (IBV_WC_GRH, 2)] {
        assert_eq!(answer(&world, &header, flags, port).err(), Some(EINVAL), "{flags} {port}");
    }
    let mut wc = ibv_wc { wc_flags: IBV_WC_GRH, ..ibv_wc::default() };
    let grh = header.as_ptr().cast_mut().cast();
    // SAFETY: as the manual page wants it; null is checked.
    unsafe {
        let ah = ibv_create_ah_from_wc(world.pd, &raw mut wc, grh, 1);
        assert_eq!(ibv_destroy_ah(why(ah).expect("it may be")), 0);
        let other = ipv6_header(source);
        let grh = other.as_ptr().cast_mut().cast();
        let none = ibv_create_ah_from_wc(world.pd, &raw mut wc, grh, 1);
        assert_eq!(why(none).err(), Some(EINVAL), "the device has no address of IPv6");
        let none = ibv_create_ah_from_wc(world.pd, &raw mut wc, null_mut(), 1);
        assert_eq!(why(none).err(), Some(EINVAL), "no header");
    }
    world.end();
}

fn group(ip: &str) -> ibv_gid {
    ibv_gid::from_gid(Gid::from_ip(ip.parse().expect("an address")))
}

#[test]
fn only_datagram_queue_pairs_join_groups_and_leave_those_that_they_joined() {
    let world = world(103);
    let ud = in_state(&world, IBV_QPT_UD, IBV_QPS_RTS);
    let (one, two) = (group("230.47.101.1"), group("230.47.101.2"));
    // SAFETY: queue pairs that live, and groups.
    unsafe {
        assert_eq!(ibv_attach_mcast(world.qp, &raw const one, 0), EINVAL, "it is connected");
        for address in ["10.0.0.1", "127.47.101.103", "2001:db8::1"] {
            assert_eq!(ibv_attach_mcast(ud, &group(address), 0), EINVAL, "{address} is no group");
        }
        assert_ne!(ibv_detach_mcast(ud, &raw const one, 0), 0, "not joined");
        assert_eq!(ibv_attach_mcast(ud, &raw const one, 0), 0);
        assert_eq!(ibv_attach_mcast(ud, &raw const two, 0xc000), 0, "the LID means nothing");
        assert_eq!(ibv_detach_mcast(ud, &raw const one, 0), 0);
        assert_ne!(ibv_detach_mcast(ud, &raw const one, 0), 0, "twice");
        assert_eq!(ibv_destroy_qp(ud), EBUSY, "it is in a group");
        assert_eq!((ibv_detach_mcast(ud, &raw const two, 0), ibv_destroy_qp(ud)), (0, 0));
        assert_eq!(ibv_attach_mcast(ud, &raw const one, 0), ENOENT, "it is gone");
    }
    world.end();
}

#[test]
fn a_queue_pair_of_another_type_is_none_of_the_extended_interface() {
    use crate::qp::ibv_qp_to_qp_ex;
    use crate::qp_create::create_qp_ex;
    let world = world(104);
    let make = |qp_type, send_ops_flags| {
        // SAFETY: integers and null pointers; the call as the manual page wants it.
        unsafe {
            let mut init: ibv_qp_init_attr_ex = zeroed();
            (init.qp_type, init.pd, init.send_ops_flags) = (qp_type, world.pd, send_ops_flags);
            (init.send_cq, init.recv_cq, init.cap.max_send_wr) = (world.cq, world.cq, 1);
            init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            why(create_qp_ex(world.context, &raw mut init))
        }
    };
    for (qp_type, possible, refused) in [
        (IBV_QPT_RC, IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_TSO),
        (IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_READ),
        (IBV_QPT_UD, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE),
    ] {
        let qp = make(qp_type, possible).expect("it can do that");
        // SAFETY: just made, and not used afterwards.
        unsafe {
            assert_eq!(ibv_qp_to_qp_ex(qp), qp.cast());
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        for flags in [refused, possible | refused, 1 << 40] {
            assert_eq!(make(qp_type, flags).err(), Some(libc::EOPNOTSUPP), "{qp_type} {flags:#x}");
        }
    }
    let plain = queue_pair(&world, IBV_QPT_RC);
    // SAFETY: as above.
    unsafe {
        assert!(ibv_qp_to_qp_ex(plain).is_null());
        assert_eq!((ibv_destroy_qp(plain), ibv_destroy_qp(plain)), (0, ENOENT), "twice");
    }
    world.end();
}
