use proptest::prelude::*;
use uroce_wire::{Aeth, AtomicEth, Opcode, Reth, Syndrome};

use super::scene::{Scene, back, request};
use crate::{IcrcStatus, Packet};

/// What one random packet is made of.
type Recipe = (u8, u32, u32, (bool, bool, bool), (u8, u32), (u64, u32));

fn made(
    (opcode, psn, bytes, (is_back, is_cut, is_wrong), (syndrome, msn), (va, length)): Recipe,
) -> Packet {
    let way = if is_back { back } else { request };
    let mut packet = way(Opcode(opcode), psn, bytes);
    packet.is_cut = is_cut;
    if is_wrong {
        packet.icrc = IcrcStatus::Wrong { found: 0, expected: 1 };
    }
    packet.aeth = (syndrome & 1 == 0).then_some(Aeth { syndrome: Syndrome(syndrome), msn });
    packet.reth = (length & 1 == 0).then_some(Reth { va, rkey: 0, length });
    packet.atomic_eth =
        (msn & 1 == 0).then_some(AtomicEth { va, rkey: 0, swap_add: va, compare: 1 });
    packet.atomic_ack = (va & 1 == 0).then_some(va);
    packet.bth.dest_qpn = uroce_wire::Qpn::new(msn % 3);
    packet
}

proptest! {
    #[test]
    fn no_packets_make_it_panic(
        recipes in prop::collection::vec(
            any::<(u8, u32, u32, (bool, bool, bool), (u8, u32), (u64, u32))>(), 0..200
        ),
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut scene = Scene::new();
        recipes.into_iter().for_each(|recipe| scene.give(made(recipe), &payload));
        for finding in scene.findings() {
            prop_assert!(finding.count >= finding.frames.len() as u64);
            prop_assert!(finding.frames.iter().all(|frame| *frame <= finding.last_frame));
        }
    }

    #[test]
    fn nearby_psns_do_not_either(
        recipes in prop::collection::vec(
            (0u8..0x1e, 0u32..20, 0u32..2050, any::<(bool, bool, bool)>(), any::<(u8, u32)>(),
             any::<(u64, u32)>()), 0..200
        ),
    ) {
        let mut scene = Scene::connected();
        recipes.into_iter().for_each(|recipe| scene.give(made(recipe), &[]));
        scene.explanations();
    }
}
