//! What C programs rely on, called as they call it.

use std::net::{IpAddr, Ipv4Addr};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libc::{c_int, c_void};
use uroce_device::interface_of;
use uroce_device::wire::Gid;

use crate::abi::*;
use crate::async_event::{ibv_ack_async_event, ibv_get_async_event};
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::cq::{poll_cq, req_notify_cq};
use crate::cq_create::{ibv_create_cq, ibv_destroy_cq};
use crate::cq_event::{ibv_ack_cq_events, ibv_get_cq_event};
use crate::device_list::device_of;
use crate::mr::{ibv_dereg_mr, ibv_reg_mr, ibv_rereg_mr};
use crate::object::zeroed;
use crate::open::{ibv_close_device, ibv_open_device};
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use crate::post_recv::post_recv;
use crate::post_send::post_send;
use crate::qp_attr::ibv_modify_qp;
use crate::qp_create::{ibv_create_qp, ibv_destroy_qp};

pub(crate) const LOCAL_WRITE: c_int = 1;
pub(crate) const SIGNALED: u32 = 2;
const REMOTE_WRITE: u32 = 2;
const SEND: c_int = 2;
const RC: c_int = 2;
const CHANGE_TRANSLATION: c_int = 1;
const CHANGE_ACCESS: c_int = 4;

/// A context, and one object of each kind.
pub(crate) struct World {
    pub(crate) address: IpAddr,
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) cq: *mut ibv_cq,
    pub(crate) qp: *mut ibv_qp,
    pub(crate) buffer: Box<[u8; 64]>,
    pub(crate) mr: *mut ibv_mr,
}

/// An open context, on an address that no other test has objects on.
pub(crate) fn opened(last: u8) -> *mut ibv_context {
    let address = IpAddr::V4(Ipv4Addr::new(127, 47, 92, last));
    // SAFETY: as the manual page wants it.
    unsafe { ibv_open_device(device_of(interface_of(address).expect("127.0.0.0/8 is local"))) }
}

/// On an address of the test's own: tests run at the same time.
pub(crate) fn world(last: u8) -> World {
    world_on(IpAddr::V4(Ipv4Addr::new(127, 47, 92, last)))
}

/// On an address of this machine.
pub(crate) fn world_on(address: IpAddr) -> World {
    let mut buffer = Box::new([0u8; 64]);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let device = device_of(interface_of(address).expect("127.0.0.0/8 is local"));
        let context = ibv_open_device(device);
        let pd = ibv_alloc_pd(context);
        let channel = ibv_create_comp_channel(context);
        let cq = ibv_create_cq(context, 16, 7 as *mut c_void, channel, 0);
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.qp_type) = (cq, cq, RC);
        init.cap = ibv_qp_cap {
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let qp = ibv_create_qp(pd, &raw mut init);
        let mr = ibv_reg_mr(pd, buffer.as_mut_ptr().cast(), 64, LOCAL_WRITE);
        assert!(!qp.is_null() && !mr.is_null(), "every object was made");
        World { address, context, pd, channel, cq, qp, buffer, mr }
    }
}

impl World {
    /// Connects the queue pair with itself.
    pub(crate) fn connect(&self) {
        const INIT: c_int = 1 | 1 << 3 | 1 << 4 | 1 << 5;
        const RTR: c_int = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
        const RTS: c_int = 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;
        // SAFETY: all calls as the manual pages want them.
        unsafe {
            let mut attr: ibv_qp_attr = zeroed();
            (attr.path_mtu, attr.dest_qp_num, attr.timeout, attr.retry_cnt) =
                (3, (*self.qp).qp_num, 14, 7);
            (attr.port_num, attr.max_rd_atomic, attr.max_dest_rd_atomic) = (1, 1, 1);
            attr.qp_access_flags = REMOTE_WRITE;
            (attr.ah_attr.port_num, attr.ah_attr.is_global) = (1, 1);
            attr.ah_attr.grh.dgid = ibv_gid::from_gid(Gid::from_ip(self.address));
            for (state, mask) in [(1, INIT), (2, RTR), (3, RTS)] {
                attr.qp_state = state;
                assert_eq!(ibv_modify_qp(self.qp, &raw mut attr, mask), 0, "to state {state}");
                assert_eq!((*self.qp).state, state);
            }
        }
    }

    pub(crate) fn sge(&self, offset: u64, length: u32) -> ibv_sge {
        // SAFETY: it lives as long as the world.
        let lkey = unsafe { (*self.mr).lkey };
        ibv_sge { addr: self.buffer.as_ptr() as u64 + offset, length, lkey }
    }

    pub(crate) fn send(&self, sge: &mut ibv_sge, next: *mut ibv_send_wr) -> ibv_send_wr {
        // SAFETY: integers and null pointers.
        let mut wr: ibv_send_wr = unsafe { zeroed() };
        (wr.wr_id, wr.opcode, wr.send_flags, wr.num_sge) = (1, SEND, SIGNALED, 1);
        (wr.sg_list, wr.next) = (sge, next);
        wr
    }

    pub(crate) fn poll(&self) -> ibv_wc {
        let mut wc = ibv_wc::default();
        let end = Instant::now() + Duration::from_secs(20);
        // SAFETY: one completion.
        while unsafe { poll_cq(self.cq, 1, &raw mut wc) } == 0 {
            assert!(Instant::now() < end, "no completion came");
        }
        wc
    }

    /// Destroys everything in the right order; each step must succeed.
    pub(crate) fn end(self) {
        // SAFETY: nothing is used afterwards.
        unsafe {
            assert_eq!(ibv_destroy_qp(self.qp), 0);
            assert_eq!(ibv_destroy_cq(self.cq), 0);
            assert_eq!(ibv_destroy_comp_channel(self.channel), 0);
            assert_eq!(ibv_dereg_mr(self.mr), 0);
            assert_eq!(ibv_dealloc_pd(self.pd), 0);
            assert_eq!(ibv_close_device(self.context), 0);
        }
    }
}

#[test]
fn r93_what_is_in_use_is_not_destroyed() {
    let world = world(1);
    // SAFETY: refused calls destroy nothing.
    unsafe {
        assert_eq!(ibv_dealloc_pd(world.pd), libc::EBUSY);
        assert_eq!(ibv_destroy_cq(world.cq), libc::EBUSY);
        assert_eq!(ibv_destroy_comp_channel(world.channel), libc::EBUSY);
    }
    world.end();
}

#[test]
fn null_is_refused() {
    // SAFETY: the library checks for null.
    unsafe {
        assert!(ibv_open_device(null_mut()).is_null());
        assert!(ibv_alloc_pd(null_mut()).is_null());
        assert!(ibv_create_cq(null_mut(), 1, null_mut(), null_mut(), 0).is_null());
        assert!(ibv_create_qp(null_mut(), null_mut()).is_null());
        assert_eq!(ibv_dealloc_pd(null_mut()), libc::EINVAL);
        assert_eq!(ibv_destroy_cq(null_mut()), libc::EINVAL);
        assert_eq!(ibv_destroy_qp(null_mut()), libc::EINVAL);
        assert_eq!(ibv_dereg_mr(null_mut()), libc::EINVAL);
        assert_eq!(ibv_close_device(null_mut()), -1);
        assert_eq!(poll_cq(null_mut(), 1, null_mut()), -libc::EINVAL);
    }
}

/// Two pages that can be read and not written.
struct ReadOnly(*mut c_void);

impl ReadOnly {
    const LENGTH: usize = 8192;

    fn new() -> ReadOnly {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let pages = unsafe { libc::mmap(null_mut(), Self::LENGTH, libc::PROT_READ, flags, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED);
        ReadOnly(pages)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        unsafe { libc::munmap(self.0, Self::LENGTH) };
    }
}

fn errno() -> Option<c_int> {
    std::io::Error::last_os_error().raw_os_error()
}

#[test]
fn v3_memory_that_cannot_be_written_is_registered_for_reading_only() {
    let (world, pages) = (world(9), ReadOnly::new());
    // SAFETY: the call finds out what the memory is.
    unsafe {
        for access in [LOCAL_WRITE, LOCAL_WRITE | REMOTE_WRITE as c_int] {
            assert!(ibv_reg_mr(world.pd, pages.0, ReadOnly::LENGTH, access).is_null());
            assert_eq!(errno(), Some(libc::EFAULT));
        }
        let mr = ibv_reg_mr(world.pd, pages.0, ReadOnly::LENGTH, 0);
        assert!(!mr.is_null(), "programs fall back to this");
        assert_eq!(ibv_rereg_mr(mr, CHANGE_ACCESS, null_mut(), null_mut(), 0, LOCAL_WRITE), -1);
        assert_eq!(errno(), Some(libc::EFAULT));
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    world.end();
}

#[test]
fn v3_a_region_that_is_written_to_does_not_move_to_memory_that_cannot_be() {
    let (world, pages) = (world(10), ReadOnly::new());
    let rereg = |flags, access| {
        // SAFETY: the call finds out what the memory is.
        unsafe { ibv_rereg_mr(world.mr, flags, null_mut(), pages.0, ReadOnly::LENGTH, access) }
    };
    for (flags, access) in [(CHANGE_TRANSLATION, 0), (CHANGE_TRANSLATION | CHANGE_ACCESS, 1)] {
        assert_eq!((rereg(flags, access), errno()), (-1, Some(libc::EFAULT)));
    }
    assert_eq!(rereg(CHANGE_TRANSLATION | CHANGE_ACCESS, 0), 0, "it is read only from now on");
    assert_eq!(rereg(CHANGE_TRANSLATION, 0), 0);
    world.end();
}

#[test]
fn v3_a_region_has_a_length() {
    let world = world(13);
    let buffer = world.buffer.as_ptr().cast_mut().cast();
    // SAFETY: as the manual page wants it.
    assert!(unsafe { ibv_reg_mr(world.pd, buffer, 0, LOCAL_WRITE) }.is_null());
    assert_eq!(errno(), Some(libc::EINVAL));
    world.end();
}

#[test]
fn memory_that_is_not_there_is_not_registered() {
    let world = world(2);
    // SAFETY: page 1 is not mapped, and the call finds that out.
    let mr = unsafe { ibv_reg_mr(world.pd, 4096 as *mut c_void, 4096, LOCAL_WRITE) };
    assert!(mr.is_null());
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
    world.end();
}

#[test]
fn r117_memory_is_not_registered_for_a_flush_to_persistence() {
    const FLUSH_GLOBAL: c_int = 1 << 8;
    const FLUSH_PERSISTENT: c_int = 1 << 9;
    let mut world = world(11);
    let addr = world.buffer.as_mut_ptr().cast();
    // SAFETY: the buffer lives as long as the world.
    unsafe {
        let mr = ibv_reg_mr(world.pd, addr, 64, LOCAL_WRITE | FLUSH_GLOBAL | FLUSH_PERSISTENT);
        assert!(mr.is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        let mr = ibv_reg_mr(world.pd, addr, 64, LOCAL_WRITE | FLUSH_GLOBAL);
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    world.end();
}

#[test]
fn b36_the_request_that_is_refused_is_named() {
    let world = world(3);
    world.connect();
    let (mut good, mut bad) = (world.sge(0, 4), world.sge(0, 4));
    let mut second = world.send(&mut bad, null_mut());
    second.num_sge = 2;
    let mut first = world.send(&mut good, &raw mut second);
    let mut named = null_mut();
    // SAFETY: a list of two.
    let done = unsafe { post_send(world.qp, &raw mut first, &raw mut named) };
    assert_eq!((done, named), (libc::EINVAL, &raw mut second));
    world.end();
}

#[test]
fn a_message_to_oneself_arrives_and_raises_an_event() {
    let mut world = world(4);
    world.connect();
    world.buffer[..5].copy_from_slice(b"hello");
    let (mut from, mut to) = (world.sge(0, 5), world.sge(32, 32));
    let mut recv = ibv_recv_wr { wr_id: 2, next: null_mut(), sg_list: &mut to, num_sge: 1 };
    let mut send = world.send(&mut from, null_mut());
    let (mut cq, mut cookie) = (null_mut(), null_mut());
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        assert_eq!(req_notify_cq(world.cq, 0), 0);
        assert_eq!(post_recv(world.qp, &raw mut recv, &mut null_mut()), 0);
        assert_eq!(post_send(world.qp, &raw mut send, &mut null_mut()), 0);
        assert_eq!(ibv_get_cq_event(world.channel, &raw mut cq, &raw mut cookie), 0);
        assert_eq!((cq, cookie), (world.cq, 7 as *mut c_void));
        ibv_ack_cq_events(cq, 1);
        assert_eq!((*cq).comp_events_completed, 1);
    }
    let mut done = [world.poll(), world.poll()].map(|wc| (wc.wr_id, wc.status, wc.byte_len));
    done.sort_unstable();
    assert_eq!((done[0].0, done[0].1), (1, 0));
    assert_eq!(done[1], (2, 0, 5));
    // SAFETY: the memory is the test's own, read as a program reads what a NIC has written.
    let heard = unsafe { world.buffer.as_ptr().add(32).cast::<[u8; 5]>().read_volatile() };
    assert_eq!(&heard, b"hello");
    world.end();
}

#[test]
fn a_call_does_not_wait_if_the_program_says_so() {
    let world = world(5);
    let (mut cq, mut cookie) = (null_mut(), null_mut());
    // SAFETY: descriptors that live, and calls as the manual pages want them.
    unsafe {
        for fd in [(*world.channel).fd, (*world.context).async_fd] {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            assert_eq!(flags & libc::O_NONBLOCK, 0, "a new descriptor blocks");
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        assert_eq!(ibv_get_cq_event(world.channel, &raw mut cq, &raw mut cookie), -1);
        let mut event: ibv_async_event = zeroed();
        assert_eq!(ibv_get_async_event(world.context, &raw mut event), -1);
    }
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
    world.end();
}

#[test]
fn an_error_of_a_queue_pair_is_an_event_of_its_context() {
    const WRITE: c_int = 0;
    const ACCESS_ERR: c_int = 3;
    let world = world(6);
    world.connect();
    let mut from = world.sge(0, 4);
    let mut write = world.send(&mut from, null_mut());
    write.opcode = WRITE;
    write.wr = wr_union { rdma: rdma_wr { remote_addr: 0, rkey: 0 } };
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        assert_eq!(post_send(world.qp, &raw mut write, &mut null_mut()), 0);
        assert_ne!(world.poll().status, 0);
        let mut event: ibv_async_event = zeroed();
        assert_eq!(ibv_get_async_event(world.context, &raw mut event), 0);
        assert_eq!((event.element, event.event_type), (world.qp.cast(), ACCESS_ERR));
        ibv_ack_async_event(&raw mut event);
        assert_eq!((*world.qp).events_completed, 1);
    }
    world.end();
}

#[test]
fn two_contexts_share_the_device_and_the_last_one_closes_it() {
    let first = world(7);
    let second = world(7);
    first.end();
    second.end();
    world(7).end();
}

/// Arms a queue of its own and lets a request fail, so that an event comes; then destroys both.
fn raise_and_destroy(world: &World, cookie: usize, before_the_end: impl FnOnce()) {
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let cookie = std::ptr::without_provenance_mut(cookie);
        let cq = ibv_create_cq(world.context, 4, cookie, world.channel, 0);
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.qp_type) = (cq, cq, RC);
        (init.cap.max_send_wr, init.cap.max_send_sge) = (1, 1);
        let qp = ibv_create_qp(world.pd, &raw mut init);
        let one = World { cq, qp, buffer: Box::new([0; 64]), ..*world };
        one.connect();
        assert_eq!(req_notify_cq(cq, 0), 0);
        let mut nobodys = ibv_sge { lkey: 1, ..one.sge(0, 4) };
        let mut send = one.send(&mut nobodys, null_mut());
        assert_eq!(post_send(qp, &raw mut send, &mut null_mut()), 0);
        before_the_end();
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_cq(cq)), (0, 0));
    }
}

/// Fetches events until one bears the cookie 8; all others must bear 7.
fn fetch_until_8(channel: usize) {
    let channel: *mut ibv_comp_channel = std::ptr::with_exposed_provenance_mut(channel);
    let (mut cq, mut cookie) = (null_mut(), null_mut::<c_void>());
    while cookie.addr() != 8 {
        // SAFETY: as the manual page wants it; the queue is there until its event is acknowledged.
        unsafe {
            assert_eq!(ibv_get_cq_event(channel, &raw mut cq, &raw mut cookie), 0);
            assert_eq!(((*cq).channel, (*cq).cq_context), (channel, cookie));
            ibv_ack_cq_events(cq, 1);
        }
        assert!([7, 8].contains(&cookie.addr()), "{cookie:?}");
    }
}

#[test]
fn v2_a_queue_is_destroyed_while_others_fetch_events() {
    let world = world(8);
    let channel = world.channel.expose_provenance();
    let fetchers = [(); 2].map(|()| std::thread::spawn(move || fetch_until_8(channel)));
    (0..300).for_each(|_| raise_and_destroy(&world, 7, || ()));
    for ended in 1..=fetchers.len() {
        let all = || fetchers.iter().filter(|fetcher| fetcher.is_finished()).count();
        raise_and_destroy(&world, 8, || {
            while all() < ended {
                std::thread::yield_now();
            }
        });
    }
    for fetcher in fetchers {
        fetcher.join().expect("no event of a queue that is gone");
    }
    world.end();
}
