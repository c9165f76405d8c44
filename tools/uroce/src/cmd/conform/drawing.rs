//! The packets of a case as ladders.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use uroce_analyze::{LadderBuilder, LadderConfig, Mark, Packet, PsnStyle, Timestamp};
use uroce_conform::{Entry, Side};
use uroce_wire::{Bth, Header, Qpn};

use crate::terminal;

/// Ladders of one case; a case with more pairs of queue pairs than this has the others in one.
const MOST: usize = 16;

/// The two ends of the wire.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// The tester's address.
    pub tester: IpAddr,
    /// The address of the NIC under test.
    pub peer: IpAddr,
    /// The UDP port of RoCE.
    pub port: u16,
}

/// Draws what passed: a ladder for each pair of queue pairs, and behind them what the agent did.
pub fn draw(transcript: &[Entry], ends: Ends) -> String {
    let pairs: Vec<(u32, u32)> = transcript.iter().filter_map(pair).take(MOST).collect();
    let config = LadderConfig { psns: PsnStyle::Relative, ..LadderConfig::default() };
    // The last one is for packets of no pair.
    let mut ladders: Vec<Option<LadderBuilder>> = (0..=pairs.len()).map(|_| None).collect();
    for (number, entry) in (1..).zip(transcript) {
        let Some((packet, side, note)) = packet(number, entry, ends) else { continue };
        let qpn = packet.bth.dest_qpn.get();
        let is_of = |(tester, peer): &(u32, u32)| match side {
            Side::Tester => *peer == qpn,
            Side::Peer => *tester == qpn,
        };
        let at = pairs.iter().rposition(is_of);
        let sender = at.map(|at| match side {
            Side::Tester => Qpn::new(pairs[at].0),
            Side::Peer => Qpn::new(pairs[at].1),
        });
        let ladder =
            ladders[at.unwrap_or(pairs.len())].get_or_insert_with(|| LadderBuilder::new(config));
        let mark =
            Mark { source_qpn: sender, notes: note.into_iter().collect(), ..Mark::default() };
        ladder.handle_packet(&packet, mark);
    }
    let drawn = ladders.into_iter().flatten().filter_map(LadderBuilder::finish);
    let drawn: String = drawn.map(|ladder| ladder.to_text(terminal::style()) + "\n").collect();
    let notes = transcript.iter().filter(|entry| matches!(entry, Entry::Note { .. }));
    drawn + &notes.map(|entry| format!("{entry}\n")).collect::<String>()
}

fn pair(entry: &Entry) -> Option<(u32, u32)> {
    match entry {
        Entry::Connected { tester, peer, .. } => Some((*tester, *peer)),
        _ => None,
    }
}

/// A packet as `uroce ladder` has it, its sender, and what is wrong with it. One that has no whole BTH is not drawn.
fn packet(number: u64, entry: &Entry, ends: Ends) -> Option<(Packet, Side, Option<String>)> {
    let Entry::Packet { at, side, bytes, traffic_class, source_port } = entry else { return None };
    let mut packet = Packet::new(Bth::read(bytes)?);
    let (from, to) = match side {
        Side::Tester => (ends.tester, ends.peer),
        Side::Peer => (ends.peer, ends.tester),
    };
    packet.frame = number;
    packet.time = Timestamp::from_nanos(nanoseconds(*at));
    packet.source = SocketAddr::new(from, *source_port);
    packet.destination = SocketAddr::new(to, ends.port);
    packet.traffic_class = *traffic_class;
    let note = match uroce_wire::Packet::parse(bytes) {
        Ok(parsed) => {
            take_headers(&mut packet, &parsed);
            None
        }
        Err(error) => Some(format!("malformed: {error}")),
    };
    Some((packet, *side, note))
}

fn take_headers(packet: &mut Packet, parsed: &uroce_wire::Packet<'_>) {
    packet.reth = parsed.reth();
    packet.aeth = parsed.aeth();
    packet.deth = parsed.deth();
    packet.feth = parsed.feth();
    packet.atomic_eth = parsed.atomic_eth();
    packet.atomic_ack = parsed.atomic_ack_eth().map(|answer| answer.original);
    packet.immediate = parsed.immdt();
    packet.invalidate_rkey = parsed.ieth();
    packet.payload_len = parsed.payload().len() as u32;
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use uroce_wire::{Opcode, Psn};

    use super::*;

    fn sent(side: Side, opcode: Opcode, qpn: u32, psn: u32) -> Entry {
        let mut bytes = vec![0; Bth::LEN];
        let written = Bth::new(opcode, Qpn::new(qpn), Psn::new(psn)).write(&mut bytes);
        written.expect("room for a BTH");
        let header: &[u8] = match opcode {
            Opcode::RC_ACKNOWLEDGE => &[31, 0, 0, 1],
            _ => &[0; 16],
        };
        bytes.extend([header, &[0; uroce_wire::ICRC_LEN]].concat());
        Entry::Packet { at: Duration::ZERO, side, bytes, traffic_class: 0, source_port: 0xc0de }
    }

    #[test]
    fn each_pair_of_queue_pairs_has_its_ladder() {
        let at = Duration::ZERO;
        let ends = Ends {
            tester: [192, 0, 2, 2].into(),
            peer: [192, 0, 2, 1].into(),
            port: uroce_wire::ROCE_PORT,
        };
        let transcript = [
            Entry::Connected { at, tester: 0x10_0001, peer: 0x11 },
            Entry::Connected { at, tester: 0x10_0002, peer: 0x12 },
            Entry::Note { at, text: "Look".to_owned() },
            sent(Side::Tester, Opcode::RC_WRITE_ONLY, 0x11, 5),
            sent(Side::Tester, Opcode::RC_WRITE_ONLY, 0x12, 9),
            sent(Side::Peer, Opcode::RC_ACKNOWLEDGE, 0x10_0002, 9),
            sent(Side::Peer, Opcode::RC_ACKNOWLEDGE, 0x10_0001, 5),
        ];
        let text = draw(&transcript, ends);
        for part in ["0x100001", "0x100002", "0x000011", "0x000012", "Look"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("WRITE").count(), 2, "{text}");
        assert_eq!(text.matches("ACK").count(), 2, "{text}");
    }
}
