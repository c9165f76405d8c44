//! Endpoints and ids without a channel, whose calls wait for their events themselves.

use std::net::SocketAddr;
use std::ptr::null_mut;

use libc::{ECONNREFUSED, EINVAL, c_int};
use uroce_ibverbs::object::zeroed;
use uroce_verbs_abi::*;

use super::states::errno;
use super::{address, listener};
use crate::channel::{rdma_create_event_channel, rdma_destroy_event_channel};
use crate::connection::{rdma_accept, rdma_connect, rdma_disconnect, rdma_reject};
use crate::create::rdma_create_id;
use crate::destroy::rdma_destroy_id;
use crate::endpoint::{rdma_create_ep, rdma_destroy_ep, rdma_get_request};
use crate::id::rdma_get_src_port;
use crate::listen::rdma_listen;
use crate::migrate::rdma_migrate_id;
use crate::sockaddr;

/// An id that may be used by another thread.
#[derive(Clone, Copy)]
struct Id(*mut rdma_cm_id);

// SAFETY: ids may be used by any thread.
unsafe impl Send for Id {}

impl Id {
    /// Whole, also in a closure.
    fn get(self) -> *mut rdma_cm_id {
        self.0
    }
}

fn init() -> ibv_qp_init_attr {
    // SAFETY: integers and null pointers.
    let mut init: ibv_qp_init_attr = unsafe { zeroed() };
    // The type of the address counts, not this one.
    init.qp_type = IBV_QPT_UD;
    (init.cap.max_send_wr, init.cap.max_recv_wr) = (4, 4);
    (init.cap.max_send_sge, init.cap.max_recv_sge) = (1, 1);
    init
}

/// An endpoint; the errno value if there is none.
fn endpoint(
    source: Option<&str>,
    peer: Option<SocketAddr>,
    flags: c_int,
    init: Option<&mut ibv_qp_init_attr>,
) -> Result<Id, c_int> {
    let (mut from, mut to) = (source.map(address), peer.map(sockaddr::write));
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let mut info: rdma_addrinfo = zeroed();
        (info.ai_flags, info.ai_port_space, info.ai_qp_type) = (flags, RDMA_PS_TCP, IBV_QPT_RC);
        info.ai_src_addr = from.as_mut().map_or(null_mut(), |from| (&raw mut *from).cast());
        info.ai_dst_addr = to.as_mut().map_or(null_mut(), |to| (&raw mut *to).cast());
        let init = init.map_or(null_mut(), |init| &raw mut *init);
        let mut id = null_mut();
        match rdma_create_ep(&raw mut id, &raw mut info, null_mut(), init) {
            0 => Ok(Id(id)),
            _ => {
                assert!(id.is_null(), "nothing is left behind");
                Err(errno())
            }
        }
    }
}

/// A listening endpoint, and where it listens.
fn listening(text: &str, init: Option<&mut ibv_qp_init_attr>) -> (Id, SocketAddr) {
    let id = endpoint(Some(text), None, RAI_PASSIVE, init).expect("a free port");
    // SAFETY: as the manual pages want it.
    let port = unsafe {
        assert_eq!(rdma_listen(id.0, 4), 0);
        u16::from_be(rdma_get_src_port(id.0))
    };
    let ip = text.parse::<SocketAddr>().expect("an address").ip();
    (id, SocketAddr::new(ip, port))
}

fn request(listener: Id) -> *mut rdma_cm_id {
    let mut called = null_mut();
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { rdma_get_request(listener.0, &raw mut called) }, 0);
    called
}

#[test]
fn two_endpoints_connect_and_their_calls_wait() {
    let (server, at) = listening("127.47.100.1:0", Some(&mut init()));
    let mut wanted = init();
    let client = endpoint(Some("127.47.100.2:0"), Some(at), 0, Some(&mut wanted)).expect("a way");
    assert_eq!(wanted.qp_type, IBV_QPT_RC, "that of the address");
    // SAFETY: as the manual pages want it.
    unsafe {
        assert!(!(*client.0).qp.is_null());
        let calling = std::thread::spawn(move || rdma_connect(client.get(), null_mut()));
        let called = request(server);
        assert!(!(*called).qp.is_null(), "as the listener was told");
        assert_eq!((*(*called).qp).qp_type, IBV_QPT_RC);
        assert_eq!((*(*called).event).event, RDMA_CM_EVENT_CONNECT_REQUEST, "it is kept");
        assert_ne!((*called).channel, (*server.0).channel, "the listener may go first");
        assert_eq!(rdma_accept(called, null_mut()), 0);
        assert_eq!(calling.join().expect("no panic"), 0);
        for id in [client.0, called] {
            assert_eq!((*(*id).event).event, RDMA_CM_EVENT_ESTABLISHED);
            assert_eq!((*(*id).qp).state, IBV_QPS_RTS);
        }
        rdma_destroy_ep(server.0);
        assert_eq!(rdma_disconnect(client.0), 0);
        assert_eq!((*(*client.0).event).event, RDMA_CM_EVENT_DISCONNECTED);
        rdma_destroy_ep(client.0);
        rdma_destroy_ep(called);
    }
}

#[test]
fn a_call_that_is_rejected_fails_in_its_caller() {
    let (server, at) = listening("127.47.100.3:0", None);
    let client = endpoint(Some("127.47.100.4:0"), Some(at), 0, Some(&mut init())).expect("a way");
    // SAFETY: as the manual pages want it.
    unsafe {
        let calling = std::thread::spawn(move || (rdma_connect(client.get(), null_mut()), errno()));
        let called = request(server);
        assert!((*called).qp.is_null(), "the listener was told of none");
        assert_eq!(rdma_reject(called, b"no".as_ptr().cast(), 2), 0);
        assert_eq!(calling.join().expect("no panic"), (-1, ECONNREFUSED));
        let event = &*(*client.0).event;
        assert_eq!((event.event, event.status), (RDMA_CM_EVENT_REJECTED, 28), "why is kept");
        [called, client.0, server.0].into_iter().for_each(|id| rdma_destroy_ep(id));
    }
}

#[test]
fn endpoints_that_cannot_be_are_not_made() {
    let nowhere = "192.0.2.1:0";
    let at: SocketAddr = "127.47.100.5:7".parse().expect("an address");
    assert_eq!(endpoint(None, None, 0, None).err(), Some(EINVAL), "no peer");
    assert_eq!(endpoint(None, None, RAI_PASSIVE, None).err(), Some(EINVAL), "no address");
    let foreign = endpoint(Some(nowhere), None, RAI_PASSIVE, None).err();
    assert_eq!(foreign, Some(libc::ENODEV), "not of this machine");
    assert_eq!(endpoint(Some(nowhere), Some(at), 0, None).err(), Some(libc::ENODEV));
    let mut large = init();
    large.cap.max_send_wr = u32::MAX;
    let refused = endpoint(Some("127.47.100.6:0"), Some(at), 0, Some(&mut large)).err();
    assert_eq!(refused, Some(EINVAL), "no such queue pair");
    let plain = endpoint(Some("127.47.100.6:0"), Some(at), 0, None).expect("a way");
    // SAFETY: an id, which is not used afterwards; null is checked.
    unsafe {
        assert!((*plain.0).qp.is_null(), "none was asked for");
        assert_eq!((*(*plain.0).event).event, RDMA_CM_EVENT_ROUTE_RESOLVED);
        rdma_destroy_ep(plain.0);
        rdma_destroy_ep(null_mut());
    }
}

#[test]
fn requests_are_fetched_from_listeners_that_wait() {
    let (end, _) = listener("127.47.100.7:0");
    let mut called = null_mut();
    // SAFETY: as the manual pages want it; null is checked.
    unsafe {
        assert_eq!((rdma_get_request(end.id, &raw mut called), errno()), (-1, EINVAL));
        assert_eq!((rdma_get_request(end.id, null_mut()), errno()), (-1, EINVAL));
        assert!(called.is_null(), "its requests come as events");
    }
    end.end();
}

#[test]
fn a_request_whose_queue_pair_cannot_be_made_is_refused() {
    let mut large = init();
    large.cap.max_send_wr = u32::MAX;
    let (server, at) = listening("127.47.100.13:0", Some(&mut large));
    let client = endpoint(Some("127.47.100.14:0"), Some(at), 0, Some(&mut init())).expect("a way");
    let calling = std::thread::spawn(move || {
        // SAFETY: as the manual page wants it.
        unsafe { (rdma_connect(client.get(), null_mut()), errno()) }
    });
    let mut called = null_mut();
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!((rdma_get_request(server.0, &raw mut called), errno()), (-1, EINVAL));
        assert!(called.is_null());
        assert_eq!(calling.join().expect("no panic"), (-1, ECONNREFUSED), "it does not wait");
        [client.0, server.0].into_iter().for_each(|id| rdma_destroy_ep(id));
    }
}

#[test]
fn requests_come_in_the_order_of_the_calls() {
    let (server, at) = listening("127.47.100.8:0", None);
    let channel = rdma_create_event_channel();
    let mut clients = Vec::new();
    for number in 0..3_u8 {
        let from = format!("127.47.100.{}:0", 9 + number);
        let client = endpoint(Some(&from), Some(at), 0, Some(&mut init())).expect("a way");
        // SAFETY: integers and a pointer; the calls as the manual pages want them.
        unsafe {
            assert_eq!(rdma_migrate_id(client.0, channel), 0, "its call does not wait now");
            let mut param: rdma_conn_param = zeroed();
            (param.private_data, param.private_data_len) = ((&raw const number).cast(), 1);
            assert_eq!(rdma_connect(client.0, &raw mut param), 0);
            let called = request(server);
            let conn = (*(*called).event).param.conn;
            assert_eq!(*conn.private_data.cast::<u8>(), number);
            clients.extend([client.0, called]);
        }
    }
    // SAFETY: nothing is used afterwards.
    unsafe {
        clients.into_iter().for_each(|id| rdma_destroy_ep(id));
        rdma_destroy_ep(server.0);
        rdma_destroy_event_channel(channel);
    }
}

#[test]
fn an_id_without_a_channel_has_one_of_its_own() {
    let (mut one, mut two) = (null_mut(), null_mut());
    // SAFETY: as the manual pages want it.
    unsafe {
        let context = 0x55 as *mut libc::c_void;
        assert_eq!(rdma_create_id(null_mut(), &raw mut one, context, RDMA_PS_TCP), 0);
        assert_eq!(rdma_create_id(null_mut(), &raw mut two, null_mut(), RDMA_PS_UDP), 0);
        assert!(!(*one).channel.is_null() && (*one).channel != (*two).channel);
        assert_eq!(((*one).context, (*one).ps, (*two).qp_type), (context, RDMA_PS_TCP, IBV_QPT_UD));
        assert!((*one).event.is_null() && (*one).verbs.is_null() && (*one).qp.is_null());
        assert_eq!((rdma_destroy_id(one), rdma_destroy_id(two)), (0, 0));
    }
}
