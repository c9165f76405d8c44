use std::time::Duration;

use uroce_wire::NakCode;

use super::scene::{Scene, management};
use crate::judge::EndKind;

const MS: Duration = Duration::from_millis(1);

/// SENDs of which the capture lacks every tenth, though they are acknowledged.
fn lossy() -> Scene {
    let mut scene = Scene::connected();
    for psn in 10..200 {
        if psn % 10 != 0 {
            scene.send(psn);
        }
        if psn % 10 == 5 {
            scene.ack(psn, psn + 1);
        }
    }
    scene
}

#[test]
fn a_capture_that_lacks_packets_says_so_once() {
    let findings = lossy().findings();
    let names: Vec<_> = findings.iter().map(|finding| finding.rule.name).collect();
    assert_eq!(names, ["capture-incomplete"]);
    assert_eq!(findings[0].count, 1);
    Scene::connected().keeps("capture-incomplete");
}

#[test]
fn rules_that_need_all_packets_are_not_judged_then() {
    let mut scene = lossy();
    scene.response(uroce_wire::Opcode::RC_READ_RESPONSE_ONLY, 190, 8);
    scene.keeps("response-unknown");
}

#[test]
fn packets_that_overtook_each_other_are_no_finding() {
    let mut scene = Scene::connected();
    for psn in [11, 10, 13, 12, 15, 14] {
        scene.send(psn);
    }
    scene.ack(15, 16);
    scene.ack(13, 14);
    scene.keeps_all();
}

#[test]
fn silence_in_a_capture_that_lacks_packets_is_no_death() {
    let silent = |mut scene: Scene| {
        (0..4).for_each(|_| {
            scene.send(200);
            scene.wait(MS * 100);
        });
        scene.wait(MS * 1000);
        scene.give(management(false), &[]);
        scene
    };
    assert_eq!(silent(lossy()).explanations(), []);
    let mut refused = silent(lossy());
    refused.nak(200, NakCode::RemoteAccess);
    let kinds: Vec<_> = refused.explanations().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [EndKind::FatalNak], "a NAK shows it all the same");
}

/// Answers were not captured. A requester that has sent other packets since has not given up.
#[test]
fn probes_of_a_capture_without_answers_are_no_death() {
    let probes = |last| {
        let mut scene = Scene::new();
        for _ in 0..4 {
            scene.send(10);
            scene.wait(MS * 13 / 10);
        }
        (11..last).for_each(|psn| scene.send(psn));
        scene.wait(MS * 1000);
        scene.give(management(false), &[]);
        scene
    };
    probes(5000).keeps("unanswered");
    assert_eq!(probes(5000).explanations(), []);
    probes(11).breaks("unanswered");
}

/// A requester that repeats a later packet than the first one had answers, and the capture has none.
#[test]
fn silence_in_a_capture_of_one_direction_is_no_death() {
    let repeats = |psn| {
        let mut scene = Scene::new();
        (10..60).for_each(|psn| scene.send(psn));
        for _ in 0..3 {
            scene.wait(MS * 67);
            scene.send(psn);
        }
        scene.wait(MS * 1000);
        scene.give(management(false), &[]);
        scene
    };
    repeats(59).keeps("unanswered");
    assert_eq!(repeats(59).explanations(), []);
    repeats(10).breaks("unanswered");
    assert_eq!(repeats(10).explanations().len(), 1, "not even the first one was answered");
}

#[test]
fn what_is_under_way_is_not_known_without_answers() {
    let all_psns = |mut scene: Scene| {
        (0..150).for_each(|step| scene.send(10 + step * 60_000));
        scene
    };
    all_psns(Scene::new()).keeps("psn-window");
    all_psns(Scene::connected()).breaks("psn-window");
}
