use std::os::fd::OwnedFd;

use rustix::net;
use uroce_datapath::IpId;

use super::super::message::read;
use super::super::namespace::{connect_to_service, listen};
use super::super::steering_probe::Answer;
use super::*;

const OWN: u8 = 5;

/// QP 1 packets of these tests name their addressee behind the QPN.
fn addressee(rx: &RxPacket<'_>) -> RedirectTarget {
    match rx.payload.get(8..10) {
        Some(&[b's', number]) => RedirectTarget::Slot(slot(number)),
        Some(&[b'c', service]) => RedirectTarget::Service(service.into()),
        Some(b"**") => RedirectTarget::Everyone,
        _ => RedirectTarget::Here,
    }
}

fn slot(number: u8) -> Slot {
    Slot::new(number).expect("a slot")
}

fn namespace(last: u8) -> PortNamespace {
    PortNamespace::of(([127, 91, 19, last], 4791).into()).expect("an address of this host")
}

fn demux(namespace: PortNamespace) -> Demux {
    Demux::new(slot(OWN), namespace, addressee)
}

fn packet(payload: &[u8]) -> RxPacket<'_> {
    RxPacket {
        src: ([10, 0, 0, 9], 0xC000).into(),
        dst: ([10, 0, 0, 1], 4791).into(),
        traffic_class: 0,
        hop_limit: 64,
        ip_id: IpId::Hidden(0),
        icrc_checked: false,
        following: None,
        fate: None,
        payload,
    }
}

/// A packet with that opcode to that queue pair.
fn to(opcode: u8, qpn: [u8; 3], rest: &[u8]) -> Vec<u8> {
    [&[opcode, 0, 0, 0, 0][..], &qpn, rest].concat()
}

const RC: u8 = 0x0a;
const UC: u8 = 0x2a;
const GSI: [u8; 3] = [0, 0, 1];

/// What a process has got, one message after the other.
struct Process {
    listener: OwnedFd,
    peers: Vec<OwnedFd>,
}

impl Process {
    fn slot(namespace: PortNamespace, number: u8) -> Self {
        let listener = listen(&namespace.slot(slot(number)).expect("a name")).expect("free");
        Self { listener, peers: vec![] }
    }

    fn messages(&mut self) -> Vec<Vec<u8>> {
        self.peers.extend(std::iter::from_fn(|| net::accept(&self.listener).ok()));
        let mut all = vec![];
        for peer in &self.peers {
            let mut room = vec![0; 100_000];
            let flags = net::RecvFlags::DONTWAIT;
            while let Ok((length, _)) = net::recv(peer, &mut room[..], flags) {
                if length == 0 {
                    break;
                }
                all.push(room[..length].to_vec());
            }
        }
        all
    }
}

#[test]
fn packets_of_our_own_slot_and_of_none_stay_here() {
    let mut demux = demux(namespace(1));
    let own = to(RC, [OWN, 0, 7], &[]);
    let unknown = to(RC, [9, 0, 7], &[]);
    for payload in [&own[..], &unknown, &to(RC, [0, 0, 7], &[]), &to(RC, GSI, b"xx"), &[], &[RC]] {
        assert!(!demux.redirect(&packet(payload)), "{payload:?}");
    }
    assert_eq!((demux.counts.packets, demux.counts.lost), (0, 0));
    assert_eq!(demux.misrouted, 1, "one named the slot of another, which is not there");
}

#[test]
fn packets_of_another_slot_travel_together_until_something_differs() {
    let namespace = namespace(2);
    let mut others = [1, 2].map(|number| Process::slot(namespace, number));
    let mut demux = demux(namespace);
    for (number, rest) in [(1, b"aa"), (1, b"bb"), (2, b"cc"), (1, b"dd")] {
        assert!(demux.redirect(&packet(&to(RC, [number, 0, 7], rest))));
    }
    demux.send_message();
    demux.send_message();
    let sizes = others.each_mut().map(|process| {
        let messages = process.messages();
        let bytes = messages.iter().map(|message| read(message).expect("packets").0.payload.len());
        bytes.collect::<Vec<_>>()
    });
    assert_eq!(sizes, [vec![20, 10], vec![10]]);
    assert_eq!((demux.counts.packets, demux.counts.bytes, demux.counts.lost), (4, 40, 0));
    assert_eq!(demux.misrouted, 4);
}

#[test]
fn what_a_process_that_has_ended_would_get_is_lost_and_counted() {
    let namespace = namespace(3);
    let other = Process::slot(namespace, 1);
    let mut demux = demux(namespace);
    let payload = to(RC, [1, 0, 7], &[]);
    assert!(demux.redirect(&packet(&payload)) && demux.redirect(&packet(&payload)));
    drop(other);
    demux.send_message();
    assert_eq!((demux.counts.packets, demux.counts.lost), (2, 2));
}

#[test]
fn a_packet_to_a_group_is_for_all_that_hear_it_and_goes_nowhere() {
    let namespace = namespace(4);
    let mut other = Process::slot(namespace, 1);
    let mut demux = demux(namespace);
    let payload = to(RC, [1, 0, 7], &[]);
    let group = RxPacket { dst: ([239, 1, 2, 3], 4791).into(), ..packet(&payload) };
    assert!(!demux.redirect(&group));
    demux.send_message();
    assert!(other.messages().is_empty() && demux.misrouted == 0);
}

#[test]
fn a_packet_to_qp_1_goes_to_whom_it_names_and_is_not_misrouted() {
    let namespace = namespace(5);
    let mut others = [1, 2].map(|number| Process::slot(namespace, number));
    let mut demux = demux(namespace);
    assert!(demux.redirect(&packet(&to(RC, GSI, &[b's', 2]))));
    assert!(!demux.redirect(&packet(&to(RC, GSI, &[b's', OWN]))));
    assert!(!demux.redirect(&packet(&to(RC, GSI, b"**"))), "for us as well");
    demux.send_message();
    assert_eq!(others.each_mut().map(|process| process.messages().len()), [1, 2]);
    assert_eq!(demux.misrouted, 0);
}

#[test]
fn a_service_of_this_process_stays_and_one_of_another_is_looked_up() {
    let namespace = namespace(6);
    let mut demux = demux(namespace);
    demux.services.insert(7, 1);
    assert!(!demux.redirect(&packet(&to(RC, GSI, &[b'c', 7]))), "ours");
    assert!(!demux.redirect(&packet(&to(RC, GSI, &[b'c', 8]))), "nobody's: the answer is ours");
    let listener = listen(&namespace.service(8).expect("a name")).expect("free");
    let mut process = Process { listener, peers: vec![] };
    assert!(demux.redirect(&packet(&to(RC, GSI, &[b'c', 8]))));
    assert_eq!(process.messages().len(), 1, "at once, not with the next message");
    assert_eq!((demux.counts.packets, demux.counts.lost), (1, 0));
}

#[test]
fn a41_lookups_of_services_are_limited_and_what_is_above_is_lost() {
    let mut demux = demux(namespace(7));
    let payload = to(RC, GSI, &[b'c', 8]);
    let stays = (0..100).filter(|_| !demux.redirect(&packet(&payload))).count();
    // A window may end meanwhile.
    assert!(stays < 100 && stays >= usize::from(LOOKUPS.0), "{stays}");
    assert_eq!(demux.counts.lost, 100 - stays as u64);
}

#[test]
fn a_probe_is_answered_with_the_slots_whose_packets_must_stay_in_order() {
    let namespace = namespace(8);
    let mut others = [1, 2].map(|number| Process::slot(namespace, number));
    let mut demux = demux(namespace);
    assert!(demux.redirect(&packet(&to(RC, [1, 0, 7], &[]))));
    assert!(demux.redirect(&packet(&to(UC, [2, 0, 7], &[]))));
    demux.send_message();
    assert_eq!(others.each_mut().map(|process| process.messages().len()), [1, 1]);

    let probe = Probe { index: 3, asker: slot(1), nonce: 99 };
    let bytes = probe.write();
    let from_here = RxPacket { src: ([10, 0, 0, 1], 9).into(), ..packet(&bytes) };
    assert!(demux.redirect(&from_here));
    let [message] = &others[0].messages()[..] else { panic!("one answer") };
    let answer = Answer::read(message).expect("an answer");
    assert_eq!((answer.index, answer.slot, answer.nonce), (3, slot(OWN), 99));
    assert_eq!(answer.ordered.iter().collect::<Vec<_>>(), [slot(2)]);
    assert_eq!((demux.counts.probes, demux.counts.packets), (1, 3));
    // From another host it is no probe, and for nobody.
    assert!(!demux.redirect(&packet(&bytes)));
    assert_eq!(demux.counts.probes, 1);
}

/// As one that is stopped, or whose application has not polled for long.
#[test]
fn a_request_for_a_process_that_does_not_keep_up_is_lost_and_not_refused() {
    let namespace = namespace(9);
    let _listener = listen(&namespace.service(8).expect("a name")).expect("free");
    // Nobody accepts them.
    let waiting: Vec<_> =
        std::iter::from_fn(|| connect_to_service(namespace, 8).ok()).take(1000).collect();
    assert!((1..1000).contains(&waiting.len()), "the backlog has an end");
    let mut demux = demux(namespace);
    assert!(demux.redirect(&packet(&to(RC, GSI, &[b'c', 8]))), "somebody listens");
    assert_eq!((demux.counts.packets, demux.counts.lost), (1, 1));
}

/// Rx counters never go back.
#[test]
fn copies_for_everyone_do_not_count_as_packets_that_have_left() {
    let namespace = namespace(10);
    let _others = [1, 2, 3].map(|number| Process::slot(namespace, number));
    let mut demux = demux(namespace);
    assert!(!demux.redirect(&packet(&to(RC, GSI, b"**"))), "for us as well");
    demux.send_message();
    assert_eq!((demux.counts.packets, demux.counts.copies), (3, 3));
    assert!(demux.redirect(&packet(&to(RC, [1, 0, 7], &[]))));
    demux.send_message();
    assert_eq!((demux.counts.packets, demux.counts.copies), (4, 3));
}
