//! What each call says in each state of an id, and what its events say.

use std::ptr::{null, null_mut};

use libc::{EAGAIN, EINVAL, ENOTCONN, c_int};
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use super::{End, address, listener, make_qp};
use crate::addrinfo::{rdma_freeaddrinfo, rdma_query_addrinfo, rdma_resolve_addrinfo};
use crate::bind::rdma_bind_addr;
use crate::channel::{rdma_ack_cm_event, rdma_get_cm_event, rdma_write_cm_event};
use crate::connection::{
    rdma_accept, rdma_connect, rdma_disconnect, rdma_establish, rdma_notify, rdma_reject,
};
use crate::destroy::rdma_destroy_id;
use crate::id::{rdma_get_dst_port, rdma_get_src_port};
use crate::listen::rdma_listen;
use crate::migrate::rdma_migrate_id;
use crate::queue_pair::rdma_destroy_qp;
use crate::resolve::{rdma_resolve_addr, rdma_resolve_route};

const OK: c_int = 0;
const CONSUMER_REJECT: c_int = 28;
const INVALID_SERVICE_ID: c_int = 8;

pub(super) fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The errno value of a call that returns -1 and sets it.
fn outcome(answer: c_int) -> c_int {
    if answer == 0 { OK } else { errno() }
}

/// What an event says.
pub(super) struct Event {
    pub kind: c_int,
    pub status: c_int,
    pub id: *mut rdma_cm_id,
    pub listener: *mut rdma_cm_id,
    pub conn: rdma_conn_param,
    pub ud: rdma_ud_param,
    pub data: Vec<u8>,
}

impl End {
    /// The next event, which is acknowledged.
    pub(super) fn next(&self) -> Event {
        let mut event = null_mut();
        // SAFETY: as the manual pages want it; both members of the union are integers and pointers.
        unsafe {
            assert_eq!(rdma_get_cm_event(self.channel, &raw mut event), 0);
            let c = &*event;
            let (conn, ud) = (c.param.conn, c.param.ud);
            let length = usize::from(conn.private_data_len);
            let data = match conn.private_data.is_null() || c.event == RDMA_CM_EVENT_MULTICAST_JOIN
            {
                true => vec![],
                false => std::slice::from_raw_parts(conn.private_data.cast(), length).to_vec(),
            };
            let (kind, status, id, listener) = (c.event, c.status, c.id, c.listen_id);
            assert_eq!(rdma_ack_cm_event(event), 0);
            Event { kind, status, id, listener, conn, ud, data }
        }
    }

    /// A call that does not wait if there is no event.
    pub(super) fn set_nonblocking(&self) {
        // SAFETY: a descriptor that lives.
        unsafe {
            let fd = (*self.channel).fd;
            let flags = libc::fcntl(fd, libc::F_GETFL);
            assert_eq!(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK), 0);
        }
    }

    /// Whether an event waits, as poll(2) says.
    pub(super) fn is_readable(&self) -> bool {
        // SAFETY: one entry, and a descriptor that lives.
        unsafe {
            let mut one = libc::pollfd { fd: (*self.channel).fd, events: libc::POLLIN, revents: 0 };
            libc::poll(&raw mut one, 1, 0) == 1
        }
    }
}

/// A client that has resolved its way to a listener, and that listener.
pub(super) fn resolved(client: &str, server: &str) -> (End, End) {
    let (listener, at) = listener(server);
    let end = End::new();
    end.resolve(client, at);
    (end, listener)
}

/// Ends an id that was called.
pub(super) fn finish(called: *mut rdma_cm_id) {
    // SAFETY: it is not used any more.
    unsafe {
        if !(*called).qp.is_null() {
            rdma_destroy_qp(called);
        }
        assert_eq!(rdma_destroy_id(called), 0);
    }
}

/// What the calls that belong to a connection say now.
fn calls(id: *mut rdma_cm_id) -> [c_int; 6] {
    // SAFETY: an id; null is allowed.
    unsafe {
        [
            outcome(rdma_connect(id, null_mut())),
            outcome(rdma_accept(id, null_mut())),
            outcome(rdma_reject(id, null(), 0)),
            outcome(rdma_disconnect(id)),
            outcome(rdma_establish(id)),
            outcome(rdma_notify(id, IBV_EVENT_COMM_EST)),
        ]
    }
}

#[test]
fn calls_of_a_connection_need_one() {
    let end = End::new();
    assert_eq!(calls(end.id), [EINVAL; 6], "it has no device");
    let mut from = address("127.47.97.1:0");
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { rdma_bind_addr(end.id, (&raw mut from).cast()) }, 0);
    let bound = [EINVAL, ENOTCONN, ENOTCONN, ENOTCONN, ENOTCONN, ENOTCONN];
    assert_eq!(calls(end.id), bound);
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { rdma_listen(end.id, 1) }, 0);
    assert_eq!(calls(end.id), bound, "it listens");
    end.end();
}

#[test]
fn a_caller_does_not_accept_reject_or_call_again() {
    let (client, server) = resolved("127.47.97.2:0", "127.47.97.3:0");
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        assert_eq!(outcome(rdma_connect(client.id, null_mut())), EINVAL);
        assert_ne!(rdma_accept(client.id, null_mut()), 0, "nobody calls it");
        assert_eq!(outcome(rdma_establish(client.id)), EINVAL, "the device does it");
        assert_eq!(outcome(rdma_listen(client.id, 1)), EINVAL);
        let mut to = address("127.47.97.3:9");
        let to = (&raw mut to).cast();
        assert_eq!(outcome(rdma_resolve_addr(client.id, null_mut(), to, 1)), EINVAL);
        assert_eq!(outcome(rdma_bind_addr(client.id, to)), EINVAL);
        let called = server.next();
        assert_eq!((called.kind, called.listener), (RDMA_CM_EVENT_CONNECT_REQUEST, server.id));
        finish(called.id);
    }
    assert_eq!(client.next().kind, RDMA_CM_EVENT_REJECTED, "as the request went");
    client.end();
    server.end();
}

#[test]
fn who_is_called_answers_once() {
    let (client, server) = resolved("127.47.97.4:0", "127.47.97.5:0");
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        make_qp(called);
        assert_eq!(outcome(rdma_connect(called, null_mut())), EINVAL, "it is called");
        assert_eq!(outcome(rdma_listen(called, 1)), EINVAL);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        assert_eq!(client.expect(RDMA_CM_EVENT_ESTABLISHED), client.id);
        assert_eq!(server.expect(RDMA_CM_EVENT_ESTABLISHED), called);
        for id in [client.id, called] {
            assert_ne!(rdma_accept(id, null_mut()), 0, "it is accepted");
            assert_ne!(rdma_reject(id, null(), 0), 0, "too late");
            assert_eq!(outcome(rdma_establish(id)), EINVAL);
            assert_eq!(rdma_notify(id, IBV_EVENT_COMM_EST), 0, "no news");
        }
        assert_eq!((rdma_disconnect(called), rdma_disconnect(called)), (0, 0), "twice");
        assert_eq!(client.expect(RDMA_CM_EVENT_DISCONNECTED), client.id);
        assert_eq!(server.expect(RDMA_CM_EVENT_DISCONNECTED), called);
        assert_eq!(rdma_disconnect(client.id), 0, "it is over");
        assert_eq!(outcome(rdma_connect(client.id, null_mut())), EINVAL, "an id calls once");
        finish(called);
    }
    client.end();
    server.end();
}

#[test]
fn receives_come_back_where_there_never_was_a_connection() {
    let (server, at) = listener("127.47.97.40:0");
    for gives_up in [false, true] {
        let client = End::new();
        client.resolve("127.47.97.41:0", at);
        make_qp(client.id);
        // SAFETY: as the manual pages want it.
        unsafe {
            assert_eq!(rdma_connect(client.id, null_mut()), 0);
            let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
            if gives_up {
                assert_eq!(rdma_disconnect(client.id), 0);
                assert_eq!((*(*client.id).qp).state, IBV_QPS_ERR, "at once");
            }
            assert_eq!(rdma_reject(called, null(), 0), 0);
            assert_eq!(client.next().kind, RDMA_CM_EVENT_REJECTED);
            assert_eq!((*(*client.id).qp).state, IBV_QPS_ERR);
            finish(called);
        }
        client.end();
    }
    server.end();
}

#[test]
fn a_request_that_was_rejected_is_not_accepted() {
    let (client, server) = resolved("127.47.97.6:0", "127.47.97.7:0");
    // SAFETY: as the manual pages want it.
    unsafe {
        make_qp(client.id);
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_eq!(rdma_reject(called, b"why".as_ptr().cast(), 3), 0);
        assert_ne!(rdma_reject(called, null(), 0), 0, "twice");
        make_qp(called);
        assert_ne!(rdma_accept(called, null_mut()), 0);
        let rejected = client.next();
        assert_eq!((rejected.kind, rejected.status), (RDMA_CM_EVENT_REJECTED, CONSUMER_REJECT));
        assert_eq!(rejected.id, client.id);
        assert!(rejected.data.starts_with(b"why"), "{:?}", rejected.data);
        finish(called);
    }
    client.end();
    server.end();
}

#[test]
fn a_call_to_a_port_without_a_listener_is_rejected_by_the_device() {
    let (server, mut at) = listener("127.47.97.8:0");
    at.set_port(at.port() ^ 1);
    let client = End::new();
    client.resolve("127.47.97.9:0", at);
    make_qp(client.id);
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { rdma_connect(client.id, null_mut()) }, 0);
    let rejected = client.next();
    assert_eq!((rejected.kind, rejected.status), (RDMA_CM_EVENT_REJECTED, INVALID_SERVICE_ID));
    client.end();
    server.end();
}

#[test]
fn a_request_says_what_its_caller_offers_and_wants() {
    let (client, server) = resolved("127.47.97.10:0", "127.47.97.11:0");
    make_qp(client.id);
    // SAFETY: integers and a pointer; the calls as the manual pages want them.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        (param.responder_resources, param.initiator_depth) = (3, 5);
        (param.retry_count, param.rnr_retry_count, param.flow_control) = (4, 6, 1);
        (param.private_data, param.private_data_len) = (b"from the caller".as_ptr().cast(), 15);
        // The device knows the number of the queue pair better.
        param.qp_num = 0x77;
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let request = server.next();
        assert_eq!(request.kind, RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_eq!(request.status, 0);
        let conn = request.conn;
        assert_eq!((conn.responder_resources, conn.initiator_depth), (5, 3), "seen from here");
        assert_eq!((conn.retry_count, conn.rnr_retry_count, conn.flow_control), (4, 6, 1));
        assert_eq!((conn.qp_num, conn.srq), ((*(*client.id).qp).qp_num, 0));
        assert!(request.data.starts_with(b"from the caller"), "{:?}", request.data);
        let called = request.id;
        assert_eq!(((*called).channel, (*called).ps), (server.channel, RDMA_PS_TCP));
        assert_eq!((*called).context, (*server.id).context, "that of its listener");
        assert_eq!(rdma_get_src_port(called), rdma_get_src_port(server.id));
        assert_eq!(rdma_get_dst_port(called), rdma_get_src_port(client.id));
        assert_eq!(rdma_get_dst_port(client.id), rdma_get_src_port(server.id));
        make_qp(called);
        (param.private_data, param.private_data_len) = (b"accepted".as_ptr().cast(), 8);
        assert_eq!(rdma_accept(called, &raw mut param), 0);
        let established = client.next();
        assert_eq!((established.kind, established.status), (RDMA_CM_EVENT_ESTABLISHED, 0));
        assert!(established.data.starts_with(b"accepted"), "{:?}", established.data);
        finish(called);
    }
    client.end();
    server.end();
}

#[test]
fn private_data_is_as_long_as_its_message_has_room_for_and_no_longer() {
    // What librdmacm's header of a REQ leaves of its 92 bytes; a REP has 196, a REJ 148.
    let (client, server) = resolved("127.47.97.12:0", "127.47.97.13:0");
    make_qp(client.id);
    let data = [7_u8; 255];
    // SAFETY: integers and a pointer; the calls as the manual pages want them.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        (param.private_data, param.private_data_len) = (data.as_ptr().cast(), 57);
        assert_eq!(outcome(rdma_connect(client.id, &raw mut param)), EINVAL);
        param.private_data_len = 56;
        assert_eq!(rdma_connect(client.id, &raw mut param), 0, "a refused call has no effect");
        let request = server.next();
        assert_eq!(request.data, [7; 56]);
        make_qp(request.id);
        assert_eq!(outcome(rdma_reject(request.id, data.as_ptr().cast(), 149)), EINVAL);
        param.private_data_len = 197;
        assert_eq!(outcome(rdma_accept(request.id, &raw mut param)), EINVAL);
        param.private_data_len = 196;
        assert_eq!(rdma_accept(request.id, &raw mut param), 0);
        assert_eq!(client.next().data, [7; 196]);
        finish(request.id);
    }
    client.end();
    server.end();
}

#[test]
fn events_of_a_channel_come_in_their_order_and_make_it_readable() {
    let (client, server) = (End::new(), End::new());
    client.set_nonblocking();
    let (mut from, mut to) = (address("127.47.97.14:0"), address("127.47.97.15:7"));
    let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
    let mut event = null_mut();
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(outcome(rdma_get_cm_event(client.channel, &raw mut event)), EAGAIN);
        assert_eq!((event.is_null(), client.is_readable()), (true, false));
        assert_eq!(outcome(rdma_get_cm_event(client.channel, null_mut())), EINVAL);
        assert_eq!(rdma_resolve_addr(client.id, from, to, 1), 0);
        assert_eq!(rdma_resolve_route(client.id, 1), 0);
        assert!(client.is_readable() && !server.is_readable(), "only that one");
        let (first, second) = (client.next(), client.next());
        assert_eq!(
            (first.kind, second.kind),
            (RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED)
        );
        assert_eq!([first.id, second.id], [client.id; 2]);
        assert!(first.listener.is_null() && first.data.is_empty());
        assert!(!client.is_readable(), "all were fetched");
        assert_eq!(outcome(rdma_get_cm_event(client.channel, &raw mut event)), EAGAIN);
    }
    client.end();
    server.end();
}

#[test]
fn events_of_an_id_that_is_gone_are_not_seen() {
    let (one, other) = (End::new(), End::new());
    one.set_nonblocking();
    let (mut from, mut to) = (address("127.47.97.16:0"), address("127.47.97.17:7"));
    let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
    let mut event = null_mut();
    // SAFETY: as the manual pages want it.
    unsafe {
        // Another id on the same channel, whose event stays.
        assert_eq!(rdma_migrate_id(other.id, one.channel), 0);
        assert_eq!(rdma_resolve_addr(one.id, from, to, 1), 0);
        assert_eq!(rdma_resolve_addr(other.id, null_mut(), to, 1), 0);
        assert_eq!(rdma_resolve_route(one.id, 1), 0);
        assert_eq!(rdma_destroy_id(one.id), 0);
        assert_eq!(one.next().id, other.id);
        assert!(!one.is_readable(), "who reads a descriptor that blocks would wait");
        assert_eq!(outcome(rdma_get_cm_event(one.channel, &raw mut event)), EAGAIN);
    }
    let whole = End { channel: other.channel, id: other.id };
    whole.end();
    // SAFETY: it has no id any more.
    unsafe { crate::channel::rdma_destroy_event_channel(one.channel) };
}

#[test]
fn waiting_events_move_with_their_id() {
    let (one, other) = (End::new(), End::new());
    [&one, &other].into_iter().for_each(End::set_nonblocking);
    let (mut from, mut to) = (address("127.47.97.18:0"), address("127.47.97.19:7"));
    let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_resolve_addr(one.id, from, to, 1), 0);
        assert_eq!(rdma_resolve_addr(other.id, null_mut(), to, 1), 0);
        assert_eq!(rdma_migrate_id(one.id, other.channel), 0);
        assert_eq!((*one.id).channel, other.channel);
        assert!(!one.is_readable());
        let mut seen = [other.next().id, other.next().id];
        seen.sort_unstable();
        let mut both = [one.id, other.id];
        both.sort_unstable();
        assert_eq!(seen, both);
        assert_eq!(rdma_migrate_id(one.id, one.channel), 0, "and back");
        assert_eq!(rdma_migrate_id(one.id, one.channel), 0, "to where it is");
        assert_eq!(rdma_resolve_route(one.id, 1), 0);
    }
    one.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    one.end();
    other.end();
}

#[test]
fn a_listener_goes_while_requests_wait() {
    let (client, server) = resolved("127.47.97.20:0", "127.47.97.21:0");
    make_qp(client.id);
    // SAFETY: as the manual page wants it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        while !server.is_readable() {
            std::thread::yield_now();
        }
    }
    server.end();
    assert_eq!(client.next().kind, RDMA_CM_EVENT_REJECTED);
    client.end();
}

#[test]
fn an_id_that_was_called_outlives_its_listener() {
    let (client, server) = resolved("127.47.97.22:0", "127.47.97.23:0");
    let other = End::new();
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_eq!(rdma_migrate_id(called, other.channel), 0);
        server.end();
        make_qp(called);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        assert_eq!(other.expect(RDMA_CM_EVENT_ESTABLISHED), called);
        client.expect(RDMA_CM_EVENT_ESTABLISHED);
        finish(called);
    }
    assert_eq!(client.next().kind, RDMA_CM_EVENT_DISCONNECTED);
    client.end();
    other.end();
}

#[test]
fn an_id_that_was_called_has_its_events_when_its_listener_is_gone() {
    let (client, mut server) = resolved("127.47.97.24:0", "127.47.97.25:0");
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        make_qp(called);
        assert_eq!(rdma_destroy_id(server.id), 0);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        assert_eq!(server.expect(RDMA_CM_EVENT_ESTABLISHED), called);
        client.expect(RDMA_CM_EVENT_ESTABLISHED);
        assert_eq!(rdma_disconnect(called), 0);
        assert_eq!(server.expect(RDMA_CM_EVENT_DISCONNECTED), called);
        client.expect(RDMA_CM_EVENT_DISCONNECTED);
        rdma_destroy_qp(called);
        // What is left of the server is this id.
        server.id = called;
    }
    client.end();
    server.end();
}

#[test]
fn names_are_resolved_with_an_event_and_programs_have_events_of_their_own() {
    let end = End::new();
    // SAFETY: as the manual pages want it.
    unsafe {
        let mut found = null_mut();
        assert_eq!(outcome(rdma_query_addrinfo(end.id, &raw mut found)), EINVAL);
        let (node, service) = (c"127.47.97.26", c"7471");
        assert_eq!(rdma_resolve_addrinfo(end.id, node.as_ptr(), service.as_ptr(), null()), 0);
        assert_eq!(end.next().kind, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
        assert_eq!(rdma_query_addrinfo(end.id, &raw mut found), 0);
        let peer = crate::sockaddr::read((*found).ai_dst_addr).expect("an address");
        assert_eq!(peer, "127.47.97.26:7471".parse().expect("an address"));
        rdma_freeaddrinfo(found);
        let unknown = c"no.such.name.invalid";
        let hints = rdma_addrinfo { ai_flags: RAI_NUMERICHOST, ..zeroed() };
        assert_eq!(rdma_resolve_addrinfo(end.id, unknown.as_ptr(), null(), &raw const hints), 0);
        let event = end.next();
        assert_eq!(event.kind, RDMA_CM_EVENT_ADDRINFO_ERROR);
        assert!(event.status < 0, "{}", event.status);
        let hints = rdma_addrinfo { ai_flags: RAI_SA, ..zeroed() };
        let answer = rdma_resolve_addrinfo(end.id, null(), service.as_ptr(), &raw const hints);
        assert_eq!(outcome(answer), libc::EOPNOTSUPP);
        let write = |event| outcome(rdma_write_cm_event(end.id, event, 5, 77));
        assert_eq!((write(RDMA_CM_EVENT_ESTABLISHED), write(RDMA_CM_EVENT_USER)), (EINVAL, OK));
        let mut event = null_mut();
        assert_eq!(rdma_get_cm_event(end.channel, &raw mut event), 0);
        let told = ((*event).event, (*event).status, (*event).id, (*event).param.arg);
        assert_eq!(told, (RDMA_CM_EVENT_USER, 5, end.id, 77));
        assert_eq!(rdma_ack_cm_event(event), 0);
    }
    end.end();
}

#[test]
fn datagram_ids_ask_for_the_queue_pair_of_a_service() {
    let (server, client) = (End::of(RDMA_PS_UDP), End::of(RDMA_PS_UDP));
    let (mut at, mut from) = (address("127.47.97.24:0"), address("127.47.97.25:0"));
    // SAFETY: integers and a pointer; the calls as the manual pages want them.
    unsafe {
        assert_eq!(rdma_bind_addr(server.id, (&raw mut at).cast()), 0);
        assert_eq!(rdma_listen(server.id, 1), 0);
        let port = u16::from_be(rdma_get_src_port(server.id));
        let mut to = address(&format!("127.47.97.24:{port}"));
        let from = (&raw mut from).cast();
        assert_eq!(rdma_resolve_addr(client.id, from, (&raw mut to).cast(), 1), 0);
        client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        assert_eq!(rdma_connect(client.id, null_mut()), -1, "no route");
        assert_eq!(rdma_resolve_route(client.id, 1), 0);
        client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
        let mut param: rdma_conn_param = zeroed();
        (param.private_data, param.private_data_len) = (b"who?".as_ptr().cast(), 4);
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let request = server.next();
        assert_eq!(request.kind, RDMA_CM_EVENT_CONNECT_REQUEST);
        assert!(request.data.starts_with(b"who?"));
        (param.private_data, param.qp_num) = (b"me!!".as_ptr().cast(), 0x1234);
        assert_eq!(rdma_accept(request.id, &raw mut param), 0);
        let answer = client.next();
        assert_eq!((answer.kind, answer.status), (RDMA_CM_EVENT_ESTABLISHED, 0));
        assert_eq!((answer.ud.qp_num, answer.ud.qkey), (0x1234, RDMA_UDP_QKEY));
        assert_eq!((answer.ud.ah_attr.is_global, answer.ud.ah_attr.port_num), (1, 1));
        assert_eq!(answer.ud.ah_attr.grh.dgid.raw[12..], [127, 47, 97, 24]);
        assert!(answer.data.starts_with(b"me!!"));
        finish(request.id);
    }
    client.end();
    server.end();
}

#[test]
fn a_question_that_is_rejected_is_unreachable() {
    let (server, client) = (End::of(RDMA_PS_UDP), End::of(RDMA_PS_UDP));
    let (mut at, mut from) = (address("127.47.97.26:0"), address("127.47.97.27:0"));
    // SAFETY: the calls as the manual pages want them.
    unsafe {
        assert_eq!(rdma_bind_addr(server.id, (&raw mut at).cast()), 0);
        assert_eq!(rdma_listen(server.id, 1), 0);
        let port = u16::from_be(rdma_get_src_port(server.id));
        let mut to = address(&format!("127.47.97.26:{port}"));
        let from = (&raw mut from).cast();
        assert_eq!(rdma_resolve_addr(client.id, from, (&raw mut to).cast(), 1), 0);
        client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        assert_eq!(rdma_resolve_route(client.id, 1), 0);
        client.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let request = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_eq!(rdma_reject(request, b"no".as_ptr().cast(), 2), 0);
        let refused = client.next();
        assert_eq!(refused.kind, RDMA_CM_EVENT_UNREACHABLE);
        assert_ne!(refused.status, 0);
        finish(request);
    }
    client.end();
    server.end();
}

#[test]
fn an_id_that_has_a_peer_neither_gets_another_one_nor_listens() {
    let (client, server) = resolved("127.47.99.9:0", "127.47.99.10:0");
    let mut to = address("127.47.99.10:1");
    // SAFETY: as the manual pages want it.
    unsafe {
        let to = (&raw mut to).cast();
        assert_eq!(outcome(rdma_resolve_addr(client.id, null_mut(), to, 1)), EINVAL);
        assert_eq!(outcome(rdma_listen(client.id, 1)), EINVAL);
    }
    client.end();
    server.end();
}

#[test]
fn a_connection_has_events_after_its_listener_has_gone() {
    let (client, server) = resolved("127.47.99.11:0", "127.47.99.12:0");
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        make_qp(called);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        assert_eq!(rdma_destroy_id(server.id), 0);
        assert_eq!(client.expect(RDMA_CM_EVENT_ESTABLISHED), client.id);
        assert_eq!(server.expect(RDMA_CM_EVENT_ESTABLISHED), called);
        assert_eq!(rdma_disconnect(client.id), 0);
        assert_eq!(server.expect(RDMA_CM_EVENT_DISCONNECTED), called);
        finish(called);
        crate::channel::rdma_destroy_event_channel(server.channel);
    }
    client.end();
}
