//! What of a capture becomes a recording, and what is left out of it.

use std::net::Ipv4Addr;

use uroce_analyze::{DissectorConfig, Frame, LinkType, Timestamp};
use uroce_replay::{Device, Limits, Options, Recorder, Recording, play};
use uroce_wire::{
    Bth, Header, ICRC_LEN, Ipv4, Opcode, Psn, Qpn, Service, UdpPorts, icrc_of_captured,
    write_ipv4_udp,
};

use crate::scene::{ACK, RKEY, Scene};

const A: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 1), 0x11);
const B: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 2), 0x22);

/// A packet of one end to the other, with zeros for extension headers, and its ICRC.
fn packet(
    from: (Ipv4Addr, u32),
    to: (Ipv4Addr, u32),
    opcode: Opcode,
    psn: u32,
    payload: usize,
) -> Vec<u8> {
    let headers = opcode.info().expect("known").header_len;
    let mut covered = vec![0; headers + payload];
    let bth = Bth { ack_req: true, ..Bth::new(opcode, Qpn::new(to.1), Psn::new(psn)) };
    bth.write(&mut covered).expect("room");
    let ip = Ipv4 { src: from.0, dst: to.0, id: psn as u16, ttl: 33, tos: 0x62, df: true };
    let mut frame = vec![0; 28];
    let ports = UdpPorts { src: 0xc0de, dst: 4791 };
    write_ipv4_udp(&mut frame, &ip, ports, covered.len() + ICRC_LEN).expect("it fits");
    let icrc = icrc_of_captured(&frame, true, &covered).expect("headers");
    frame.extend(covered);
    frame.extend(icrc.to_le_bytes());
    frame
}

fn request(psn: u32) -> Vec<u8> {
    packet(A, B, Opcode::RC_SEND_ONLY, psn, 8)
}

/// An ACK of B: credits without limit, and an MSN.
fn ack(psn: u32, msn: u8) -> Vec<u8> {
    let mut frame = packet(B, A, Opcode::RC_ACKNOWLEDGE, psn, 0);
    frame[40..44].copy_from_slice(&[0x1f, 0, 0, msn]);
    closed_again(frame)
}

/// The frame with an ICRC that is right.
fn closed_again(mut frame: Vec<u8>) -> Vec<u8> {
    let end = frame.len() - ICRC_LEN;
    let icrc = icrc_of_captured(&frame[..28], true, &frame[28..end]).expect("headers");
    frame[end..].copy_from_slice(&icrc.to_le_bytes());
    frame
}

/// What is recorded of frames, a microsecond apart, each cut to so many bytes.
fn recorded(frames: &[Vec<u8>], limits: Limits, cut: usize) -> Vec<Recording> {
    let mut recorder = Recorder::new(DissectorConfig::default(), limits);
    for (index, frame) in frames.iter().enumerate() {
        recorder.handle_frame(&Frame {
            number: index as u64 + 1,
            interface: 0,
            time: Timestamp::from_nanos(5_000_000 + index as u64 * 1_000),
            link_type: LinkType::RawIp,
            direction: None,
            original_len: frame.len() as u32,
            data: &frame[..cut.min(frame.len())],
            comment: "",
        });
    }
    recorder.finish()
}

fn all(frames: &[Vec<u8>]) -> Vec<Recording> {
    recorded(frames, Limits::default(), usize::MAX)
}

/// Opcode by opcode: requests of RC are recorded, and nothing else makes a recording.
#[test]
fn only_requests_of_reliable_connections_make_a_recording() {
    for info in (0..=255u8).filter_map(|byte| Opcode(byte).info()) {
        let recordings = all(&[packet(A, B, info.opcode, 5, 0), ack(5, 1)]);
        let wanted = info.service == Service::Rc && info.is_request();
        assert_eq!(recordings.len(), usize::from(wanted), "{}", info.name);
        for recording in recordings {
            assert_eq!(
                (recording.requests.len(), recording.answers.len()),
                (1, 1),
                "{}",
                info.name
            );
            assert_eq!(recording.answers[0].opcode(), Opcode::RC_ACKNOWLEDGE);
        }
    }
}

#[test]
fn a_request_is_recorded_with_all_that_it_takes_to_send_it_again() {
    let recording = all(&[request(5), request(6), ack(6, 2)]).remove(0);
    let second = &recording.requests[1];
    assert_eq!((second.position, second.frame, second.time), (2, 2, 1_000));
    assert_eq!((second.psn, second.source_port), (Psn::new(6), 0xc0de));
    assert_eq!((second.traffic_class, second.hop_limit), (0x62, 33));
    assert_eq!((second.is_damaged, second.is_cut), (false, false));
    assert_eq!(second.bytes[..], request(6)[28..]);
    let answer = &recording.answers[0];
    assert_eq!((answer.position, answer.frame, answer.time, answer.length), (3, 3, 2_000, 0));
    assert_eq!(answer.aeth.map(|aeth| (aeth.syndrome.0, aeth.msn)), Some((0x1f, 2)));
    assert_eq!((recording.duration, recording.closed, recording.restarts), (2_000, None, 0));
}

#[test]
fn both_ends_of_a_connection_have_a_recording_if_both_ask() {
    let back = packet(B, A, Opcode::RC_SEND_ONLY, 900, 8);
    let mut back_ack = packet(A, B, Opcode::RC_ACKNOWLEDGE, 900, 0);
    back_ack[40..44].copy_from_slice(&[0x1f, 0, 0, 1]);
    let recordings = all(&[request(5), ack(5, 1), back, closed_again(back_ack)]);
    let sides: Vec<_> =
        recordings.iter().map(|one| (one.requester.address, one.responder.address)).collect();
    assert_eq!(sides, [(A.0.into(), B.0.into()), (B.0.into(), A.0.into())]);
    for (recording, (from, to)) in recordings.iter().zip([(A, B), (B, A)]) {
        assert_eq!((recording.requests.len(), recording.answers.len()), (1, 1));
        assert_eq!(recording.responder.qpn, Some(Qpn::new(to.1)));
        assert!(recording.has_qpn(Qpn::new(from.1)) && !recording.has_qpn(Qpn::new(0x33)));
        assert!(recording.has_host(from.0.into()) && recording.has_host(to.0.into()));
        assert!(!recording.has_host([10, 0, 0, 3].into()));
    }
}

#[test]
fn conversations_of_one_capture_are_told_apart() {
    let c = (Ipv4Addr::new(10, 0, 0, 3), 0x44);
    let other = packet(c, (B.0, 0x23), Opcode::RC_SEND_ONLY, 70, 8);
    let recordings = all(&[request(5), other, request(6), ack(6, 2)]);
    let counts: Vec<_> =
        recordings.iter().map(|one| (one.requests.len(), one.answers.len())).collect();
    assert_eq!(counts, [(2, 1), (1, 0)]);
    assert_eq!(recordings[1].requester.address, std::net::IpAddr::from(c.0));
}

/// Cut at each byte: without its headers a packet is left out, without its end it is cut, and then zeros stand for it.
#[test]
fn a_capture_with_a_snap_length_is_recorded_as_far_as_its_headers() {
    let frames = [packet(A, B, Opcode::RC_WRITE_ONLY, 5, 40), ack(5, 1)];
    let whole = frames[0].len();
    for cut in 40..=whole {
        let recordings = recorded(&frames, Limits::default(), cut);
        let there = cut.saturating_sub(28);
        if there < 12 + 16 {
            assert!(recordings.is_empty(), "{cut} bytes have no RETH");
            continue;
        }
        let request = &recordings[0].requests[0];
        assert_eq!((request.is_cut, request.bytes.len()), (cut < whole, whole - 28), "{cut}");
        assert_eq!(request.bytes[..there], frames[0][28..cut]);
        assert!(request.bytes[there..].iter().all(|byte| *byte == 0));
    }
}

/// What is beyond a limit is counted, and not kept: the recording then ends there.
#[test]
fn packets_and_bytes_have_a_limit() {
    let frames = [request(5), request(6), ack(6, 2), request(7), ack(7, 3)];
    for (packets, requests, answers, left_out) in
        [(5, 3, 2, 0), (3, 2, 1, 2), (2, 2, 0, 3), (1, 1, 0, 4)]
    {
        let limits = Limits { packets, ..Limits::default() };
        let recording = recorded(&frames, limits, usize::MAX).remove(0);
        let found = (recording.requests.len(), recording.answers.len(), recording.left_out);
        assert_eq!(found, (requests, answers, left_out), "{packets} packets");
    }
    let size = request(5).len() - 28;
    for (bytes, requests) in [(3 * size, 3), (3 * size - 1, 2), (size, 1)] {
        let limits = Limits { bytes, ..Limits::default() };
        let recording = recorded(&frames, limits, usize::MAX).remove(0);
        assert_eq!(recording.requests.len(), requests, "{bytes} bytes");
    }
    let nothing = Limits { packets: 0, ..Limits::default() };
    assert!(recorded(&frames, nothing, usize::MAX).is_empty());
}

/// One wrong ICRC is damage; if all of a direction are wrong, the capture was made before they were right.
#[test]
fn icrcs_that_are_wrong_throughout_say_nothing() {
    let wrong = |mut frame: Vec<u8>| {
        *frame.last_mut().expect("an ICRC") ^= 0x55;
        frame
    };
    let damaged = |frames: &[Vec<u8>]| {
        let recording = all(frames).remove(0);
        recording.requests.iter().map(|request| request.is_damaged).collect::<Vec<_>>()
    };
    assert_eq!(damaged(&[request(5), request(6), ack(6, 2)]), [false, false]);
    assert_eq!(damaged(&[wrong(request(5)), request(6), ack(6, 2)]), [true, false]);
    assert_eq!(damaged(&[wrong(request(5)), wrong(request(6)), ack(6, 2)]), [false, false]);
    // The answers of the other direction decide for themselves.
    assert_eq!(damaged(&[wrong(request(5)), request(6), wrong(ack(6, 2))]), [true, false]);
}

/// Of our own captures: what a rule dropped never came; what it delayed, marked or copied did.
#[test]
fn comments_of_fault_rules_decide_what_came() {
    let played = |comment: &str| {
        let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).comment(comment).send(6);
        let recording = scene.answer(6, ACK, 2).recording();
        (recording.requests.len(), recording.taken_away)
    };
    assert_eq!(played("fault: dropped by rule \"lost\""), (2, 1));
    assert_eq!(
        played("fault: dropped because the queue of the rate limit is full by rule 1"),
        (2, 1)
    );
    assert_eq!(played("fault: dropped while muted by rule 2"), (2, 1));
    for comment in
        ["", "fault: delayed by 10ms by rule 1", "fault: duplicated by rule 1", "dropped"]
    {
        assert_eq!(played(comment), (3, 0), "{comment}");
    }
}

/// What is not RoCE, or no packet, does not disturb a recording.
#[test]
fn other_traffic_between_the_packets_is_ignored() {
    let mut other_port = request(5);
    other_port[22..24].copy_from_slice(&53u16.to_be_bytes());
    let mut unknown = request(5);
    unknown[28] = 0x5f;
    let noise =
        [vec![], vec![0x45], vec![0xff; 90], other_port, unknown, request(5)[..30].to_vec()];
    let mut frames = noise.to_vec();
    frames.push(request(5));
    frames.extend(noise.clone());
    frames.push(ack(5, 1));
    frames.extend(noise);
    let recordings = all(&frames);
    let found: Vec<_> =
        recordings.iter().map(|one| (one.requests.len(), one.answers.len())).collect();
    assert_eq!(found, [(1, 1)]);
    let report =
        play(recordings[0].clone(), &Device::default(), &Limits::default(), &Options::default());
    assert_eq!(report.expect("it can be played").differences(), 0);
}

#[test]
fn packets_are_counted_whatever_becomes_of_them() {
    let mut recorder = Recorder::new(DissectorConfig::default(), Limits::default());
    let scene = Scene::default().write(5, 0x1000, b"word").answer(5, ACK, 1);
    assert_eq!(recorder.packets(), 0);
    for frame in [request(1), ack(1, 1), packet(A, B, Opcode::UD_SEND_ONLY, 0, 8), vec![1, 2, 3]] {
        recorder.handle_frame(&Frame {
            number: 1,
            interface: 0,
            time: Timestamp::from_nanos(0),
            link_type: LinkType::RawIp,
            direction: None,
            original_len: frame.len() as u32,
            data: &frame,
            comment: "",
        });
    }
    assert_eq!(recorder.packets(), 3);
    let region = scene.recording().requests[0].bytes[20..24].to_vec();
    assert_eq!(region, RKEY.to_be_bytes(), "the key as it stands in the RETH");
}
