//! Whatever is lost, late or doubled on the way, and whoever keeps what comes behind a gap: every
//! message arrives once, in order and whole (I1, I3, I5, I6, ADR 17).

use std::collections::HashMap;

use proptest::prelude::*;
use uroce_transport::*;

use crate::harness::*;

/// What happens to the packets, by a number drawn for each.
#[derive(Debug, Clone)]
struct Wire {
    fates: Vec<u8>,
    loss: u8,
    late: u8,
    double: u8,
}

fn wire() -> impl Strategy<Value = Wire> {
    let fates = proptest::collection::vec(any::<u8>(), 64..512);
    (fates, 0..40u8, 0..20u8, 0..20u8).prop_map(|(fates, loss, late, double)| Wire {
        fates,
        loss,
        late,
        double,
    })
}

impl Wire {
    /// One and the same packet is lost twice at most: every walk comes to its end.
    fn install(self, pair: &mut Pair) {
        let mut lost: HashMap<(usize, u32, u8), u32> = HashMap::new();
        let mut count = 0;
        pair.filter(move |seen| {
            let draw = self.fates[count % self.fates.len()];
            count += 1;
            let times = lost.entry((seen.from, seen.psn, seen.opcode.0)).or_default();
            if draw < self.loss && *times < 2 {
                *times += 1;
                return Fate::Drop;
            }
            let behind = draw.wrapping_sub(self.loss);
            match behind {
                _ if draw < self.loss => Fate::Deliver,
                behind if behind < self.late => Fate::Delay(u64::from(draw) * 500),
                behind if behind < self.late + self.double => Fate::DuplicateLate(700),
                _ => Fate::Deliver,
            }
        });
    }
}

/// Sixteen messages of all kinds by node 0; returns what its counter must be at the end.
fn post(pair: &mut Pair, length: u32) -> u64 {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let (word, add) = (pair.nodes[1].va(900_000), 3);
    pair.nodes[0].fill(0, &pattern(5, 16 * length as usize));
    for wr_id in 0..16u64 {
        let at = wr_id as u32 * length;
        let source = [pair.nodes[0].sge(at as usize, length)];
        let place = va + u64::from(at);
        let op = match wr_id % 4 {
            0 => SendOp::Write { va: place, rkey },
            1 => SendOp::WriteWithImm { va: place, rkey, imm: wr_id as u32 },
            2 => SendOp::SendWithImm(wr_id as u32),
            _ => SendOp::FetchAdd { va: word, rkey, add },
        };
        let result = [pair.nodes[0].sge(900_000 + 8 * wr_id as usize, 8)];
        let sges = if wr_id % 4 == 3 { &result } else { &source };
        pair.nodes[0].send(&wr_sges(wr_id, op, sges)).unwrap();
        let landing = pair.nodes[1].sge(at as usize, length);
        if matches!(wr_id % 4, 1 | 2) {
            pair.nodes[1].recv(wr_id, &[landing]).unwrap();
        }
    }
    4 * add
}

fn check(pair: &mut Pair, length: u32, counter: u64) {
    let done = pair.nodes[0].sends();
    assert!(done.iter().map(|wc| (wc.wr_id, wc.is_ok())).eq((0..16).map(|id| (id, true))));
    let got: Vec<_> = pair.nodes[1].recvs().iter().map(|wc| (wc.wr_id, wc.imm)).collect();
    let due = (0..16u64).filter(|id| matches!(id % 4, 1 | 2)).map(|id| (id, Some(id as u32)));
    assert_eq!(got, due.collect::<Vec<_>>());
    assert_eq!(pair.nodes[1].region.load_u64(900_000).unwrap(), counter, "I5");
    let length = length as usize;
    let whole = pattern(5, 16 * length);
    for index in (0..16).filter(|index| index % 4 != 3) {
        let range = index * length..(index + 1) * length;
        assert_eq!(pair.nodes[1].bytes(range.start, length), whole[range], "message {index}");
    }
    assert_eq!(pair.nodes[1].reorder_buffers.lent(), 0, "I10");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i1_i3_every_message_arrives_once_and_in_order(
        wire in wire(),
        keeps: bool,
        repairs: bool,
        probes: bool,
        length in 1..8_000u32,
        psn in prop_oneof![0..0x100_0000u32, 0xff_ff00..0x100_0000u32],
    ) {
        let mut pair = Pair::new(Setup {
            keeps: [false, keeps],
            repairs: [repairs, false],
            probes: [probes, false],
            psn: [psn, 0x900],
            timeout: 8,
            ..Setup::default()
        });
        wire.install(&mut pair);
        let counter = post(&mut pair, length);
        pair.run();
        check(&mut pair, length, counter);
    }
}
