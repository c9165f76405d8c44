//! How many multicast groups a packet socket can be a member of.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use uroce_datapath::Datapath;
use uroce_packet::{PacketConfig, PacketDatapath};
use uroce_testkit::namespace::{Namespace, Wire};

/// Groups that the program of a packet socket can tell apart.
const MOST: u16 = 128;

fn open(namespace: &Namespace, ip: &str) -> PacketDatapath {
    let config = PacketConfig::new(SocketAddr::new(ip.parse().expect("address"), 4791));
    namespace.run(move || PacketDatapath::open(&config)).expect("opens")
}

#[test]
fn one_group_more_than_the_filter_tells_apart_is_refused_until_another_is_left() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut path = open(&wire.a, "fd77::1");
    let group = |n: u16| IpAddr::from([0xff12, 0, 0, 0, 0, 0, 1, n]);
    (0..MOST).for_each(|n| path.join(group(n)).expect("room"));
    path.join(group(0)).expect("a member already");
    let error = path.join(group(MOST)).expect_err("no room");
    assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    assert!(error.to_string().contains("128 multicast groups are the limit"), "{error}");
    path.leave(group(MOST)).expect("nothing to leave");
    path.leave(group(5)).expect("a member");
    path.join(group(MOST)).expect("room again");
}

#[test]
fn the_limit_of_the_kernel_names_its_setting() {
    let Some(wire) = Wire::new(1500) else { return };
    wire.a.sh("sysctl -q net.ipv4.igmp_max_memberships=3");
    let mut path = open(&wire.a, "10.77.0.1");
    let group = |n: u8| IpAddr::from([239, 1, 2, n]);
    (0..3).for_each(|n| path.join(group(n)).expect("room"));
    let error = path.join(group(3)).expect_err("the kernel's limit");
    assert!(error.to_string().contains("net.ipv4.igmp_max_memberships"), "{error}");
    path.leave(group(0)).expect("a member");
    path.join(group(3)).expect("room again");
}

#[test]
fn what_is_no_group_of_the_ip_version_is_refused() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut path = open(&wire.a, "10.77.0.1");
    for address in ["10.77.0.2", "ff12::1", "255.255.255.255"] {
        let error = path.join(address.parse().expect("address")).expect_err("no group");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{address}: {error}");
    }
}

/// It would be given a copy of every packet, and read none.
#[test]
fn v6_a_child_that_lives_on_keeps_no_packet_socket_open() {
    let Some(wire) = Wire::new(1500) else { return };
    let path = open(&wire.a, "10.77.0.1");
    let waiter = path.waiter().expect("a descriptor");
    // SAFETY: the child calls nothing but pause(2), which it may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: it takes no arguments.
            unsafe { libc::pause() };
        }
    }
    drop((path, waiter));
    let list = || std::fs::read_to_string("/proc/thread-self/net/packet").expect("shown");
    let sockets = || wire.a.run(list);
    // A command that another test starts has copies of all descriptors for a moment.
    let end = Instant::now() + Duration::from_secs(2);
    while sockets().lines().count() > 1 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = sockets();
    // SAFETY: a child of ours, which nobody has waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(left.lines().count(), 1, "{left}");
}
