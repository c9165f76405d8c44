use uroce_wire::{Deth, Opcode, Qpn};

use super::scene::{Scene, request};
use crate::Packet;

fn datagram(psn: u32, bytes: u32) -> Packet {
    let deth = Some(Deth { qkey: 5, src_qpn: Qpn::new(9) });
    Packet { deth, ..request(Opcode::UD_SEND_ONLY, psn, bytes) }
}

#[test]
fn datagrams_have_no_order_and_no_path() {
    let mut scene = Scene::new();
    for psn in [5, 900_000, 5, 4, 70] {
        let mut packet = datagram(psn, 2048);
        packet.source.set_port(u16::try_from(psn & 0xff).expect("a byte"));
        packet.traffic_class = u8::try_from(psn & 0x7c).expect("a byte");
        packet.bth.pkey ^= u16::try_from(psn & 1).expect("a bit");
        scene.give(packet, &[]);
    }
    assert_eq!(scene.names(), [""; 0]);
}

#[test]
fn a_datagram_has_no_more_than_the_largest_path_mtu() {
    let one = |bytes| {
        let mut scene = Scene::new();
        scene.give(datagram(1, bytes), &[]);
        scene
    };
    one(4097).breaks("payload-too-long");
    one(4096).keeps_all();
}
