//! Connections, called as C programs call them.

use super::abi::*;
use super::channel::{rdma_ack_cm_event, rdma_get_cm_event};
use super::channel::{rdma_create_event_channel, rdma_destroy_event_channel};
use super::connection::{rdma_accept, rdma_connect, rdma_disconnect, rdma_listen, rdma_reject};
use super::id::{rdma_bind_addr, rdma_create_id, rdma_destroy_id, rdma_get_src_port};
use super::queue_pair::{rdma_create_qp, rdma_destroy_qp};
use super::resolve::{rdma_resolve_addr, rdma_resolve_route};
use super::sockaddr;
use crate::abi::{ibv_qp_cap, ibv_qp_init_attr};
use crate::object::zeroed;
use libc::{c_int, sockaddr_storage};
use std::net::SocketAddr;
use std::ptr::null_mut;

const TCP: c_int = 0x106;
const RC: c_int = 2;
const CONNECT_REQUEST: c_int = 4;
const REJECTED: c_int = 8;
const ESTABLISHED: c_int = 9;
const DISCONNECTED: c_int = 10;

/// A channel and an id on it.
struct End {
    channel: *mut rdma_event_channel,
    id: *mut rdma_cm_id,
}

impl End {
    fn new() -> End {
        let channel = rdma_create_event_channel();
        let mut id = null_mut();
        // SAFETY: as the manual pages want it.
        assert_eq!(unsafe { rdma_create_id(channel, &raw mut id, null_mut(), TCP) }, 0);
        End { channel, id }
    }

    /// Takes the next event, which must be of this type; returns the id that it is about.
    fn expect(&self, wanted: c_int) -> *mut rdma_cm_id {
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
    fn resolve(&self, from: &str, peer: SocketAddr) {
        let (mut from, mut to) = (address(from), sockaddr::write(peer));
        // SAFETY: as the manual pages want it.
        unsafe {
            let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
            assert_eq!(rdma_resolve_addr(self.id, from, to, 1000), 0);
            self.expect(0);
            assert_eq!(rdma_resolve_route(self.id, 1000), 0);
            self.expect(2);
        }
        make_qp(self.id);
    }

    fn end(self) {
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

fn address(text: &str) -> sockaddr_storage {
    sockaddr::write(text.parse().expect("an address"))
}

/// A queue pair with completion queues of its own.
fn make_qp(id: *mut rdma_cm_id) {
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
fn listener(text: &str) -> (End, SocketAddr) {
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
