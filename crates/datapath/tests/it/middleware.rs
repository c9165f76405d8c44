//! A datapath around another one that changes nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use uroce_datapath::{Caps, Datapath, Flush, Middleware, Recipient, Route};

use crate::probe::Probe;

/// Nothing differs.
struct Plain(Probe);

impl Middleware for Plain {
    type Inner = Probe;

    fn inner(&self) -> &Probe {
        &self.0
    }

    fn inner_mut(&mut self) -> &mut Probe {
        &mut self.0
    }
}

/// Tells of another MTU.
struct Shorter(Probe, Caps);

impl Middleware for Shorter {
    type Inner = Probe;

    fn inner(&self) -> &Probe {
        &self.0
    }

    fn inner_mut(&mut self) -> &mut Probe {
        &mut self.0
    }

    fn caps(&self) -> &Caps {
        &self.1
    }
}

/// Calls everything there is, and checks the answers.
fn ask(path: &mut dyn Datapath) {
    let group: IpAddr = [239, 1, 2, 3].into();
    let local = SocketAddr::from(([10, 0, 0, 1], 4791));
    assert_eq!((path.caps().name, path.caps().mtu, path.local()), ("probe", 1234, local));
    assert_eq!(path.source_port(8), 9);
    path.tx_space().expect("room")[..3].copy_from_slice(b"abc");
    path.tx_break();
    path.tx_distrust();
    path.tx_only_to(Some(Recipient { address: group, period: 6 }));
    path.tx_in_place(7);
    path.tx_comment("about it");
    let route = Route { src: local, dst: local, hop_limit: 1, traffic_class: 2 };
    let mut sealed = None;
    path.tx_commit(&route, 3, &mut |id, bytes| sealed = Some((id, bytes.to_vec())));
    assert_eq!(sealed, Some((77, b"abc".to_vec())));
    let flush = path.flush().expect("flush");
    assert_eq!(flush, Flush { sent: 1, dropped: 0, blocked: false });
    assert_eq!(path.recv(41, &mut |_| ()).expect("recv"), 0);
    assert!(path.arm());
    path.disarm();
    assert_eq!(path.poll_timeout(), Some(u64::MAX - 1));
    path.waiter().expect("a descriptor");
    path.join(group).expect("joined");
    path.leave(group).expect("left");
    let shared = path.shared_port().expect("shared");
    assert_eq!(shared.slot().get(), 9);
    shared.claim_service(5).expect("free");
    shared.release_service(5);
    assert_eq!(path.last_problem().as_deref(), Some("a problem"));
    assert_eq!((path.stats().rx_dropped, path.stats().tx_packets), (3, 4));
}

const CALLS: [&str; 19] = [
    "source_port 8",
    "break",
    "distrust",
    "comment about it",
    "commit 3",
    "flush",
    "recv 41",
    "arm",
    "disarm",
    "poll_timeout",
    "waiter",
    "join 239.1.2.3",
    "leave 239.1.2.3",
    "shared_port",
    "claim 5",
    "release 5",
    "last_problem",
    "stats",
    "stats",
];

#[test]
fn every_call_reaches_the_datapath_inside_with_what_it_was_given() {
    let probe = Probe::new(8);
    let state = Arc::clone(&probe.state);
    ask(&mut Plain(probe));
    assert_eq!(state.lock().expect("no panic").calls, CALLS);
}

#[test]
fn a_boxed_datapath_is_the_datapath_itself() {
    let probe = Probe::new(8);
    let state = Arc::clone(&probe.state);
    let mut boxed: Box<dyn Datapath> = Box::new(probe);
    ask(&mut boxed);
    let mut calls = CALLS.to_vec();
    // What may change or delay packets keeps this from the datapath inside; a box does neither.
    calls.splice(3..3, ["only to Some(6)", "in place 7"]);
    assert_eq!(state.lock().expect("no panic").calls, calls);
}

#[test]
fn what_differs_is_asked_of_the_outer_one() {
    let probe = Probe::new(8);
    let caps = Caps { mtu: 99, ..Datapath::caps(&probe).clone() };
    let mut shorter = Shorter(probe, caps);
    assert_eq!(Datapath::caps(&shorter).mtu, 99);
    assert_eq!(Datapath::source_port(&mut shorter, 2), 3);
}
