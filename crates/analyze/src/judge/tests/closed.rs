//! Connections that a DREQ closes while a request waits for its answer.

use std::time::Duration;

use uroce_cm::message::{Dreq, Rep, Req};

use super::connection::{drep, dreq, later, rep, req, rtu};
use super::scene::{ASKS, Scene};
use crate::judge::EndKind;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// rnr_retry that is for ever.
const FOR_EVER: u8 = 7;

/// A connection with 10 SENDs that are answered, and SEND 10 that is not yet.
fn sent(retry_count: u8, rnr_retry_count: u8) -> Scene {
    let mut scene = Scene::new();
    scene.mad(false, Req { retry_count, ..req() });
    scene.mad(true, Rep { rnr_retry_count, ..rep() });
    scene.mad(false, rtu());
    for psn in 0..10 {
        scene.send(psn);
        scene.ack(psn, psn + 1);
    }
    scene.send(10);
    scene
}

/// SEND 10 is sent so many times, 100 ms apart.
fn repeated(retry_count: u8, copies: u32) -> Scene {
    let mut scene = sent(retry_count, FOR_EVER);
    for _ in 1..copies {
        scene.wait(MS * 100);
        scene.send(10);
    }
    scene
}

/// SEND 10 meets so many RNR NAKs of 0.64 ms.
fn not_ready(rnr_retry_count: u8, naks: u32) -> Scene {
    let mut scene = sent(7, rnr_retry_count);
    scene.rnr(10);
    for _ in 1..naks {
        scene.wait(MS);
        scene.send(10);
        scene.rnr(10);
    }
    scene
}

/// The requester closes the connection after `pause`, and the capture goes on for long.
fn closed(mut scene: Scene, pause: Duration) -> Scene {
    scene.wait(pause);
    scene.mad(false, dreq());
    scene.mad(true, drep());
    later(scene)
}

/// The same, closed by the responder.
fn closed_by_responder(mut scene: Scene, pause: Duration) -> Scene {
    let (ours, theirs) = (dreq().local_comm_id, dreq().remote_comm_id);
    let remote_qpn = uroce_wire::Qpn::new(ASKS);
    scene.wait(pause);
    scene.mad(true, Dreq { local_comm_id: theirs, remote_comm_id: ours, remote_qpn, ..dreq() });
    later(scene)
}

fn kinds(scene: Scene) -> Vec<EndKind> {
    scene.explanations().iter().map(|it| it.kind).collect()
}

#[test]
fn a_requester_that_is_closed_while_it_repeats_has_not_failed() {
    for close in [closed, closed_by_responder] {
        let ends = || close(repeated(7, 4), MS * 20);
        ends().keeps("retries-exceeded");
        assert_eq!(kinds(ends()), []);
        let finding = ends().breaks("closed-unanswered");
        for part in ["PSN 0xa sent 4 times", "DREQ of frame 28", "retry_cnt 7"] {
            assert!(finding.text.contains(part), "{part} in {}", finding.text);
        }
    }
}

#[test]
fn a_requester_that_is_closed_behind_an_rnr_nak_has_not_failed() {
    for close in [closed, closed_by_responder] {
        let ends = || close(not_ready(FOR_EVER, 2), MS);
        ends().keeps("rnr-retries-exceeded");
        assert_eq!(kinds(ends()), []);
        let finding = ends().breaks("closed-unanswered");
        assert!(finding.text.contains("2 RNR NAKs"), "{}", finding.text);
    }
}

/// Nothing was ever answered, so that the flow of the answers is known from REQ and REP only.
#[test]
fn a_requester_that_nobody_answered_is_closed_by_its_peer() {
    let ends = |pause| {
        let mut scene = Scene::new();
        scene.mad(false, Req { retry_count: 7, ..req() });
        scene.mad(true, rep());
        for _ in 0..4 {
            scene.wait(MS * 100);
            scene.send(0);
        }
        closed_by_responder(scene, pause)
    };
    ends(MS * 20).keeps("unanswered");
    assert_eq!(kinds(ends(MS * 20)), []);
    ends(SECOND).breaks("unanswered");
}

#[test]
fn a_requester_that_was_answered_before_it_is_closed_owes_no_note() {
    for mut scene in [repeated(7, 4), not_ready(FOR_EVER, 2)] {
        scene.wait(MS);
        scene.send(10);
        scene.ack(10, 11);
        closed(scene, MS).keeps("closed-unanswered");
    }
    closed(repeated(7, 2), MS * 20).keeps("closed-unanswered");
}

/// A program also sends a DREQ when it ends because its queue pair failed.
#[test]
fn a_requester_that_was_silent_for_long_before_it_closed_has_failed() {
    for close in [closed, closed_by_responder] {
        assert_eq!(kinds(close(repeated(7, 4), SECOND)), [EndKind::RetriesExceeded]);
        assert_eq!(kinds(close(not_ready(FOR_EVER, 2), SECOND)), [EndKind::RnrRetriesExceeded]);
    }
    closed(repeated(7, 4), SECOND).breaks("retries-exceeded");
    closed(not_ready(FOR_EVER, 2), SECOND).breaks("rnr-retries-exceeded");
    closed(repeated(7, 4), SECOND).keeps("closed-unanswered");
}

#[test]
fn a_requester_that_used_up_its_retries_has_failed_though_it_closes_at_once() {
    let once_more = MS * 101;
    assert_eq!(kinds(closed(repeated(3, 4), once_more)), [EndKind::RetriesExceeded]);
    assert_eq!(kinds(closed(repeated(3, 4), MS * 20)), []);
    assert_eq!(kinds(closed(repeated(7, 4), once_more)), []);
    // More than the REQ allows: then it does not say when the requester gives up.
    assert_eq!(kinds(closed(repeated(2, 4), once_more)), []);
    assert_eq!(kinds(closed(not_ready(1, 2), MS)), [EndKind::RnrRetriesExceeded]);
    assert_eq!(kinds(closed(not_ready(2, 2), MS)), []);
}

/// Some requesters wait for longer each time.
#[test]
fn the_last_wait_may_be_twice_as_long_as_the_one_before() {
    let ends = |pause| {
        let mut scene = sent(3, FOR_EVER);
        for wait in [50, 100, 200] {
            scene.wait(MS * wait);
            scene.send(10);
        }
        kinds(closed(scene, pause))
    };
    assert_eq!(ends(MS * 201), []);
    assert_eq!(ends(MS * 420), [EndKind::RetriesExceeded]);
}

/// Its application has not closed its own end yet.
#[test]
fn a_requester_that_goes_on_behind_the_dreq_of_its_peer_has_a_note() {
    let ends = || {
        let mut scene = sent(7, FOR_EVER);
        let remote_qpn = uroce_wire::Qpn::new(ASKS);
        scene.mad(true, Dreq { remote_qpn, ..dreq() });
        for _ in 0..3 {
            scene.wait(MS * 100);
            scene.send(10);
        }
        later(scene)
    };
    assert_eq!(kinds(ends()), []);
    let finding = ends().breaks("closed-unanswered");
    assert!(finding.text.contains("behind the DREQ of frame 25"), "{}", finding.text);
}

/// A DREQ that names the wrong connection is not heeded.
#[test]
fn a_connection_that_goes_on_behind_a_dreq_can_still_fail() {
    let mut scene = sent(7, FOR_EVER);
    scene.mad(true, Dreq { remote_qpn: uroce_wire::Qpn::new(ASKS), ..dreq() });
    scene.wait(SECOND);
    scene.ack(10, 11);
    for _ in 0..4 {
        scene.send(11);
        scene.wait(MS * 100);
    }
    assert_eq!(kinds(later(scene)), [EndKind::RetriesExceeded]);
}
