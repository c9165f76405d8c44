//! The order of senders, and the heap of deadlines.

use super::*;

fn senders(interleaves: bool, raw: std::ops::Range<u32>) -> Senders {
    let mut senders = Senders::new(interleaves);
    raw.for_each(|raw| senders.push(Qpn::new(raw)));
    senders
}

/// One of two source ports.
fn port(qpn: Qpn) -> u16 {
    (qpn.get() % 2) as u16
}

/// Serves all queue pairs; each sends its first packet, or the rest behind it.
fn play(senders: &mut Senders) -> Vec<(u32, bool)> {
    let mut served = Vec::new();
    while let Some(qpn) = senders.pop(port) {
        served.push((qpn.get(), senders.in_header_phase()));
        if senders.in_header_phase() {
            senders.defer_body(qpn);
        }
    }
    assert!(senders.is_empty());
    served
}

#[test]
fn one_alone_waits_for_nobody() {
    assert_eq!(play(&mut senders(true, 7..8)), [(7, false)]);
}

#[test]
fn first_packets_leave_before_what_follows_them_one_port_after_the_other() {
    let served = play(&mut senders(true, 0..4));
    let ports: Vec<u32> = served.iter().map(|(qpn, _)| qpn % 2).collect();
    assert_eq!(ports, [1, 1, 0, 0, 1, 1, 0, 0]);
    let (headers, bodies) = served.split_at(4);
    assert!(headers.iter().all(|(_, header)| *header));
    assert!(bodies.iter().all(|(_, header)| !*header));
    assert!(headers.iter().map(|(qpn, _)| qpn).eq(bodies.iter().map(|(qpn, _)| qpn)));
}

#[test]
fn where_every_packet_travels_alone_there_are_no_rows() {
    assert_eq!(play(&mut senders(false, 0..3)), [(0, false), (1, false), (2, false)]);
}

#[test]
fn nobody_has_two_turns_before_somebody_who_came_earlier_has_one() {
    let mut senders = senders(true, 0..2 * ROUND as u32);
    let mut served = Vec::new();
    for _ in 0..2 * ROUND {
        let qpn = senders.pop(port).expect("ready");
        served.push(qpn.get());
        senders.push(qpn);
    }
    served.sort_unstable();
    assert!(served.into_iter().eq(0..2 * ROUND as u32));
}

#[test]
fn who_was_cut_short_is_next() {
    let mut senders = senders(true, 0..3);
    let qpn = senders.pop(port).expect("ready");
    senders.resume(qpn);
    assert_eq!(senders.pop(port), Some(qpn));
    senders.defer_body(qpn);
    assert_ne!(senders.pop(port), Some(qpn));
    senders.pop(port);
    assert_eq!(senders.pop(port), Some(qpn));
    assert!(senders.in_body_phase());
    senders.resume(qpn);
    assert_eq!(senders.pop(port), Some(qpn));
    assert_eq!(senders.pop(port), None);
}

fn at(ns: u64) -> Option<Instant> {
    Some(Instant::from_nanos(ns))
}

#[test]
fn a_later_deadline_costs_no_entry() {
    let mut timers = Timers::default();
    let mut armed = None;
    timers.arm(7, at(100), &mut armed);
    for later in 101..1_000 {
        timers.arm(7, at(later), &mut armed);
    }
    assert_eq!(timers.len(), 1);
    assert_eq!(armed, Some(100));
    assert_eq!(timers.next_deadline(), Some(100));
}

#[test]
fn an_earlier_deadline_comes_first() {
    let mut timers = Timers::default();
    let mut armed = None;
    timers.arm(7, at(100), &mut armed);
    timers.arm(7, at(50), &mut armed);
    assert_eq!(timers.pop_due(Instant::from_nanos(49)), None);
    assert_eq!(timers.pop_due(Instant::from_nanos(50)), Some((50, 7)));
    assert_eq!(timers.pop_due(Instant::from_nanos(100)), Some((100, 7)));
    assert_eq!(timers.next_deadline(), None);
}

#[test]
fn no_deadline_keeps_the_armed_entry() {
    let mut timers = Timers::default();
    let mut armed = None;
    timers.arm(7, None, &mut armed);
    assert_eq!((timers.len(), armed), (0, None));
    timers.arm(7, at(5), &mut armed);
    timers.arm(7, None, &mut armed);
    assert_eq!((timers.len(), armed), (1, Some(5)));
}

#[test]
fn rebuild_drops_stale_entries() {
    let mut timers = Timers::default();
    for deadline in (1..100).rev() {
        let mut armed = None;
        timers.arm(7, at(deadline), &mut armed);
    }
    timers.rebuild([(3, 7)].into_iter());
    assert_eq!(timers.len(), 1);
    assert_eq!(timers.next_deadline(), Some(3));
}
