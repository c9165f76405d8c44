use super::scene::Scene;

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
