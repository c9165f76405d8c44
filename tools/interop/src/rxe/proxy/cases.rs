//! What is tried: the wire as it is, and one fault of each kind.

use std::time::Duration;

use uroce_analyze::track::{RetransmissionCause, Role};
use uroce_testbed::error::{Error, Result};
use uroce_wire::{NakCode, Operation, Position};

use super::case::{Case, Ending};
use super::witness::{Sight, Wire, Witness, must};

const WRITES: &str = "ib_write_bw -d rxe0 -F -x GID -p PORT -n 5 -s 65536";
const WRITES_TO: &str = "ib_write_bw -d rxe0 -F -x GID -p PORT -n 5 -s 65536 SERVER";
const SENDS: &str = "ibv_rc_pingpong -d rxe0 -g GID -p PORT -n 20";
const SENDS_TO: &str = "ibv_rc_pingpong -d rxe0 -g GID -p PORT -n 20 SERVER";
const READS: &str = "ib_read_lat -d rxe0 -F -x GID -p PORT -n 10";
const READS_TO: &str = "ib_read_lat -d rxe0 -F -x GID -p PORT -n 10 SERVER";
const CALL: &str = "rping -s -a SERVER -p PORT -C 5";
const CALL_TO: &str = "rping -c -a SERVER -p PORT -C 5 -v";

/// Attribute of the message "ready to use".
const RTU: u16 = 0x14;
/// For how long no ACK arrives in the case of silence.
const SILENCE: Duration = Duration::from_millis(150);
/// The longest delay that a rule of these cases makes.
const LATE: Duration = Duration::from_millis(20);

const CLEAN: Case = Case {
    name: "",
    rules: &[],
    server: None,
    client: "",
    ending: Ending::Well,
    applied: &[],
    check: Witness::must_be_untouched,
};

/// WRITEs from the client to the server under some rules.
const fn writes(name: &'static str, rules: &'static [&'static str]) -> Case {
    Case { name, rules, server: Some(WRITES), client: WRITES_TO, ..CLEAN }
}

/// SENDs in both directions under some rules.
const fn sends(name: &'static str, rules: &'static [&'static str]) -> Case {
    Case { name, rules, server: Some(SENDS), client: SENDS_TO, ..CLEAN }
}

/// All cases.
pub const CASES: [Case; 17] = [
    Case { name: "ping", client: "ping -c 3 -W 5 SERVER", check: only_ping, ..CLEAN },
    sends("sends", &[]),
    writes("writes", &[]),
    Case { name: "reads", server: Some(READS), client: READS_TO, ..CLEAN },
    Case { name: "call", server: Some(CALL), client: CALL_TO, ..CLEAN },
    Case {
        applied: &[("third", 1)],
        check: third_middle_is_repeated,
        ..writes("lost-write", &["third: tx op=write part=middle -> drop skip=2 count=1"])
    },
    Case {
        applied: &[("third", 1), ("refused", 1)],
        ending: Ending::Fails("Failed status 10:"),
        check: refusal_ends_the_client,
        ..writes(
            "refused",
            &[
                "third: tx op=write part=middle -> drop skip=2 count=1 then=refused",
                "refused: rx op=ack -> set:syndrome=0x62 count=1",
            ],
        )
    },
    Case {
        applied: &[("silence", 1)],
        check: silence_is_a_timeout,
        ..writes("silence", &["silence: rx op=ack -> mute=150ms count=1"])
    },
    Case {
        applied: &[("gone", 8)],
        ending: Ending::Fails("Failed status 12:"),
        check: black_hole_ends_the_client,
        // rxe knows no end of repetitions if the count is 7, which is what these programs ask for otherwise.
        server: Some("ib_write_bw -d rxe0 -F -R -p PORT -n 5 -s 65536"),
        client: "ib_write_bw -d rxe0 -F -R --retry_count 1 -p PORT -n 5 -s 65536 SERVER",
        ..writes("black-hole", &["gone: tx op=write pkt=20.. -> drop"])
    },
    Case {
        applied: &[("slow", 10)],
        check: answers_are_late,
        rules: &["slow: rx op=read-resp -> delay=20ms"],
        server: Some(READS),
        client: READS_TO,
        name: "late-response",
        ..CLEAN
    },
    Case {
        applied: &[("swapped", 1)],
        check: swapped_packets_draw_a_nak,
        ..writes("reordered", &["swapped: tx op=write part=middle -> hold=1 skip=5 count=1"])
    },
    Case {
        applied: &[("twice", 5)],
        check: copies_harm_nobody,
        ..sends("doubled", &["twice: tx op=send -> dup count=5"])
    },
    Case {
        applied: &[("marked", 80)],
        check: marks_arrive,
        ..writes("marked", &["marked: tx op=write -> ce"])
    },
    Case {
        applied: &[("bent", 1)],
        check: damage_is_repaired,
        ..writes("damaged", &["bent: tx op=write part=middle -> corrupt=payload@17 skip=2 count=1"])
    },
    Case {
        applied: &[("busy", 5)],
        check: client_waits_for_the_receiver,
        server: Some("ibv_rc_pingpong -d rxe0 -g GID -p PORT -n 20 -s 1024"),
        client: "ibv_rc_pingpong -d rxe0 -g GID -p PORT -n 20 -s 1024 SERVER",
        ..sends("not-ready", &["busy: tx op=send -> answer:rnr:12 count=5"])
    },
    Case {
        applied: &[("lost-rtu", 1)],
        check: rtu_is_repeated,
        rules: &["lost-rtu: tx op=rtu -> drop count=1"],
        server: Some(CALL),
        client: CALL_TO,
        name: "lost-rtu",
        ..CLEAN
    },
    Case {
        name: "lossy",
        rules: &["loss: any -> drop p=0.01"],
        server: Some("ibv_rc_pingpong -d rxe0 -g GID -p PORT -n 200"),
        client: "ibv_rc_pingpong -d rxe0 -g GID -p PORT -n 200 SERVER",
        applied: &[("loss", 1)],
        check: losses_are_repaired,
        ..CLEAN
    },
];

fn only_ping(witness: &Witness) -> Result<String> {
    let text = &witness.client.text;
    let line = text.lines().find(|line| line.contains("packet loss")).unwrap_or_default();
    must(line.contains(" 0% packet loss"), || format!("ping lost something: {line}"))?;
    let packets = witness.near.sights.len() + witness.far.sights.len();
    must(packets == 0, || format!("{packets} packets of RoCE came from nowhere"))?;
    Ok("3 replies".to_owned())
}

fn is_write(sight: &Sight) -> bool {
    sight.is_of_client() && sight.does(Operation::Write)
}

fn is_middle(sight: &Sight) -> bool {
    is_write(sight)
        && sight.packet.opcode_info.is_some_and(|info| info.position == Position::Middle)
}

/// The PSN of the N-th WRITE MIDDLE that the client sent, from 0.
fn psn_of_middle(wire: &Wire, place: usize) -> Result<u32> {
    let middles = wire.all(is_middle);
    middles
        .get(place)
        .map(|sight| sight.psn())
        .ok_or_else(|| Error::new("there are too few WRITE MIDDLEs"))
}

/// The server asked once for the packet with `psn`, the client sent it again for that reason, and it arrived.
fn must_be_repaired(witness: &Witness, psn: u32) -> Result<()> {
    for (name, wire) in [("near", &witness.near), ("far", &witness.far)] {
        let psns: Vec<u32> = wire.naks(NakCode::PsnSequence).iter().map(|nak| nak.psn()).collect();
        must(psns.iter().filter(|asked| **asked == psn).count() == 1, || {
            format!("the NAKs at the {name} tap have PSNs {psns:x?}, and not once {psn:x}")
        })?;
    }
    let copies = witness.near.all(|sight| is_write(sight) && sight.psn() == psn);
    let cause = copies.get(1).and_then(|copy| copy.again).map(|again| again.cause);
    let by_nak = [RetransmissionCause::SequenceNak, RetransmissionCause::SelectiveRepair];
    must(cause.is_some_and(|cause| by_nak.contains(&cause)), || {
        format!("PSN {psn:x} was sent {} times, again because of {cause:?}", copies.len())
    })
}

fn third_middle_is_repeated(witness: &Witness) -> Result<String> {
    let psn = psn_of_middle(&witness.near, 2)?;
    must_be_repaired(witness, psn)?;
    let of_psn = |wire: &Wire| wire.count(|sight| is_write(sight) && sight.psn() == psn);
    let (sent, arrived) = (of_psn(&witness.near), of_psn(&witness.far));
    must(sent == arrived + 1, || {
        format!("PSN {psn:x} was sent {sent} times, and arrived {arrived} times")
    })?;
    let again = witness.near.count(|sight| sight.again.is_some());
    Ok(format!("one NAK for the lost PSN; {again} packets sent again"))
}

fn refusal_ends_the_client(witness: &Witness) -> Result<String> {
    let [near, far] =
        [&witness.near, &witness.far].map(|wire| wire.naks(NakCode::RemoteAccess).len());
    must((near, far) == (1, 0), || {
        format!("{near} refusals at the near tap, {far} at the far one")
    })?;
    let findings = witness.near.findings();
    must(findings.contains(&"fatal-nak"), || {
        format!("analyze does not tell of the NAK at the near tap: {findings:?}")
    })?;
    Ok("NAK remote access error at the near tap only".to_owned())
}

fn silence_is_a_timeout(witness: &Witness) -> Result<String> {
    let timeouts = witness.near.sent_again(RetransmissionCause::AckTimeout);
    must(timeouts > 0, || "nothing was sent again by a timeout".to_owned())?;
    let acks = |wire: &Wire| wire.count(|sight| sight.role == Role::Acknowledgement);
    let (heard, said) = (acks(&witness.near), acks(&witness.far));
    must(heard < said, || format!("{said} ACKs left, and {heard} arrived"))?;
    let first = |wire: &Wire| {
        let ack = wire.all(|sight| sight.role == Role::Acknowledgement);
        ack.first().map_or(0, |ack| ack.packet.time.as_nanos())
    };
    let silent = Duration::from_nanos(first(&witness.near).saturating_sub(first(&witness.far)));
    must(silent >= SILENCE, || format!("an ACK arrived {silent:?} after the first one left"))?;
    Ok(format!("{} ACKs lost; {timeouts} packets sent again by timeout", said - heard))
}

fn black_hole_ends_the_client(witness: &Witness) -> Result<String> {
    let arrived = witness.far.count(is_write);
    must(arrived == 19, || format!("{arrived} WRITE packets arrived, not 19"))?;
    let lost = witness.near.all(is_write).get(19).map(|sight| sight.psn());
    let copies = witness.near.count(|sight| is_write(sight) && Some(sight.psn()) == lost);
    must(copies == 2, || format!("the first lost packet was sent {copies} times, not twice"))?;
    let again = witness.near.sent_again(RetransmissionCause::AckTimeout);
    must(again > 0, || "nothing was sent again by a timeout".to_owned())?;
    Ok(format!("19 packets arrive; {again} sent again by timeout, once each as the client asked"))
}

fn answers_are_late(witness: &Witness) -> Result<String> {
    let (shortest, _) = round_trips(&witness.near)?;
    let (before, _) = round_trips(&witness.far)?;
    must(shortest >= LATE, || format!("the shortest round trip is {shortest:?}"))?;
    must(before < LATE, || format!("the server itself took {before:?} at least"))?;
    let typical = least_latency(&witness.client.text);
    let is_late = typical.is_some_and(|least| least >= LATE.as_micros() as f64);
    must(is_late, || format!("the client measured {typical:?} us"))?;
    Ok(format!(
        "shortest round trip {} us, {} us at the far tap",
        shortest.as_micros(),
        before.as_micros()
    ))
}

fn round_trips(wire: &Wire) -> Result<(Duration, Duration)> {
    wire.round_trips().ok_or_else(|| Error::new("there are no round trips"))
}

/// `t_min` of perftest, in microseconds: the third number of the line of figures.
fn least_latency(text: &str) -> Option<f64> {
    let behind = text.lines().skip_while(|line| !line.contains("t_min[usec]")).nth(1)?;
    behind.split_whitespace().nth(2)?.parse().ok()
}

fn swapped_packets_draw_a_nak(witness: &Witness) -> Result<String> {
    let psn = psn_of_middle(&witness.near, 5)?;
    let arrived: Vec<u32> = witness.far.all(is_write).iter().map(|sight| sight.psn()).collect();
    let place = arrived.iter().position(|other| *other == psn).unwrap_or_default();
    let before = place.checked_sub(1).map(|place| arrived[place]);
    must(before == Some((psn + 1) & 0xff_ffff), || format!("before PSN {psn:x} came {before:x?}"))?;
    must_be_repaired(witness, psn)?;
    Ok("PSN + 1 comes first; one NAK; sent again".to_owned())
}

fn copies_harm_nobody(witness: &Witness) -> Result<String> {
    let sends =
        |wire: &Wire| wire.count(|sight| sight.is_of_client() && sight.does(Operation::Send));
    let (sent, arrived) = (sends(&witness.near), sends(&witness.far));
    must(arrived == sent + 5, || format!("{sent} SEND packets left and {arrived} arrived"))?;
    let refused = witness.far.naks(NakCode::PsnSequence).len();
    must(refused == 0, || format!("{refused} copies were taken for something else"))?;
    Ok(format!("{sent} packets sent, {arrived} arrive"))
}

fn marks_arrive(witness: &Witness) -> Result<String> {
    let marked = |wire: &Wire| {
        wire.count(|sight| is_write(sight) && sight.packet.is_congestion_experienced())
    };
    let (sent, arrived) = (marked(&witness.near), marked(&witness.far));
    let writes = witness.far.count(is_write);
    must((sent, arrived) == (0, writes), || {
        format!("{sent} marked packets left, {arrived} of {writes} arrived")
    })?;
    let damaged = witness.far.damaged();
    must(damaged == 0, || format!("{damaged} ICRCs are wrong: the mark is not under it"))?;
    let notices = witness.near.count(|sight| sight.role == Role::CongestionNotification);
    Ok(format!("{arrived} of {writes} WRITE packets marked; rxe answers with {notices} CNPs"))
}

fn damage_is_repaired(witness: &Witness) -> Result<String> {
    let (sent, arrived) = (witness.near.damaged(), witness.far.damaged());
    must((sent, arrived) == (0, 1), || {
        format!("{sent} damaged packets left and {arrived} arrived")
    })?;
    must_be_repaired(witness, psn_of_middle(&witness.near, 2)?)?;
    Ok("one wrong ICRC at the far tap; one NAK; sent again".to_owned())
}

fn client_waits_for_the_receiver(witness: &Witness) -> Result<String> {
    let is_refusal = |sight: &Sight| sight.role == Role::RnrNak && !sight.is_of_client();
    let (heard, said) = (witness.near.all(is_refusal), witness.far.count(is_refusal));
    must((heard.len(), said) == (5, 0), || {
        format!("{} RNR NAKs at the near tap, {said} at the far one", heard.len())
    })?;
    // A guest that stands still for a while may send a request twice behind one wait.
    let is_refused = |sight: &Sight| heard.iter().any(|nak| nak.psn() == sight.psn());
    let is_again = |sight: &Sight| sight.is_of_client() && sight.again.is_some();
    let again = witness.near.count(|sight| is_again(sight) && is_refused(sight));
    must(again >= 5, || format!("{again} of the packets that were refused were sent again"))?;
    let waited = witness.near.sent_again(RetransmissionCause::RnrNak);
    must(waited > 0, || "no packet was sent again because of an RNR NAK".to_owned())?;
    Ok(format!("5 RNR NAKs at the near tap only; {again} packets sent again"))
}

fn rtu_is_repeated(witness: &Witness) -> Result<String> {
    let rtus = |wire: &Wire| wire.count(|sight| sight.is_message(RTU));
    let (sent, arrived) = (rtus(&witness.near), rtus(&witness.far));
    must(sent == arrived + 1, || format!("{sent} RTUs left and {arrived} arrived"))?;
    Ok(format!("{sent} RTUs sent, {arrived} arrive; the call works"))
}

fn losses_are_repaired(witness: &Witness) -> Result<String> {
    let lost = witness.applied("loss");
    let again = witness.near.count(|sight| sight.again.is_some());
    must(again > 0, || format!("{lost} packets were lost and none was sent again"))?;
    let findings = [&witness.near, &witness.far].map(Wire::findings).concat();
    must(findings.is_empty(), || format!("analyze complains: {findings:?}"))?;
    Ok(format!("{lost} packets lost, {again} sent again, each for a reason"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_rules_that_it_counts() {
        for (place, case) in CASES.iter().enumerate() {
            assert!(CASES[..place].iter().all(|other| other.name != case.name), "{}", case.name);
            let is_a_rule =
                |name: &str| case.rules.iter().any(|rule| rule.starts_with(&format!("{name}:")));
            assert!(case.applied.iter().all(|(name, _)| is_a_rule(name)), "{}", case.name);
            assert_eq!(case.rules.is_empty(), case.applied.is_empty(), "{}", case.name);
        }
    }

    #[test]
    fn the_least_latency_is_the_third_number() {
        let text = " #bytes #iterations    t_min[usec]    t_max[usec]\n 2       10          20123.45       20999.10\n";
        assert_eq!(least_latency(text), Some(20_123.45));
        assert_eq!(least_latency("nothing"), None);
    }
}
