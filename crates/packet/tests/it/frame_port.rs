//! One interface, frame by frame, in network namespaces.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use uroce_packet::{FramePort, FramePortError, FrameReceiver, FrameSender, Offload};
use uroce_testkit::namespace::{Namespace, Wire};

/// An Ethertype for experiments (IEEE 802): nobody else sends it.
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

const A: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

fn open(namespace: &Namespace, name: &'static str) -> FramePort {
    namespace.run(move || FramePort::open(name)).expect("opens")
}

/// A frame from `wa` to `to` with `tag` in front of its Ethertype.
fn frame(to: [u8; 6], tag: &[u8], payload: &[u8]) -> Vec<u8> {
    [&to[..], &A, tag, &EXPERIMENT, payload].concat()
}

/// What is there now of the frames of these tests.
fn there(receiver: &mut FrameReceiver) -> Vec<Vec<u8>> {
    let mut seen = vec![];
    receiver
        .recv(&mut |frame| {
            let tagged = frame.bytes.get(16..18) == Some(&EXPERIMENT);
            if tagged || frame.bytes.get(12..14) == Some(&EXPERIMENT) {
                assert!(frame.offload.is_none() && frame.offload.is_one_packet());
                seen.push(frame.bytes.to_vec());
            }
        })
        .expect("the socket is usable");
    seen
}

/// So many frames of these tests.
fn receive(receiver: &mut FrameReceiver, count: usize) -> Vec<Vec<u8>> {
    let (mut seen, end) = (vec![], Instant::now() + Duration::from_secs(10));
    while seen.len() < count {
        assert!(Instant::now() < end, "{} of {count}", seen.len());
        let wait = Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::new(&receiver.waiter(), PollFlags::IN)], Some(&wait)).expect("poll");
        seen.extend(there(receiver));
    }
    seen
}

#[test]
fn frames_to_any_hardware_address_arrive_as_they_were_sent_and_ours_do_not_come_back() {
    let Some(wire) = Wire::new(1500) else { return };
    let (mut a, mut b) = (open(&wire.a, "wa"), open(&wire.b, "wb"));
    let sent: Vec<_> = [B, [0xff; 6], [2, 9, 9, 9, 9, 9], [0x33, 0x33, 0, 0, 0, 1]]
        .map(|to| frame(to, &[], &[to[5]; 46]))
        .into();
    for frame in &sent {
        a.sender.send(&Offload::NONE, frame).expect("usable");
    }
    assert_eq!(receive(&mut b.receiver, sent.len()), sent);
    assert!(there(&mut a.receiver).is_empty(), "what this host sends is not received");
    assert_eq!((a.sender.sent(), a.sender.lost()), (4, 0));
    assert!(b.receiver.received() >= 4 && b.receiver.lost() == 0);
    assert_eq!((a.sender.name(), a.sender.hardware_address(), a.sender.mtu()), ("wa", A, 1500));
    assert_eq!(a.sender.last_problem(), None);
}

#[test]
fn vlan_tags_of_both_kinds_are_in_the_frame_again() {
    let Some(wire) = Wire::new(1500) else { return };
    let (mut a, mut b) = (open(&wire.a, "wa"), open(&wire.b, "wb"));
    for tag in [[0x81, 0, 0x60, 7], [0x88, 0xa8, 0x0f, 0xff]] {
        let sent = frame(B, &tag, &[7; 60]);
        a.sender.send(&Offload::NONE, &sent).expect("usable");
        assert_eq!(receive(&mut b.receiver, 1), [sent], "{tag:x?}");
    }
}

#[test]
fn more_frames_than_one_system_call_takes_keep_their_order() {
    let Some(wire) = Wire::new(1500) else { return };
    let (mut a, mut b) = (open(&wire.a, "wa"), open(&wire.b, "wb"));
    let sent: Vec<_> = (0..100).map(|number| frame(B, &[], &[number; 50])).collect();
    for frame in &sent {
        a.sender.send(&Offload::NONE, frame).expect("usable");
    }
    assert_eq!(receive(&mut b.receiver, 100), sent);
}

#[test]
fn a_frame_that_is_not_taken_is_counted_and_the_reason_says_what_to_do() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut a = open(&wire.a, "wa").sender;
    a.send(&Offload::NONE, &frame(B, &[], &[0; 1600])).expect("usable");
    assert_eq!((a.sent(), a.lost()), (0, 1));
    let problem = a.last_problem().expect("a reason");
    assert!(problem.contains("longer than wa takes") && problem.contains("1500"), "{problem}");
    a.send(&Offload::NONE, &frame(B, &[], &[0; 1500])).expect("usable");
    assert_eq!((a.sent(), a.lost()), (1, 1), "one of exactly the MTU is taken");
    wire.a.sh("ip link set wa down");
    a.send(&Offload::NONE, &frame(B, &[], &[0; 64])).expect("usable");
    assert_eq!((a.sent(), a.lost()), (1, 2));
    let problem = a.last_problem().expect("a reason");
    assert!(problem.contains("`ip link set wa up`"), "{problem}");
}

#[test]
fn an_interface_that_goes_down_gives_no_frames_and_no_error() {
    let Some(wire) = Wire::new(1500) else { return };
    let mut a = open(&wire.a, "wa").receiver;
    wire.a.sh("ip link set wa down");
    // The first call may bring what came before, the next one the kernel's error.
    for _ in 0..8 {
        assert!(there(&mut a).is_empty());
    }
}

#[test]
fn loopback_is_for_sending_only_and_what_is_not_there_is_named() {
    let Some(space) = Namespace::open() else { return };
    let (both, lo, none) =
        space.run(|| (FramePort::open("lo"), FrameSender::open(1), FrameSender::open(9999)));
    assert!(matches!(both, Err(FramePortError::NotEthernet(name)) if name == "lo"));
    assert!(matches!(none, Err(FramePortError::NoInterface(name)) if name == "number 9999"));
    let mut lo = lo.expect("loopback has Ethernet headers");
    assert_eq!((lo.name(), lo.hardware_address()), ("lo", [0; 6]));
    lo.send(&Offload::NONE, &[[0; 12].as_slice(), &EXPERIMENT, &[1; 50]].concat()).expect("usable");
    assert_eq!((lo.sent(), lo.lost()), (1, 0));
}

#[test]
fn without_the_right_to_raw_sockets_the_remedy_is_named() {
    let Some(space) = Namespace::open() else { return };
    let errors = space.run(|| {
        let mut mine = capabilities(None).expect("capabilities");
        mine.effective.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, mine).expect("less is always allowed");
        assert!(uroce_packet::probe::packet_socket().is_err());
        [FramePort::open("lo").map(drop), FrameSender::open(1).map(drop)]
    });
    for error in errors {
        let error = error.expect_err("not permitted");
        assert!(matches!(error, FramePortError::NotPermitted), "{error}");
        assert!(error.to_string().contains("--ambient-caps=+net_raw"), "{error}");
    }
    space.run(|| uroce_packet::probe::packet_socket().expect_err("the thread gave it up"));
}
