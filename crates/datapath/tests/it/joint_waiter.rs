//! A descriptor for two places at once.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use uroce_datapath::{Datapath, JointWaiter, LoopbackFabric, Route};

#[test]
fn it_is_readable_when_either_of_the_two_is() {
    let fabric = LoopbackFabric::new();
    let [a, b] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 4791)));
    let mut from = fabric.attach(a).expect("free");
    let mut inner = fabric.attach(b).expect("free");
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
    let joint = JointWaiter::new(&inner, &event).expect("descriptors");
    let waiter = joint.waiter().expect("a descriptor");
    let readable = || {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&now)).expect("poll") == 1
    };
    assert!(!readable());
    rustix::io::write(&event, &1u64.to_ne_bytes()).expect("written");
    assert!(readable());
    rustix::io::read(&event, &mut [0; 8]).expect("read");
    assert!(!readable());

    assert!(!inner.arm());
    from.tx_space().expect("room")[0] = 1;
    let route = Route { src: a, dst: b, hop_limit: 1, traffic_class: 0 };
    from.tx_commit(&route, 1, &mut |_, _| ());
    from.flush().expect("flush");
    assert!(readable());
    assert_eq!(inner.recv(9, &mut |_| ()).expect("recv"), 1);
    assert!(!inner.arm() && !readable());
}

#[test]
fn each_waiter_is_a_descriptor_of_its_own_and_outlives_the_others() {
    let fabric = LoopbackFabric::new();
    let inner = fabric.attach(([10, 0, 0, 1], 4791).into()).expect("free");
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
    let joint = JointWaiter::new(&inner, &event).expect("descriptors");
    let [first, second] = [(); 2].map(|()| joint.waiter().expect("a descriptor"));
    assert_ne!(first.as_raw_fd(), second.as_raw_fd());
    drop(first);
    rustix::io::write(&event, &1u64.to_ne_bytes()).expect("written");
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&second, PollFlags::IN)], Some(&now));
    assert_eq!(ready, Ok(1));
}
