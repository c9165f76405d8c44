//! Collects packets for a page.

use super::columns::optional;
use super::input::{ViewRow, ViewSummary};
use super::kind::{self, PacketKind};
use super::packet_table::PacketTable;
use super::page::Page;
use super::shape::{network_places, transport_places};
use crate::{IcrcStatus, Timestamp};

/// Bytes of headers that a page keeps of a packet.
const MAX_HEAD: usize = 512;
/// Bytes of an ICRC.
const ICRC: usize = 4;

/// What a page takes in.
#[derive(Debug, Clone, Copy)]
pub struct ViewConfig {
    /// Packets at most; those behind are counted and left out.
    pub max_packets: usize,
    /// Bytes of payload of each packet; 0 leaves payload out.
    pub payload_bytes: usize,
    /// Data are packed with gzip, which browsers since 2023 unpack.
    pub compress: bool,
}

impl Default for ViewConfig {
    fn default() -> Self {
        Self { max_packets: 200_000, payload_bytes: 0, compress: true }
    }
}

/// Collects packets for a page.
#[derive(Debug)]
pub struct ViewBuilder {
    config: ViewConfig,
    pub(super) packets: PacketTable,
    previous: Timestamp,
}

impl ViewBuilder {
    /// A page without packets.
    pub fn new(config: ViewConfig) -> Self {
        Self { config, packets: PacketTable::new(), previous: Timestamp::default() }
    }

    /// Packets that the page has.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// The page has no packets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets that were left out because the page is full.
    pub fn left_out(&self) -> u64 {
        self.packets.left_out
    }

    /// Takes a packet in, or counts it if the page is full.
    pub fn handle_packet(&mut self, row: &ViewRow<'_>) {
        if self.len() >= self.config.max_packets {
            self.packets.left_out += 1;
            return;
        }
        self.push_time(row.packet.time);
        self.push_packet(row);
        self.push_facts(row);
        self.push_bytes(row);
    }

    /// The page.
    pub fn finish(self, summary: &ViewSummary) -> Page {
        Page::new(&self.packets, summary, self.config.compress)
    }

    fn push_time(&mut self, time: Timestamp) {
        if self.is_empty() {
            self.previous = time;
        }
        // The clocks of two interfaces differ: the first packet may not be the earliest.
        self.packets.start = Some(self.packets.start.map_or(time, |start| start.min(time)));
        let since = time.difference(self.previous).cast_unsigned();
        self.previous = time;
        self.packets.columns.time_low.push(since & 0xffff_ffff);
        self.packets.columns.time_high.push(since >> 32);
    }

    fn push_packet(&mut self, row: &ViewRow<'_>) {
        let packet = row.packet;
        let asked = packet.reth.map_or(0, |reth| reth.length);
        let kind = PacketKind::of(packet);
        let length = match kind {
            PacketKind::Read => asked,
            // The 16 bytes of a CNP are reserved, and no payload.
            PacketKind::Cnp => 0,
            _ => packet.payload_len,
        };
        let icrc = match packet.icrc {
            IcrcStatus::Right => String::new(),
            other => other.to_string(),
        };
        let PacketTable { columns, strings, .. } = &mut self.packets;
        columns.frame.push(packet.frame);
        columns.opcode.push(packet.bth.opcode.0.into());
        columns.kind.push(kind as u64);
        columns.length.push(length.into());
        columns.wire.push(packet.wire_len.into());
        columns.wait.push(kind::rnr_wait_us(packet).into());
        columns.note.push(strings.index_of(&kind::note(packet)).into());
        columns.comment.push(strings.index_of(row.comment).into());
        columns.icrc.push(strings.index_of(&icrc).into());
    }

    fn push_facts(&mut self, row: &ViewRow<'_>) {
        let facts = &row.facts;
        let PacketTable { columns, strings, .. } = &mut self.packets;
        columns.flags.push(flags(row));
        columns.flow.push(facts.flow.into());
        columns.psn_low.push(facts.psn & 0xffff_ffff);
        columns.psn_high.push(facts.psn >> 32);
        columns.cause.push(strings.index_of(facts.cause).into());
        columns.first_seen.push(facts.first_seen.unwrap_or(0));
        columns.outstanding.push(optional(facts.outstanding));
        let units = facts.round_trip.map(|time| (time.as_nanos() / 10).try_into());
        columns.round_trip.push(optional(units.map(|units| units.unwrap_or(u64::MAX))));
    }

    fn push_bytes(&mut self, row: &ViewRow<'_>) {
        let kept = Kept::new(row, self.config.payload_bytes);
        let mut places = network_places(row.link_type, row.frame, row.bth);
        places.extend(transport_places(row.bth, row.packet.opcode_info));
        let layout = if kept.bth == row.bth { self.packets.layouts.index_of(places) } else { 0 };
        let columns = &mut self.packets.columns;
        columns.layout.push(layout.into());
        columns.head.push(kept.head() as u64);
        columns.payload.push(kept.payload.len() as u64);
        columns.tail.push(kept.icrc.len() as u64);
        columns.left_out.push(kept.left_out as u64);
        let parts = [kept.network, kept.transport, kept.payload, kept.icrc];
        parts.iter().for_each(|part| self.packets.bytes.extend_from_slice(part));
    }
}

/// The bits of [`super::columns::FLAGS`].
fn flags(row: &ViewRow<'_>) -> u64 {
    let (packet, facts) = (row.packet, &row.facts);
    let bits = [
        facts.is_response,
        facts.is_retransmission,
        facts.is_duplicate,
        facts.is_reordered,
        facts.is_behind_gap,
        packet.is_congestion_experienced(),
        packet.is_cut,
        matches!(packet.icrc, IcrcStatus::Wrong { .. }),
        packet.bth.solicited,
        packet.bth.ack_req,
        facts.is_second_sighting,
        facts.is_unsolicited,
        facts.is_damaged,
    ];
    bits.iter().enumerate().fold(0, |sum, (bit, set)| sum | u64::from(*set) << bit)
}

/// The bytes of a packet that a page keeps.
#[derive(Debug)]
struct Kept<'a> {
    /// Offset of the BTH among them.
    bth: usize,
    network: &'a [u8],
    transport: &'a [u8],
    payload: &'a [u8],
    icrc: &'a [u8],
    left_out: usize,
}

impl<'a> Kept<'a> {
    fn new(row: &ViewRow<'a>, payload_bytes: usize) -> Self {
        let network = row.frame.get(..row.bth).filter(|bytes| bytes.len() <= MAX_HEAD);
        let network = network.unwrap_or(&[]);
        let header_len = row.packet.opcode_info.map_or(12, |info| info.header_len);
        let (transport, rest) = split(row.transport, header_len);
        let icrc = if row.packet.is_cut { 0 } else { ICRC };
        let (body, icrc) = split(rest, rest.len().saturating_sub(icrc));
        let (payload, left_out) = split(body, payload_bytes);
        let (bth, left_out) = (network.len(), left_out.len());
        Self { bth, network, transport, payload, icrc, left_out }
    }

    fn head(&self) -> usize {
        self.network.len() + self.transport.len()
    }
}

fn split(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at(at.min(bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;

    #[test]
    fn a_full_page_counts_what_it_leaves_out() {
        let mut builder = ViewBuilder::new(ViewConfig { max_packets: 2, ..Default::default() });
        let sample = Sample::write();
        (0..5).for_each(|_| builder.handle_packet(&sample.row()));
        assert_eq!((builder.len(), builder.left_out()), (2, 3));
    }

    #[test]
    fn times_are_differences_that_may_be_negative() {
        let mut builder = ViewBuilder::new(ViewConfig::default());
        for nanoseconds in [5_000_000_000, 9_999_999_999, 9_999_999_998] {
            let mut sample = Sample::write();
            sample.packet.time = Timestamp::from_nanos(nanoseconds);
            builder.handle_packet(&sample.row());
        }
        let columns = &builder.packets.columns;
        let time = |row| {
            let [low, high] = [&columns.time_low, &columns.time_high].map(|column| column.get(row));
            (high.expect("a row") << 32 | low.expect("a row")).cast_signed()
        };
        assert_eq!([time(0), time(1), time(2)], [0, 4_999_999_999, -1]);
    }

    #[test]
    fn the_page_begins_with_its_earliest_packet() {
        let mut builder = ViewBuilder::new(ViewConfig::default());
        for nanoseconds in [5_000, 3_000, 4_000] {
            let mut sample = Sample::write();
            sample.packet.time = Timestamp::from_nanos(nanoseconds);
            builder.handle_packet(&sample.row());
        }
        assert_eq!(builder.packets.start, Some(Timestamp::from_nanos(3_000)));
    }

    #[test]
    fn the_reserved_bytes_of_a_cnp_are_no_payload() {
        let mut sample = Sample::write();
        sample.packet.bth.opcode = uroce_wire::Opcode::CNP;
        sample.packet.opcode_info = sample.packet.bth.opcode.info();
        sample.packet.payload_len = 16;
        let mut builder = ViewBuilder::new(ViewConfig::default());
        builder.handle_packet(&sample.row());
        assert_eq!(builder.packets.columns.length.get(0), Some(0));
    }

    #[test]
    fn payload_stays_out_unless_asked_for() {
        let sample = Sample::write();
        let kept = |payload_bytes| {
            let config = ViewConfig { payload_bytes, ..Default::default() };
            let mut builder = ViewBuilder::new(config);
            builder.handle_packet(&sample.row());
            let columns = &builder.packets.columns;
            let numbers = [&columns.head, &columns.payload, &columns.left_out, &columns.tail];
            (numbers.map(|column| column.get(0).expect("a row")), builder.packets.bytes)
        };
        let (numbers, bytes) = kept(0);
        assert_eq!(numbers, [14 + 20 + 8 + 12 + 16, 0, 64, 4]);
        assert!(!bytes.windows(4).any(|window| window == Sample::PAYLOAD));
        assert_eq!(kept(10).0, [70, 10, 54, 4]);
        let (numbers, bytes) = kept(1000);
        assert_eq!((numbers, bytes.len()), ([70, 64, 0, 4], sample.frame.len()));
        assert_eq!(bytes, sample.frame);
    }

    #[test]
    fn a_cut_packet_has_no_icrc() {
        let mut sample = Sample::write();
        sample.packet.is_cut = true;
        sample.frame.truncate(60);
        let mut builder = ViewBuilder::new(ViewConfig::default());
        builder.handle_packet(&sample.row());
        let columns = &builder.packets.columns;
        let numbers = [&columns.head, &columns.tail].map(|column| column.get(0));
        assert_eq!(numbers, [Some(60), Some(0)]);
    }

    #[test]
    fn each_flag_has_its_bit() {
        let mut sample = Sample::write();
        sample.facts.is_retransmission = true;
        sample.packet.bth.ack_req = true;
        sample.packet.traffic_class = 3;
        assert_eq!(flags(&sample.row()), 1 << 1 | 1 << 5 | 1 << 9);
    }
}
