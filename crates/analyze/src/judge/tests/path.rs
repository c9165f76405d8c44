use uroce_wire::Opcode;

use super::scene::{Scene, request};
use crate::Packet;

/// A connection of which one more packet is changed.
fn changed(change: impl FnOnce(&mut Packet)) -> Scene {
    let mut scene = Scene::connected();
    let mut packet = request(Opcode::RC_SEND_ONLY, 10, 100);
    change(&mut packet);
    scene.give(packet, &[]);
    scene
}

#[test]
fn ports_and_dscp_that_change_are_notes() {
    let port = |packet: &mut Packet| packet.source.set_port(1);
    let finding = changed(port).breaks("source-port-changes");
    assert!(finding.text.contains("port 1, in frame 1 50000"), "{}", finding.text);
    changed(port).keeps_all();
    changed(|packet| packet.traffic_class = 4).breaks("dscp-changes");
    changed(|packet| packet.traffic_class = 3).keeps("dscp-changes");
    changed(|_| ()).keeps("source-port-changes");
}

#[test]
fn the_partition_of_a_connection_stays_the_membership_may_not() {
    changed(|packet| packet.bth.pkey = 0x8001).breaks("pkey-changes");
    changed(|packet| packet.bth.pkey = 0x7fff).keeps("pkey-changes");
}

#[test]
fn migreq_that_changes_or_differs_between_the_ends() {
    changed(|packet| packet.bth.migreq = false).breaks("migreq-changes");
    changed(|_| ()).keeps("migreq-changes");
    let mut scene = Scene::new();
    for psn in 0..10 {
        let mut packet = request(Opcode::RC_SEND_ONLY, psn, 100);
        packet.bth.migreq = false;
        scene.give(packet, &[]);
        scene.ack(psn, psn + 1);
    }
    let finding = scene.breaks("migreq-differs");
    assert_eq!(finding.flow.map(|flow| flow.destination_qpn.get()), Some(0x22));
    Scene::connected().keeps("migreq-differs");
}
