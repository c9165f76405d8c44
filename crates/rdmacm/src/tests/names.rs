//! rdma_getaddrinfo(3), the devices of the process, names of events, and what needs a kernel.

use std::ffi::CStr;
use std::net::SocketAddr;
use std::ptr::{null, null_mut};

use libc::{AF_INET, AF_INET6, EAFNOSUPPORT, EINVAL, c_int};
use uroce_device::cm::PortSpace;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use super::address;
use super::states::errno;
use crate::addrinfo::{rdma_freeaddrinfo, rdma_getaddrinfo};
use crate::contexts::{rdma_free_devices, rdma_get_devices};
use crate::event::rdma_event_str;
use crate::{OwnedId, sockaddr};

/// What was found, without its pointers.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    flags: c_int,
    family: c_int,
    space: c_int,
    qp_type: c_int,
    source: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    lengths: (u32, u32),
}

fn look_up(
    node: Option<&CStr>,
    service: Option<&CStr>,
    hints: Option<&rdma_addrinfo>,
) -> Result<Found, c_int> {
    let mut out = null_mut();
    let text = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
    // SAFETY: as the manual page wants it.
    unsafe {
        let hints = hints.map_or(null(), |hints| &raw const *hints);
        let failure = rdma_getaddrinfo(text(node), text(service), hints, &raw mut out);
        if failure != 0 {
            assert!(out.is_null(), "nothing is left behind");
            return Err(failure);
        }
        let info = &*out;
        assert!(info.ai_next.is_null() && info.ai_route.is_null() && info.ai_connect.is_null());
        let found = Found {
            flags: info.ai_flags,
            family: info.ai_family,
            space: info.ai_port_space,
            qp_type: info.ai_qp_type,
            source: sockaddr::read(info.ai_src_addr).ok(),
            peer: sockaddr::read(info.ai_dst_addr).ok(),
            lengths: (info.ai_src_len, info.ai_dst_len),
        };
        rdma_freeaddrinfo(out);
        Ok(found)
    }
}

fn hints(flags: c_int) -> rdma_addrinfo {
    // SAFETY: integers and null pointers.
    let mut hints: rdma_addrinfo = unsafe { zeroed() };
    hints.ai_flags = flags;
    hints
}

#[test]
fn the_port_space_and_the_queue_pair_follow_from_each_other() {
    let spaces = |space, qp_type| {
        let mut hints = hints(RAI_NUMERICHOST);
        (hints.ai_port_space, hints.ai_qp_type) = (space, qp_type);
        let found = look_up(Some(c"10.0.0.1"), Some(c"7"), Some(&hints)).expect("an address");
        (found.space, found.qp_type)
    };
    assert_eq!(spaces(0, 0), (RDMA_PS_TCP, IBV_QPT_RC));
    assert_eq!(spaces(RDMA_PS_TCP, 0), (RDMA_PS_TCP, IBV_QPT_RC));
    assert_eq!(spaces(RDMA_PS_UDP, 0), (RDMA_PS_UDP, IBV_QPT_UD));
    assert_eq!(spaces(0, IBV_QPT_UD), (RDMA_PS_UDP, IBV_QPT_UD));
    assert_eq!(spaces(0, IBV_QPT_XRC_SEND), (RDMA_PS_TCP, IBV_QPT_XRC_SEND));
    let none = look_up(Some(c"10.0.0.1"), Some(c"7"), None).expect("an address");
    assert_eq!((none.space, none.qp_type, none.flags), (RDMA_PS_TCP, IBV_QPT_RC, 0));
}

#[test]
fn an_address_is_for_the_side_that_the_flags_say() {
    let at = |text: &str| Some(text.parse::<SocketAddr>().expect("an address"));
    let active = look_up(Some(c"10.0.0.1"), Some(c"7"), Some(&hints(RAI_NUMERICHOST)));
    let active = active.expect("an address");
    assert_eq!((active.source, active.peer, active.lengths), (None, at("10.0.0.1:7"), (0, 16)));
    assert_eq!((active.family, active.flags), (AF_INET, RAI_NUMERICHOST));
    let both = hints(RAI_PASSIVE | RAI_NUMERICHOST);
    let passive = look_up(Some(c"2001:db8::1"), Some(c"7"), Some(&both)).expect("an address");
    assert_eq!((passive.source, passive.peer), (at("[2001:db8::1]:7"), None));
    assert_eq!((passive.family, passive.lengths), (AF_INET6, (28, 0)));
    let no_port = look_up(Some(c"10.0.0.1"), None, None).expect("an address");
    assert_eq!(no_port.peer, at("10.0.0.1:0"));
}

#[test]
fn names_that_are_unknown_are_told_by_the_codes_of_getaddrinfo() {
    let numeric = hints(RAI_NUMERICHOST);
    assert_eq!(look_up(Some(c"localhost"), None, Some(&numeric)), Err(libc::EAI_NONAME));
    assert_eq!(look_up(Some(c""), None, Some(&numeric)), Err(libc::EAI_NONAME));
    assert_eq!(
        look_up(Some(c"10.0.0.1"), Some(c"no-such-service"), Some(&numeric)),
        Err(libc::EAI_SERVICE)
    );
    let mut family = hints(RAI_NUMERICHOST);
    family.ai_family = AF_INET6;
    let other = look_up(Some(c"10.0.0.1"), None, Some(&family)).expect_err("of IPv4");
    assert!([libc::EAI_NONAME, libc::EAI_FAMILY, -9].contains(&other), "{other}");
    family.ai_family = 77;
    assert_eq!(look_up(Some(c"10.0.0.1"), None, Some(&family)), Err(libc::EAI_FAMILY));
    assert_eq!((look_up(None, None, None), errno()), (Err(-1), EINVAL));
}

#[test]
fn addresses_in_the_hints_are_checked() {
    let mut other = address("10.0.0.2:7");
    other.ss_family = libc::AF_UNIX as libc::sa_family_t;
    let mut hints = hints(0);
    (hints.ai_src_addr, hints.ai_src_len) = ((&raw mut other).cast(), 16);
    let refused = look_up(None, None, Some(&hints));
    assert_eq!((refused, errno()), (Err(-1), EAFNOSUPPORT));
    hints.ai_src_len = 0;
    let ignored = look_up(None, None, Some(&hints)).expect("no address is there");
    assert_eq!((ignored.source, ignored.peer, ignored.family), (None, None, AF_INET));
    (hints.ai_src_addr, hints.ai_src_len) = (null_mut(), 16);
    let ignored = look_up(None, None, Some(&hints)).expect("no address is there");
    assert_eq!((ignored.source, ignored.lengths), (None, (0, 0)));
}

#[test]
fn every_event_has_its_own_name() {
    let name = |event| {
        // SAFETY: strings that are never freed.
        unsafe { CStr::from_ptr(rdma_event_str(event)) }
    };
    let names: Vec<_> = (0..19).map(name).collect();
    assert!(names.iter().all(|name| name.to_bytes().starts_with(b"RDMA_CM_EVENT_")));
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), 19);
    for (event, wanted) in [
        (RDMA_CM_EVENT_CONNECT_REQUEST, c"RDMA_CM_EVENT_CONNECT_REQUEST"),
        (RDMA_CM_EVENT_REJECTED, c"RDMA_CM_EVENT_REJECTED"),
        (RDMA_CM_EVENT_DISCONNECTED, c"RDMA_CM_EVENT_DISCONNECTED"),
        (RDMA_CM_EVENT_ADDR_CHANGE, c"RDMA_CM_EVENT_ADDR_CHANGE"),
    ] {
        assert_eq!(name(event), wanted);
    }
    for event in [19, -1, c_int::MIN, c_int::MAX] {
        assert_eq!(name(event), c"UNKNOWN EVENT");
    }
}

#[test]
fn the_devices_are_counted_and_end_with_null() {
    let mut count = -1;
    // SAFETY: as the manual page wants it.
    unsafe {
        let list = rdma_get_devices(&raw mut count);
        assert!(!list.is_null() && count >= 0);
        let count = usize::try_from(count).expect("not negative");
        for index in 0..count {
            assert!(!(*list.add(index)).is_null(), "device {index}");
        }
        assert!((*list.add(count)).is_null());
        rdma_free_devices(list);
        let list = rdma_get_devices(null_mut());
        assert!(!list.is_null(), "a program may not care how many there are");
        rdma_free_devices(list);
        rdma_free_devices(null_mut());
    }
}

#[test]
fn an_owned_id_is_bound_to_a_device_once() {
    let id = OwnedId::new(PortSpace::Udp).expect("a descriptor");
    let at = |text: &str| text.parse::<SocketAddr>().expect("an address").ip();
    assert_eq!(id.bind_to_device(at("192.0.2.1:0")), Err(Errno(libc::ENODEV)), "none of ours");
    assert_eq!(id.device_address(), Err(INVALID), "a refused call has no effect");
    assert_eq!(id.bind_to_device(at("127.0.0.1:0")), Ok(()), "it does not stand for any");
    assert_eq!(id.device_address(), Ok(at("127.0.0.1:0")));
    assert!(id.local().is_some_and(|local| local.port() > 0));
    assert!(id.pd().is_ok() && id.open_device().is_ok());
    assert_eq!(id.bind_to_device(at("127.0.0.1:0")), Err(INVALID), "twice");
    let other = OwnedId::new(PortSpace::Udp).expect("a descriptor");
    assert_eq!(other.bind(SocketAddr::new(at("127.0.0.1:0"), 0)), Ok(()));
    assert_eq!(other.device_address(), Err(INVALID), "here it stands for any");
}
