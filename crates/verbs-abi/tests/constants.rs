//! Families of constants: each flag is one bit of its own, each number has one name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use uroce_verbs_abi::*;
use uroce_wire::Gid;

/// The constants whose names begin like this, less those named.
fn family(prefix: &str, without: &[&str]) -> BTreeMap<&'static str, i64> {
    let all = VERBS_CONSTANTS.iter().chain(RDMACM_CONSTANTS).copied();
    let found: BTreeMap<_, _> = all
        .filter(|(name, _)| name.starts_with(prefix))
        .filter(|(name, _)| !without.iter().any(|other| name.starts_with(other)))
        .collect();
    assert!(found.len() > 1, "{prefix} has {found:?}");
    found
}

#[test]
fn flags_are_one_bit_each() {
    let families: [(&str, &[&str]); 16] = [
        ("IBV_SEND_", &[]),
        ("IBV_ACCESS_", &[]),
        ("IBV_QP_", &["IBV_QP_EX_", "IBV_QP_INIT_", "IBV_QP_OPEN_"]),
        ("IBV_QP_EX_", &[]),
        ("IBV_QP_INIT_ATTR_", &[]),
        ("IBV_QP_OPEN_ATTR_", &[]),
        ("IBV_SRQ_INIT_ATTR_", &[]),
        ("IBV_XRCD_INIT_ATTR_", &[]),
        ("IBV_CQ_INIT_ATTR_MASK_", &[]),
        ("IBV_PARENT_DOMAIN_INIT_ATTR_", &[]),
        ("IBV_REREG_MR_CHANGE_", &[]),
        ("IBV_WC_", &["IBV_WC_EX_", "IBV_WC_STANDARD_FLAGS"]),
        ("IBV_WC_EX_", &[]),
        ("IBV_ODP_SUPPORT_", &["IBV_ODP_SUPPORT_IMPLICIT"]),
        ("IBV_PORT_", &["IBV_PORT_DOWN", "IBV_PORT_ACTIVE"]),
        ("RDMA_CM_JOIN_MC_ATTR_", &[]),
    ];
    for (prefix, without) in families {
        let flags = family(prefix, without);
        let mut seen = 0;
        for (name, value) in flags {
            assert_eq!(value.count_ones(), 1, "{name} is {value:#x}");
            assert_eq!(seen & value, 0, "{name} is a bit of another flag, too");
            seen |= value;
        }
    }
}

#[test]
fn numbers_have_one_name_each() {
    let families: [(&str, &[&str]); 8] = [
        ("IBV_QPT_", &[]),
        ("IBV_QPS_", &[]),
        ("IBV_WR_", &[]),
        ("IBV_EVENT_", &[]),
        ("IBV_RATE_", &[]),
        ("IBV_SRQT_", &[]),
        ("IBV_MW_TYPE_", &[]),
        ("RDMA_CM_EVENT_", &[]),
    ];
    for (prefix, without) in families {
        let numbers = family(prefix, without);
        let distinct: BTreeSet<_> = numbers.values().collect();
        assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
    }
}

#[test]
fn states_and_events_are_numbered_without_a_gap() {
    for (prefix, last) in [("IBV_QPS_", 6), ("IBV_EVENT_", 19), ("RDMA_CM_EVENT_", 15)] {
        let numbers: BTreeSet<_> = family(prefix, &[]).into_values().collect();
        assert!(numbers.into_iter().eq(0..=last), "{prefix}");
    }
}

#[test]
fn constants_of_newer_headers_are_beside_the_others() {
    let others = family("IBV_QP_EX_", &[]);
    assert!(!others.values().any(|value| *value == IBV_QP_EX_WITH_FLUSH.cast_signed()));
    assert!(!family("IBV_WR_", &[]).values().any(|value| *value == i64::from(IBV_WR_FLUSH)));
    let odp = family("IBV_ODP_SUPPORT_", &["IBV_ODP_SUPPORT_IMPLICIT"]);
    for flag in [IBV_ODP_SUPPORT_FLUSH, IBV_ODP_SUPPORT_ATOMIC_WRITE] {
        assert!(flag.is_power_of_two() && !odp.values().any(|value| *value == i64::from(flag)));
    }
}

#[test]
fn a_gid_is_an_address_and_back() {
    for text in ["127.47.92.1", "10.0.0.255", "2001:db8::17", "fe80::1", "::"] {
        let ip: IpAddr = text.parse().expect("an address");
        let gid = ibv_gid::from_gid(Gid::from_ip(ip));
        assert_eq!(gid.to_ip(), ip);
        let bytes = match ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        assert_eq!(gid.raw, bytes, "in network byte order");
    }
    assert_eq!(align_of::<ibv_gid>(), 8, "a union with two words");
}

#[test]
fn the_context_lies_directly_behind_its_slots() {
    assert_eq!(std::mem::offset_of!(verbs_context, context), size_of::<verbs_slots>());
    assert_eq!(std::mem::offset_of!(verbs_slots, sz) + 8, size_of::<verbs_slots>());
    assert_eq!(size_of::<Slot>(), size_of::<usize>(), "null is none");
}
