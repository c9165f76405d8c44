//! Counts for each conversation.

use serde::Serialize;

use super::columns::Columns;
use super::kind::PacketKind;

/// Counts of one conversation; pairs are "sent by the first end, sent by the second end".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Statistics {
    /// Packets.
    pub packets: [u64; 2],
    /// Bytes of payload.
    pub payload: [u64; 2],
    /// Packets that were sent again.
    pub retransmissions: [u64; 2],
    /// NAKs.
    pub naks: [u64; 2],
    /// RNR NAKs.
    pub rnrs: [u64; 2],
    /// Congestion notification packets.
    pub cnps: [u64; 2],
    /// Packets that the network marked.
    pub marked: [u64; 2],
    /// Damaged packets: their ICRC is wrong where others are right.
    pub damaged: [u64; 2],
    /// When its earliest and its latest packet were seen, in nanoseconds since the first packet of the
    /// page.
    pub time: Option<[i64; 2]>,
}

/// Bit of a packet that was seen before, at another interface.
const SECOND: u32 = 10;
/// Bit of a damaged packet.
const DAMAGED: u32 = 12;

/// Which conversation a flow belongs to, and which end sends it.
pub(super) type FlowEntry = Option<(usize, usize)>;

/// The counts of `conversations` conversations.
pub(super) fn count(
    columns: &Columns,
    flows: &[FlowEntry],
    conversations: usize,
) -> Vec<Statistics> {
    let mut all = vec![Statistics::default(); conversations];
    let mut time = 0_i64;
    for row in 0..columns.frame.len() {
        let get = |column: &super::column::Column| column.get(row).unwrap_or(0);
        let step = get(&columns.time_high) << 32 | get(&columns.time_low);
        time = time.wrapping_add(step.cast_signed());
        let flow = usize::try_from(get(&columns.flow)).unwrap_or(usize::MAX);
        let Some(Some((conversation, end))) = flows.get(flow).copied() else { continue };
        let Some(statistics) = all.get_mut(conversation) else { continue };
        if get(&columns.flags) >> SECOND & 1 == 1 {
            continue;
        }
        statistics.add(end, get(&columns.kind), get(&columns.flags), get(&columns.length));
        let [first, last] = statistics.time.unwrap_or([time, time]);
        statistics.time = Some([first.min(time), last.max(time)]);
    }
    all
}

impl Statistics {
    fn add(&mut self, end: usize, kind: u64, flags: u64, length: u64) {
        let is = |wanted: PacketKind| kind == wanted as u64;
        let has = |bit: u32| flags >> bit & 1;
        let counts = [
            (&mut self.packets, 1),
            (&mut self.payload, if is(PacketKind::Read) { 0 } else { length }),
            (&mut self.retransmissions, has(1)),
            (&mut self.naks, u64::from(is(PacketKind::Nak))),
            (&mut self.rnrs, u64::from(is(PacketKind::Rnr))),
            (&mut self.cnps, u64::from(is(PacketKind::Cnp))),
            (&mut self.marked, has(5)),
            (&mut self.damaged, has(DAMAGED)),
        ];
        for (pair, count) in counts {
            pair[end & 1] += count;
        }
    }

    /// Nanoseconds from its first packet to its last.
    pub(super) fn duration(&self) -> u64 {
        self.time.map_or(0, |[first, last]| last.abs_diff(first))
    }
}

#[cfg(test)]
mod tests {
    use super::super::builder::{ViewBuilder, ViewConfig};
    use super::super::testing::Sample;
    use super::*;
    use crate::{IcrcStatus, Timestamp};

    #[test]
    fn the_bits_are_those_of_their_flags() {
        let of = |bit: u32| super::super::columns::FLAGS[bit as usize].0;
        assert_eq!((of(SECOND), of(DAMAGED)), ("second", "damaged"));
    }

    #[test]
    fn a_wrong_icrc_alone_is_no_damage() {
        let mut builder = ViewBuilder::new(ViewConfig::default());
        for is_damaged in [false, false, true] {
            let mut sample = Sample::write();
            sample.packet.icrc = IcrcStatus::Wrong { found: 0, expected: 1 };
            sample.facts.is_damaged = is_damaged;
            builder.handle_packet(&sample.row());
        }
        let counts = count(&builder.packets.columns, &[Some((0, 0))], 1);
        assert_eq!((counts[0].packets, counts[0].damaged), ([3, 0], [1, 0]));
    }

    #[test]
    fn each_end_is_counted_by_itself() {
        let mut builder = ViewBuilder::new(ViewConfig::default());
        for (nanoseconds, flow) in [(0, 0), (700, 1), (400, 1), (900, 2)] {
            let mut sample = Sample::write();
            sample.packet.time = Timestamp::from_nanos(nanoseconds);
            sample.facts.flow = flow;
            sample.facts.is_retransmission = nanoseconds == 400;
            builder.handle_packet(&sample.row());
        }
        let flows = [Some((0, 0)), Some((0, 1)), None];
        let counts = count(&builder.packets.columns, &flows, 1);
        assert_eq!((counts[0].packets, counts[0].payload), ([1, 2], [64, 128]));
        assert_eq!((counts[0].retransmissions, counts[0].duration()), ([0, 1], 700));
    }
}
