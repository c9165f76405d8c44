//! Ethernet, IP and UDP headers that a UDP socket does not write.

use uroce_wire::{NakCode, Opcode};

use super::check;
use crate::case::cases;
use crate::{Bench, Frame, Operation, Outcome, Packet, Qp, Stop, UdpChecksum, status};

cases! {
    Must "rc.responder.icrc-masked-fields", "E10", [4], "Traffic class, hop limit and byte 4 of the BTH may change on the way: the ICRC leaves them out.", masked_fields;
    Must "rc.responder.icrc-covers-ip-id", "E11", [5], "The ICRC covers the IPv4 identification.", covers_ip_id;
    Must "rc.responder.icrc-covers-source-port", "E10", [6], "The ICRC covers the UDP source port.", covers_source_port;
    Must "rc.responder.udp-checksum", "E6", [13], "A UDP checksum of 0 and the right one are both taken.", udp_checksum;
    Free "rc.responder.udp-checksum-wrong", "E6", [14], "A wrong UDP checksum is no reason to take a packet, nor to drop it.", udp_checksum_wrong;
    Must "rc.responder.udp-length", "E5 R10", [16], "A packet whose UDP length is not that of its IP packet is dropped.", udp_length;
    Must "rc.responder.ethernet-padding", "E5", [17], "Zeros behind the IP packet, as short Ethernet frames have them, do not matter.", ethernet_padding;
    Free "rc.responder.ip-options", "E3", [18], "A packet with IPv4 options is taken or dropped.", ip_options;
    Free "rc.responder.ip-fragments", "E4", [19], "A request in two IP fragments is taken or dropped.", ip_fragments;
    Should "rc.responder.vlan-priority", "E2", [20], "A tag with a priority and VLAN 0 does not matter.", vlan_priority;
    Must "rc.responder.ipv6-flow-label", "E10", [21], "Flow label and traffic class of IPv6 do not matter.", flow_label;
    Should "rc.responder.other-mac", "R8", [27], "The hardware address of the sender does not matter.", other_mac;
    Must "rc.responder.stranger", "R8", [25], "A request from another address than the peer's is dropped.", stranger;
    Must "rc.requester.stranger", "R8", [25], "Answers from another address than the peer's complete nothing.", stranger_answers;
    Should "rc.requester.icmp", "A28", [242], "An ICMP message about its packets ends no queue pair.", icmp;
}

/// A connection that has taken a right frame of the tester's own as its first request: the next PSN is 1.
pub(super) fn framed<'b, 'r>(b: &'b Bench<'r>) -> Result<Qp<'b, 'r>, Stop> {
    let q = b.rc().open()?;
    q.tx_frame(&q.frame(&q.write(0).psn(0))?)?;
    match q.within(b.patience().silence * 4)? {
        Some(came) if came.is_ack() && came.psn == 0 => Ok(q),
        Some(came) => super::unexpected("ACK of PSN +0", &came),
        None => {
            q.alive(0)?;
            let why = "needs frames of the tester's own, which do not arrive: the kernel drops those of the loopback \
                       interface, and some networks those that they do not know";
            Err(Stop::NotApplicable(why.to_owned()))
        }
    }
}

/// Each of these frames, with requests at PSN 1, 2, ..., is acknowledged.
fn taken(q: &Qp<'_, '_>, frames: impl IntoIterator<Item = Frame>) -> Outcome {
    for (psn, frame) in (1..).zip(frames) {
        q.tx_frame(&frame)?;
        q.ack(psn)?;
    }
    Ok(())
}

/// None of these frames, all with requests at PSN 1, draws an answer.
fn dropped(q: &Qp<'_, '_>, frames: impl IntoIterator<Item = Frame>) -> Outcome {
    frames.into_iter().try_for_each(|frame| q.tx_frame(&frame))?;
    q.ignored(1)?;
    q.app.untouched()
}

/// A frame with the request at PSN 1 is taken or dropped; which, is noted.
fn either(b: &Bench<'_>, q: &Qp<'_, '_>, frames: &[Frame]) -> Outcome {
    frames.iter().try_for_each(|frame| q.tx_frame(frame))?;
    match q.within(b.patience().silence)? {
        None => {
            b.tolerate("it drops them");
            q.alive(1).map(drop)
        }
        Some(came) if came.is_ack() && came.psn == 1 => {
            b.tolerate("it takes them");
            q.alive(2).map(drop)
        }
        Some(came) => super::unexpected("ACK of PSN +1, or nothing", &came),
    }
}

/// A frame with a WRITE of 16 bytes at this PSN.
fn write(q: &Qp<'_, '_>, psn: i32) -> Result<Frame, Stop> {
    q.frame(&q.write(16).psn(psn))
}

fn only_ipv4(frame: &Frame) -> Outcome {
    match frame.is_ipv4() {
        true => Ok(()),
        false => Err(Stop::NotApplicable("IPv6 has none".to_owned())),
    }
}

fn masked_fields(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    let frames = [
        write(&q, 1)?.traffic_class(0x68),
        write(&q, 2)?.hop_limit(3),
        write(&q, 3)?.bth_congestion(0x3f),
        write(&q, 4)?.traffic_class(0x20).hop_limit(9).bth_congestion(0x15),
    ];
    taken(&q, frames)
}

fn covers_ip_id(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    only_ipv4(&write(&q, 1)?)?;
    dropped(&q, [write(&q, 1)?.ip_id(0x4243), write(&q, 1)?.ip_id(0)])
}

fn covers_source_port(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    dropped(&q, [write(&q, 1)?.source_port(0xc0df), write(&q, 1)?.source_port(0xffff)])
}

fn udp_checksum(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    let with = |psn, checksum| Ok(write(&q, psn)?.checksum(checksum));
    taken(&q, [with(1, UdpChecksum::Absent)?, with(2, UdpChecksum::Right)?])
}

fn udp_checksum_wrong(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    either(b, &q, &[write(&q, 1)?.checksum(UdpChecksum::Wrong)])
}

fn udp_length(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    let whole = write(&q, 1)?.udp_bytes();
    let lengths = [0, 7, 8, 12, 20, whole - 16, whole - 4, whole - 1, whole + 1, whole + 100];
    let frames: Result<Vec<_>, Stop> =
        lengths.into_iter().map(|length| Ok(write(&q, 1)?.udp_length(length))).collect();
    dropped(&q, frames?)
}

fn ethernet_padding(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    taken(&q, [q.frame(&q.send(0).psn(1))?.padding(2), write(&q, 2)?.padding(20)])
}

fn ip_options(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    only_ipv4(&write(&q, 1)?)?;
    // "No operation", three times, and the end of the list.
    either(b, &q, &[write(&q, 1)?.options(&[1, 1, 1, 0])])
}

fn ip_fragments(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    let frame = q.frame(&q.write(256).psn(1))?;
    only_ipv4(&frame)?;
    either(b, &q, &frame.fragments(64))
}

fn vlan_priority(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    taken(&q, [write(&q, 1)?.tag(3, 0), write(&q, 2)?.tag(7, 0)])
}

fn flow_label(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    if write(&q, 1)?.is_ipv4() {
        let why = "the queue pairs use IPv4: --address of the agent takes an address of IPv6";
        return Err(Stop::NotApplicable(why.to_owned()));
    }
    let frames = [
        write(&q, 1)?.flow_label(0x1_2345),
        write(&q, 2)?.flow_label(0xf_ffff).traffic_class(0x68),
        write(&q, 3)?.traffic_class(0x20),
    ];
    taken(&q, frames)
}

fn other_mac(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    // Locally administered addresses.
    let frames = [
        write(&q, 1)?.source_hardware([2, 0, 0, 0, 0, 1]),
        write(&q, 2)?.source_hardware([6, 1, 2, 3, 4, 5]),
    ];
    taken(&q, frames)
}

fn stranger(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    let forged = |packet: Packet| q.frame_from(q.stranger(), &packet);
    let frames = [
        forged(q.write(16).psn(1))?,
        forged(q.send(16).psn(1))?,
        forged(q.read(16).psn(1))?,
        forged(q.write(16).psn(1).rkey(0))?,
        // A gap, and a duplicate.
        forged(q.write(16).psn(7))?,
        forged(q.write(0).psn(0))?,
    ];
    dropped(&q, frames)?;
    q.app.no_completion()
}

fn stranger_answers(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    let work = q.app.post(Operation::Read, 16)?;
    q.request(0, Opcode::RC_READ_REQUEST)?;
    let forged = [
        q.naks(0, NakCode::RemoteAccess, 1),
        q.acks(0, 1),
        q.response(Opcode::RC_READ_RESPONSE_ONLY, 0, &[0xee; 16], 1),
    ];
    for packet in &forged {
        q.tx_frame(&q.frame_from(q.stranger(), packet)?)?;
    }
    q.nothing_new()?;
    q.app.no_completion()?;
    q.app.untouched()?;
    q.tx_all(&q.responses(0, &[0x55; 16], 1))?;
    q.app.completes(work, status::SUCCESS)?;
    q.app.written(&[0x55; 16])
}

fn icmp(b: &Bench<'_>) -> Outcome {
    let q = framed(b)?;
    let work = q.app.post(Operation::Write, 16)?;
    let came = q.request(0, Opcode::RC_WRITE_ONLY)?;
    let message = q.unreachable(&came)?;
    for _ in 0..8 {
        q.tx_frame(&message)?;
    }
    q.nothing_new()?;
    check(!q.app.done(work, status::SUCCESS)?, || "the WRITE completes without an ACK".to_owned())?;
    q.tx(&q.acks(0, 1))?;
    q.app.completes(work, status::SUCCESS)?;
    q.alive(1).map(drop)
}

#[cfg(test)]
mod tests {
    use uroce_wire::Psn;

    use super::*;
    use crate::fake::{FakeAgent, FakeWire, card, incoming};
    use crate::{Incoming, Selection, Verdict, run};

    /// The queue pair number of the tester in the first try of a run.
    const OWN_QPN: u32 = 0x10_0001 + crate::run::NUMBERS;

    /// An ACK of the packet with these bytes (BTH to ICRC).
    fn acknowledges_all(sent: &[u8]) -> Option<Incoming> {
        let [high, middle, low] = *sent.get(9..12)?.first_chunk()?;
        let psn = Psn::new(u32::from_be_bytes([0, high, middle, low]));
        let bytes =
            [Packet::new(Opcode::RC_ACKNOWLEDGE, OWN_QPN, psn, vec![]).covered(), vec![0; 4]];
        Some(Incoming { bytes: bytes.concat(), ..incoming(Opcode::RC_ACKNOWLEDGE, 0) })
    }

    /// The same for requests without payload only.
    fn acknowledges_empty(sent: &[u8]) -> Option<Incoming> {
        acknowledges_all(sent).filter(|_| sent.len() == 32)
    }

    fn verdict(case: &str, wire: FakeWire) -> Verdict {
        let selection = Selection { only: vec![case.to_owned()], ..Selection::default() };
        let (mut wire, mut agent) = (wire, FakeAgent::default());
        let report = run(&selection, &mut wire, &mut agent, &card(), &mut |_| true);
        report.cases[0].verdict.clone()
    }

    #[test]
    fn a_peer_that_takes_what_it_must_drop_fails() {
        for case in ["covers-ip-id", "covers-source-port", "udp-length", "responder.stranger"] {
            let answer: Option<fn(&[u8]) -> _> = Some(acknowledges_all);
            let verdict = verdict(case, FakeWire { answer, ..FakeWire::default() });
            let why = verdict.why();
            assert!(why.starts_with("expected silence, got"), "{case}: {verdict:?}");
        }
    }

    #[test]
    fn a_peer_that_drops_what_it_must_take_fails() {
        let cases = ["masked-fields", "udp-checksum", "padding", "vlan-priority", "other-mac"];
        for case in cases {
            let answer: Option<fn(&[u8]) -> _> = Some(acknowledges_empty);
            let verdict = verdict(case, FakeWire { answer, ..FakeWire::default() });
            assert!(matches!(verdict, Verdict::Fail(_)), "{case}: {verdict:?}");
        }
    }

    #[test]
    fn without_the_right_to_send_frames_nothing_is_judged() {
        for case in CASES {
            let verdict = verdict(case.id, FakeWire { no_frames: true, ..FakeWire::default() });
            assert!(matches!(verdict, Verdict::NotApplicable(_)), "{}: {verdict:?}", case.id);
        }
    }
}
