//! Addresses, ports and options of ids, called as C programs call them.

use std::ffi::CStr;
use std::net::SocketAddr;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use libc::{c_int, c_void};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::qp_attr::ibv_query_qp;
use uroce_ibverbs::qp_create::ibv_destroy_qp;
use uroce_verbs_abi::*;

use super::addrinfo::{rdma_freeaddrinfo, rdma_getaddrinfo};
use super::bind::rdma_bind_addr;
use super::channel::rdma_create_event_channel;
use super::connection::{rdma_accept, rdma_connect, rdma_disconnect, rdma_notify};
use super::create::rdma_create_id;
use super::destroy::rdma_destroy_id;
use super::id::rdma_get_src_port;
use super::listen::rdma_listen;
use super::migrate::rdma_migrate_id;
use super::queue_pair::rdma_destroy_qp;
use super::resolve::{rdma_resolve_addr, rdma_resolve_route};
use super::set_option::rdma_set_option;
use super::sockaddr;
use super::tests::{End, address, listener, make_qp, own_qp, ready};

const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;
const TCP: c_int = 0x106;
const UDP: c_int = 0x111;
const CONNECT_REQUEST: c_int = 4;
const CONNECT_RESPONSE: c_int = 5;
const ESTABLISHED: c_int = 9;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Binds; the errno value if that fails.
fn bind(end: &End, to: &str) -> Result<u16, c_int> {
    let mut to = address(to);
    // SAFETY: as the manual pages want it.
    unsafe {
        if rdma_bind_addr(end.id, (&raw mut to).cast()) == 0 {
            Ok(u16::from_be(rdma_get_src_port(end.id)))
        } else {
            Err(errno())
        }
    }
}

fn set<T>(end: &End, option: c_int, mut value: T) -> c_int {
    // SAFETY: as the manual page wants it.
    unsafe { rdma_set_option(end.id, 0, option, (&raw mut value).cast(), size_of::<T>()) }
}

fn listen(end: &End) -> c_int {
    // SAFETY: as the manual page wants it.
    unsafe { rdma_listen(end.id, 1) }
}

#[test]
fn v60_a_bound_port_belongs_to_its_id() {
    let (first, second) = (End::new(), End::new());
    let port = bind(&first, "0.0.0.0:0").expect("a port");
    assert!(port > 0);
    // SAFETY: as the manual pages want it.
    assert!(unsafe { (*first.id).verbs.is_null() }, "on no device yet");
    assert_eq!(bind(&second, &format!("0.0.0.0:{port}")), Err(libc::EADDRINUSE));
    assert_eq!(bind(&second, &format!("127.47.93.20:{port}")), Err(libc::EADDRINUSE));
    let datagrams = End::of(UDP);
    assert_eq!(bind(&datagrams, &format!("0.0.0.0:{port}")), Ok(port), "the spaces are apart");
    first.end();
    assert_eq!(bind(&second, &format!("127.47.93.20:{port}")), Ok(port), "it is free again");
    let third = End::new();
    assert_eq!(bind(&third, &format!("127.47.93.21:{port}")), Ok(port), "another address");
    [second, third, datagrams].into_iter().for_each(End::end);
}

#[test]
fn v61_addresses_are_shared_only_if_both_say_so() {
    let (first, second, third) = (End::new(), End::new(), End::new());
    let port = bind(&first, "127.47.93.22:0").expect("a port");
    let same = format!("127.47.93.22:{port}");
    assert_eq!((set(&second, REUSEADDR, 1), bind(&second, &same)), (0, Err(libc::EADDRINUSE)));
    assert_eq!((set(&first, REUSEADDR, 1), bind(&second, &same)), (0, Ok(port)));
    assert_eq!((listen(&second), listen(&first)), (0, -1), "one of them listens");
    second.end();
    assert_eq!(bind(&third, &same), Err(libc::EADDRINUSE), "the first still has it");
    assert_eq!(listen(&first), 0);
    first.end();
    third.end();
}

#[test]
fn v62_listeners_of_both_families_share_a_port() {
    let (v4, v6, both) = (End::new(), End::new(), End::new());
    let port = bind(&v4, "0.0.0.0:0").expect("a port");
    assert_eq!(bind(&both, &format!("[::]:{port}")), Err(libc::EADDRINUSE));
    assert_eq!((set(&v6, AFONLY, 1), bind(&v6, &format!("[::]:{port}"))), (0, Ok(port)));
    assert_eq!(set(&v6, AFONLY, 1), 0, "until it listens");
    assert_eq!(listen(&v4), 0);
    assert_eq!(listen(&v6), 0, "even where no device has an address of IPv6");
    [v4, v6, both].into_iter().for_each(End::end);
}

#[test]
fn v63_the_loopback_address_stands_for_any() {
    let end = End::new();
    let port = bind(&end, "127.0.0.1:0").expect("a port");
    // SAFETY: as the manual pages want it.
    assert!(port > 0 && unsafe { (*end.id).verbs.is_null() });
    assert_eq!(listen(&end), 0);
    let client = End::new();
    client.resolve("127.0.0.1:0", SocketAddr::from(([127, 0, 0, 1], port)));
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        assert_eq!(rdma_destroy_id(end.expect(CONNECT_REQUEST)), 0);
    }
    client.end();
    end.end();
}

/// Traffic class of an id's queue pair.
fn traffic_class(id: *mut rdma_cm_id) -> u8 {
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let (mut attr, mut init) = (zeroed::<uroce_verbs_abi::ibv_qp_attr>(), zeroed());
        assert_eq!(ibv_query_qp((*id).qp, &raw mut attr, 0, &raw mut init), 0);
        attr.ah_attr.grh.traffic_class
    }
}

#[test]
fn v64_a_connection_has_the_type_of_service_that_its_caller_wants() {
    let (server, at) = listener("127.47.93.23:0");
    let client = End::new();
    assert_eq!((set(&client, TOS, 0x68u8), set(&client, TOS, 0x68u32)), (0, -1));
    client.resolve("127.47.93.24:0", at);
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(CONNECT_REQUEST);
        make_qp(called);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        client.expect(ESTABLISHED);
        assert_eq!((traffic_class(client.id), traffic_class(called)), (0x68, 0x68));
        rdma_destroy_qp(called);
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}

#[test]
fn v65_options_that_have_no_effect_are_refused() {
    let end = End::new();
    let mut bytes = [0u8; 72];
    let mut option = |level, name| {
        // SAFETY: as the manual page wants it.
        let done = unsafe {
            rdma_set_option(end.id, level, name, bytes.as_mut_ptr().cast::<c_void>(), bytes.len())
        };
        (done, errno())
    };
    assert_eq!(option(1, 1), (-1, libc::EINVAL), "a path to nowhere");
    assert_eq!(option(0, 9), (-1, libc::ENOSYS));
    end.end();
}

#[test]
fn v66_calls_come_in_their_order() {
    let (server, at) = listener("127.47.93.25:0");
    let client = End::new();
    client.resolve("127.47.93.26:0", at);
    make_qp(client.id);
    let mut to = sockaddr::write(at);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!((rdma_connect(server.id, null_mut()), errno()), (-1, libc::EINVAL));
        assert_eq!(rdma_resolve_addr(server.id, null_mut(), (&raw mut to).cast(), 9), -1);
        assert_eq!((listen(&server), errno()), (-1, libc::EINVAL), "it listens");
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        assert_eq!((rdma_connect(client.id, null_mut()), errno()), (-1, libc::EINVAL));
        assert_eq!(rdma_destroy_id(server.expect(CONNECT_REQUEST)), 0);
    }
    client.end();
    server.end();
}

#[test]
fn v67_an_id_that_waited_for_its_calls_moves_to_a_channel() {
    let mut id = null_mut();
    let (mut from, mut to) = (address("127.47.93.27:0"), address("127.47.93.28:7"));
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_create_id(null_mut(), &raw mut id, null_mut(), TCP), 0);
        let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
        assert_eq!(rdma_resolve_addr(id, from, to, 1000), 0);
        assert!(!(*id).event.is_null(), "it keeps the event of its last call");
        let channel = rdma_create_event_channel();
        assert_eq!(rdma_migrate_id(id, channel), 0);
        assert!((*id).event.is_null());
        let end = End { channel, id };
        assert_eq!((rdma_connect(id, null_mut()), errno()), (-1, libc::EINVAL), "no route");
        assert_eq!(rdma_resolve_route(id, 1000), 0);
        end.expect(2);
        assert_eq!((rdma_resolve_route(id, 1000), errno()), (-1, libc::EINVAL), "twice");
        end.end();
    }
}

#[test]
fn v68_a_silent_peer_does_not_hold_up_rdma_disconnect() {
    let (server, at) = listener("127.47.93.29:0");
    let client = End::new();
    client.resolve("127.47.93.30:0", at);
    let mine = own_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        param.qp_num = (*mine).qp_num;
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let called = server.expect(CONNECT_REQUEST);
        let theirs = own_qp(called);
        ready(called, theirs);
        param.qp_num = (*theirs).qp_num;
        assert_eq!(rdma_accept(called, &raw mut param), 0);
        client.expect(CONNECT_RESPONSE);
        // The client says nothing yet, but what it sends has arrived: that stands for its confirmation.
        assert_eq!((rdma_notify(called, 1), errno()), (-1, libc::EINVAL));
        assert_eq!(rdma_notify(called, 4), 0);
        assert_eq!(server.expect(ESTABLISHED), called);
        // The client is in the middle of its handshake, and answers no DREQ.
        let begin = Instant::now();
        assert_eq!(rdma_disconnect(called), 0);
        assert!(begin.elapsed() < Duration::from_millis(400), "{:?}", begin.elapsed());
        assert_eq!((ibv_destroy_qp(mine), ibv_destroy_qp(theirs)), (0, 0));
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}

/// Looks up and returns the source, the destination and what was returned.
fn info(
    node: Option<&CStr>,
    service: Option<&CStr>,
    hints: Option<&rdma_addrinfo>,
) -> Result<(Option<SocketAddr>, Option<SocketAddr>), c_int> {
    let mut out = null_mut();
    let text = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
    // SAFETY: as the manual page wants it.
    unsafe {
        let hints = hints.map_or(null(), |hints| &raw const *hints);
        match rdma_getaddrinfo(text(node), text(service), hints, &raw mut out) {
            0 => {}
            failure => return Err(failure),
        }
        let (source, peer) = ((*out).ai_src_addr, (*out).ai_dst_addr);
        let both = (sockaddr::read(source).ok(), sockaddr::read(peer).ok());
        rdma_freeaddrinfo(out);
        Ok(both)
    }
}

#[test]
fn v69_names_services_and_hints_make_an_address() {
    let at = |text: &str| Some(text.parse::<SocketAddr>().expect("an address"));
    // SAFETY: integers and null pointers.
    let mut hints: rdma_addrinfo = unsafe { zeroed() };
    assert_eq!(info(None, None, None), Err(-1), "nothing to look up");
    assert_eq!(info(Some(c"10.0.0.1"), Some(c"7471"), None), Ok((None, at("10.0.0.1:7471"))));
    assert_eq!(info(None, Some(c"7471"), None), Ok((None, at("127.0.0.1:7471"))));
    assert_eq!(info(Some(c"10.0.0.1"), Some(c"no-such-service"), None), Err(libc::EAI_SERVICE));
    hints.ai_flags = 2;
    assert_eq!(info(Some(c"no.such.name"), None, Some(&hints)), Err(libc::EAI_NONAME));
    hints.ai_flags = 1;
    assert_eq!(info(None, Some(c"7471"), Some(&hints)), Ok((at("0.0.0.0:7471"), None)));

    let (mut source, mut peer) = (address("10.0.0.2:1"), address("10.0.0.3:2"));
    (hints.ai_src_addr, hints.ai_src_len) = ((&raw mut source).cast(), 16);
    (hints.ai_dst_addr, hints.ai_dst_len) = ((&raw mut peer).cast(), 16);
    hints.ai_flags = 0;
    let both = Ok((at("10.0.0.2:1"), at("10.0.0.3:2")));
    assert_eq!(info(None, None, Some(&hints)), both);
    assert_eq!(info(None, Some(c"5"), Some(&hints)), Ok((at("10.0.0.2:1"), at("10.0.0.3:5"))));
    let named = info(Some(c"10.0.0.9"), Some(c"5"), Some(&hints));
    assert_eq!(named, Ok((at("10.0.0.2:1"), at("10.0.0.9:5"))));
    hints.ai_flags = 1;
    assert_eq!(info(None, None, Some(&hints)), both);
}

#[test]
fn v69_a_service_has_a_name() {
    if std::fs::read_to_string("/etc/services").is_ok_and(|text| text.contains("\nssh\t")) {
        let found = info(Some(c"10.0.0.1"), Some(c"ssh"), None).map(|(_, peer)| peer);
        assert_eq!(found, Ok(Some(SocketAddr::from(([10, 0, 0, 1], 22)))));
    }
}
