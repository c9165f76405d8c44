//! Connections, called as C programs call them.

mod ece;
mod endpoints;
mod groups_and_options;
mod names;
mod objects;
mod requests;
mod states;

use std::net::SocketAddr;
use std::ptr::null_mut;

use libc::{c_int, sockaddr_storage};
use uroce_ibverbs::cq_create::ibv_create_cq;
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::qp_attr::{ibv_modify_qp, ibv_query_qp};
use uroce_ibverbs::qp_create::{ibv_create_qp, ibv_destroy_qp};
use uroce_ibverbs::srq::get_srq_num;
use uroce_verbs_abi::*;
use uroce_verbs_abi::{ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_srq_init_attr};

use super::bind::rdma_bind_addr;
use super::channel::{rdma_ack_cm_event, rdma_get_cm_event};
use super::channel::{rdma_create_event_channel, rdma_destroy_event_channel};
use super::connection::{rdma_accept, rdma_connect, rdma_disconnect, rdma_establish, rdma_reject};
use super::create::rdma_create_id;
use super::destroy::rdma_destroy_id;
use super::id::rdma_get_src_port;
use super::listen::rdma_listen;
use super::multicast::{rdma_join_multicast, rdma_leave_multicast};
use super::qp_values::rdma_init_qp_attr;
use super::queue_pair::{rdma_create_qp, rdma_destroy_qp};
use super::resolve::{rdma_resolve_addr, rdma_resolve_route};
use super::set_option::rdma_set_option;
use super::shared_receive::{rdma_create_srq, rdma_destroy_srq};
use super::sockaddr;

const TCP: c_int = 0x106;
const UDP: c_int = 0x111;
const RC: c_int = 2;
const XRC_RECV: c_int = 10;
const CONNECT_REQUEST: c_int = 4;
const CONNECT_RESPONSE: c_int = 5;
const REJECTED: c_int = 8;
const ESTABLISHED: c_int = 9;
const DISCONNECTED: c_int = 10;
const MULTICAST_JOIN: c_int = 12;

/// A channel and an id on it.
pub(super) struct End {
    pub(super) channel: *mut rdma_event_channel,
    pub(super) id: *mut rdma_cm_id,
}

impl End {
    pub(super) fn new() -> End {
        End::of(TCP)
    }

    pub(super) fn of(space: c_int) -> End {
        let channel = rdma_create_event_channel();
        let mut id = null_mut();
        // SAFETY: as the manual pages want it.
        assert_eq!(unsafe { rdma_create_id(channel, &raw mut id, null_mut(), space) }, 0);
        End { channel, id }
    }

    /// Takes the next event, which must be of this type; returns the id that it is about.
    pub(super) fn expect(&self, wanted: c_int) -> *mut rdma_cm_id {
        let mut event = null_mut();
        // SAFETY: as the manual pages want it.
        unsafe {
            assert_eq!(rdma_get_cm_event(self.channel, &raw mut event), 0);
            let (found, id) = ((*event).event, (*event).id);
            assert_eq!(found, wanted);
            assert_eq!(rdma_ack_cm_event(event), 0);
            id
        }
    }

    /// Finds the way to `peer`.
    pub(super) fn resolve(&self, from: &str, peer: SocketAddr) {
        let (mut from, mut to) = (address(from), sockaddr::write(peer));
        // SAFETY: as the manual pages want it.
        unsafe {
            let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
            assert_eq!(rdma_resolve_addr(self.id, from, to, 1000), 0);
            self.expect(0);
            assert_eq!(rdma_resolve_route(self.id, 1000), 0);
            self.expect(2);
        }
    }

    pub(super) fn end(self) {
        // SAFETY: nothing is used afterwards.
        unsafe {
            if !(*self.id).qp.is_null() {
                rdma_destroy_qp(self.id);
            }
            assert_eq!(rdma_destroy_id(self.id), 0);
            rdma_destroy_event_channel(self.channel);
        }
    }
}

pub(super) fn address(text: &str) -> sockaddr_storage {
    sockaddr::write(text.parse().expect("an address"))
}

/// A queue pair with completion queues of its own.
pub(super) fn make_qp(id: *mut rdma_cm_id) {
    // SAFETY: integers and null pointers; the call as the manual pages want it.
    unsafe {
        let mut init: ibv_qp_init_attr = zeroed();
        init.qp_type = RC;
        let (max_send_wr, max_recv_wr, max_send_sge, max_recv_sge) = (4, 4, 1, 1);
        init.cap =
            ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data: 0 };
        assert_eq!(rdma_create_qp(id, null_mut(), &raw mut init), 0);
        assert!(!(*id).send_cq.is_null() && (*(*id).qp).state == 1);
    }
}

/// Listens on a free port of an address.
pub(super) fn listener(text: &str) -> (End, SocketAddr) {
    let (end, mut at) = (End::new(), address(text));
    // SAFETY: as the manual pages want it.
    let port = unsafe {
        assert_eq!(rdma_bind_addr(end.id, (&raw mut at).cast()), 0);
        assert_eq!(rdma_listen(end.id, 4), 0);
        u16::from_be(rdma_get_src_port(end.id))
    };
    let ip = text.parse::<SocketAddr>().expect("an address").ip();
    (end, SocketAddr::new(ip, port))
}

#[test]
fn a_connection_is_made_and_ended() {
    let (server, at) = listener("127.47.93.1:0");
    let client = End::new();
    client.resolve("127.47.93.2:0", at);
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        (param.private_data, param.private_data_len) = (b"hello".as_ptr().cast(), 5);
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let called = server.expect(CONNECT_REQUEST);
        make_qp(called);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        assert_eq!(client.expect(ESTABLISHED), client.id);
        assert_eq!(server.expect(ESTABLISHED), called);
        assert_eq!(((*(*called).qp).state, (*(*client.id).qp).state), (3, 3));
        assert_eq!(rdma_disconnect(client.id), 0);
        client.expect(DISCONNECTED);
        server.expect(DISCONNECTED);
        rdma_destroy_qp(called);
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}

#[test]
fn a_call_is_refused() {
    let (server, at) = listener("127.47.93.3:0");
    let client = End::new();
    client.resolve("127.47.93.4:0", at);
    make_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(CONNECT_REQUEST);
        assert_eq!(rdma_reject(called, b"no".as_ptr().cast(), 2), 0);
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.expect(REJECTED);
    client.end();
    server.end();
}

/// A queue pair that the id knows nothing of.
pub(super) fn own_qp(id: *mut rdma_cm_id) -> *mut ibv_qp {
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let cq = ibv_create_cq((*id).verbs, 8, null_mut(), null_mut(), 0);
        let mut init: ibv_qp_init_attr = zeroed();
        (init.qp_type, init.send_cq, init.recv_cq) = (RC, cq, cq);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (4, 4);
        let qp = ibv_create_qp((*id).pd, &raw mut init);
        assert!(!qp.is_null());
        qp
    }
}

/// INIT, RTR, RTS, as the connection says.
pub(super) fn ready(id: *mut rdma_cm_id, qp: *mut ibv_qp) {
    for state in 1..=3 {
        // SAFETY: integers; the calls as the manual pages want them.
        unsafe {
            let (mut attr, mut mask) = (zeroed::<uroce_verbs_abi::ibv_qp_attr>(), 0);
            attr.qp_state = state;
            assert_eq!(rdma_init_qp_attr(id, &raw mut attr, &raw mut mask), 0);
            assert_eq!(ibv_modify_qp(qp, &raw mut attr, mask), 0, "to state {state}");
        }
    }
}

/// The values that two queue pairs must agree on: PSNs and the peer's number, and the ACK timeout.
pub(super) fn values(qp: *mut ibv_qp) -> (u32, u32, u32, u8) {
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let (mut attr, mut init) = (zeroed::<uroce_verbs_abi::ibv_qp_attr>(), zeroed());
        assert_eq!(ibv_query_qp(qp, &raw mut attr, 0, &raw mut init), 0);
        (attr.rq_psn, attr.sq_psn, attr.dest_qp_num, attr.timeout)
    }
}

#[test]
fn programs_ready_their_own_queue_pairs() {
    let (server, at) = listener("127.47.93.5:0");
    let client = End::new();
    client.resolve("127.47.93.6:0", at);
    let mine = own_qp(client.id);
    // SAFETY: as the manual pages want it.
    unsafe {
        let mut param: rdma_conn_param = zeroed();
        (param.qp_num, param.retry_count) = ((*mine).qp_num, 7);
        assert_eq!(rdma_connect(client.id, &raw mut param), 0);
        let called = server.expect(CONNECT_REQUEST);
        let theirs = own_qp(called);
        ready(called, theirs);
        param.qp_num = (*theirs).qp_num;
        assert_eq!(rdma_accept(called, &raw mut param), 0);
        client.expect(CONNECT_RESPONSE);
        ready(client.id, mine);
        assert_eq!(rdma_establish(client.id), 0);
        assert_eq!(server.expect(ESTABLISHED), called);
        let ((rq, sq, to, _), (their_rq, their_sq, from, _)) = (values(mine), values(theirs));
        assert_eq!((rq, sq), (their_sq, their_rq));
        assert_eq!((to, from), ((*theirs).qp_num, (*mine).qp_num));
        assert_eq!(rdma_disconnect(called), 0);
        client.expect(DISCONNECTED);
        assert_eq!(rdma_disconnect(client.id), 0, "it is over already, which is fine");
        server.expect(DISCONNECTED);
        assert_eq!((ibv_destroy_qp(mine), ibv_destroy_qp(theirs)), (0, 0));
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}

#[test]
fn each_side_has_the_ack_timeout_that_it_asked_for() {
    const ACK_TIMEOUT: c_int = 3;
    let set = |id, mut timeout: u8, length| {
        // SAFETY: as the manual page wants it.
        unsafe { rdma_set_option(id, 0, ACK_TIMEOUT, (&raw mut timeout).cast(), length) }
    };
    let (server, at) = listener("127.47.93.7:0");
    let client = End::new();
    client.resolve("127.47.93.8:0", at);
    make_qp(client.id);
    assert_eq!((set(client.id, 32, 1), set(client.id, 1, 4), set(client.id, 10, 1)), (-1, -1, 0));
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_connect(client.id, null_mut()), 0);
        let called = server.expect(CONNECT_REQUEST);
        make_qp(called);
        assert_eq!(set(called, 21, 1), 0);
        assert_eq!(rdma_accept(called, null_mut()), 0);
        client.expect(ESTABLISHED);
        assert_eq!((values((*client.id).qp).3, values((*called).qp).3), (10, 21));
        rdma_destroy_qp(called);
        assert_eq!(rdma_destroy_id(called), 0);
    }
    client.end();
    server.end();
}

#[test]
fn a_group_is_joined_and_left() {
    let end = End::of(UDP);
    let (mut from, mut group) = (address("127.47.93.9:0"), address("230.47.93.9:0"));
    let (from, group) = ((&raw mut from).cast(), (&raw mut group).cast());
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_join_multicast(end.id, group, null_mut()), -1, "on no device yet");
        assert_eq!(rdma_resolve_addr(end.id, from, group, 1000), 0);
        end.expect(0);
        let mut init: ibv_qp_init_attr = zeroed();
        init.qp_type = 4;
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (4, 4);
        assert_eq!(rdma_create_qp(end.id, null_mut(), &raw mut init), 0);
        assert_eq!(rdma_join_multicast(end.id, group, end.id.cast()), 0);
        let mut event = null_mut();
        assert_eq!(rdma_get_cm_event(end.channel, &raw mut event), 0);
        let ud = (*event).param.ud;
        assert_eq!(((*event).event, ud.qp_num, ud.qkey), (MULTICAST_JOIN, 0xff_ffff, 0x0123_4567));
        assert_eq!(
            (ud.private_data, ud.ah_attr.grh.dgid.raw[12]),
            (end.id.cast_const().cast(), 230)
        );
        assert_eq!(rdma_ack_cm_event(event), 0);
        assert_eq!(rdma_leave_multicast(end.id, group), 0);
        assert_eq!(rdma_leave_multicast(end.id, group), -1, "it has left");
    }
    end.end();
}

#[test]
fn an_id_gets_a_shared_receive_queue_of_the_kind_that_it_needs() {
    let End { channel, id } = End::new();
    let mut at = address("127.47.93.60:0");
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_bind_addr(id, (&raw mut at).cast()), 0);
        let mut init: ibv_srq_init_attr = zeroed();
        (init.attr.max_wr, init.attr.max_sge) = (4, 1);
        let mut number = 0;
        assert_eq!(rdma_create_srq(id, null_mut(), &raw mut init), 0);
        assert_eq!(get_srq_num((*id).srq, &raw mut number), libc::EOPNOTSUPP, "a basic one");
        assert_eq!(rdma_create_srq(id, null_mut(), &raw mut init), -1, "there is one");
        rdma_destroy_srq(id);
        assert!((*id).srq.is_null() && (*id).recv_cq.is_null());

        let mut qp: ibv_qp_init_attr = zeroed();
        qp.qp_type = XRC_RECV;
        assert_eq!(rdma_create_qp(id, null_mut(), &raw mut qp), 0);
        assert_eq!(rdma_create_srq(id, null_mut(), &raw mut init), 0);
        assert_eq!(get_srq_num((*id).srq, &raw mut number), 0);
        assert!(number > 0 && !(*id).recv_cq.is_null() && !(*id).recv_cq_channel.is_null());
        rdma_destroy_qp(id);
        assert!(!(*id).recv_cq.is_null(), "the queue completes to it");
        rdma_destroy_srq(id);
        assert!((*id).srq.is_null() && (*id).recv_cq.is_null());
    }
    End { channel, id }.end();
}

extern "C" fn ignore(_signal: c_int) {}

#[test]
fn v4_a_signal_ends_a_wait_for_events_of_connections() {
    use std::sync::mpsc;
    use std::time::Duration;

    let channel = rdma_create_event_channel();
    let at = channel.expose_provenance();
    let ((told, outcome), (thread, sleeper)) = (mpsc::channel(), mpsc::channel());
    let handle = std::thread::spawn(move || {
        let channel = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: no arguments; the channel lives until this thread has ended.
        unsafe {
            thread.send(libc::pthread_self()).expect("the test waits");
            let done = rdma_get_cm_event(channel, &mut null_mut());
            let errno = std::io::Error::last_os_error().raw_os_error();
            told.send((done, errno)).expect("the test waits");
        }
    });
    // SAFETY: a handler that does nothing, for a signal that no other test uses.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, null_mut()), 0);
    }
    let sleeper = sleeper.recv().expect("it runs");
    // A signal may come before the call sleeps, hence several.
    let ended = (0..2000).find_map(|_| {
        // SAFETY: the thread has not been joined.
        assert_eq!(unsafe { libc::pthread_kill(sleeper, libc::SIGUSR1) }, 0);
        outcome.recv_timeout(Duration::from_millis(5)).ok()
    });
    assert_eq!(ended, Some((-1, Some(libc::EINTR))));
    handle.join().expect("no panic");
    // SAFETY: it is not used any more.
    unsafe { rdma_destroy_event_channel(channel) };
}

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
}

/// A thread of a C program: nothing in it has to be dropped.
extern "C-unwind" fn fetches(channel: *mut libc::c_void) -> *mut libc::c_void {
    let mut event = null_mut();
    // SAFETY: a channel.
    unsafe { rdma_get_cm_event(channel.cast(), &raw mut event) };
    null_mut()
}

#[test]
fn a_thread_that_waits_for_events_can_be_cancelled() {
    type Start = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;
    type Unwinds = extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void;
    let channel = rdma_create_event_channel();
    // SAFETY: a thread with its argument, which is joined; the two types of functions are called alike.
    unsafe {
        let (mut thread, mut result) = (0, null_mut());
        let start = std::mem::transmute::<Unwinds, Start>(fetches);
        assert_eq!(
            libc::pthread_create(&raw mut thread, std::ptr::null(), start, channel.cast()),
            0
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(pthread_cancel(thread), 0);
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
        assert_eq!(result.addr(), usize::MAX, "PTHREAD_CANCELED");
        rdma_destroy_event_channel(channel);
    }
}
