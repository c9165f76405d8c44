//! Both halves of a stream without a device: rings, credits and tables, and the two joined by copying.

use uroce_device::memory::Region;

use crate::credit_table::CreditTable;
use crate::inbound::{Grant, Inbound};
use crate::outbound::{Outbound, Piece};
use crate::protocol::{BUFFERS, Iomap, Remote};
use crate::protocol_error::ProtocolError;

fn memory(len: usize) -> Region {
    Region::alloc(len).expect("memory")
}

fn native(entry: Remote) -> [u8; Remote::LEN] {
    entry.entry(cfg!(target_endian = "big"))
}

/// A table, and the memory that a peer would write to.
fn table(iomaps: u32) -> (CreditTable, Region) {
    let memory = memory(CreditTable::size(iomaps));
    (CreditTable::new(memory.clone(), iomaps), memory)
}

fn buffer(addr: u64, length: u32) -> Remote {
    Remote { addr, rkey: 9, length }
}

/// A sender with this much room, before a peer with one large buffer.
fn sender(ring: usize, slots: u32, credits: u16) -> Outbound {
    let mut outbound = Outbound::new(memory(ring), slots);
    outbound.begin(buffer(0, 1 << 30), credits);
    outbound
}

#[test]
fn a_table_has_room_for_both_kinds_of_entries() {
    assert_eq!(CreditTable::size(0), 32);
    assert_eq!(CreditTable::size(1), 56);
    assert_eq!(CreditTable::size(32_512), 32 + 24 * 32_512);
    assert_eq!(BUFFERS, 2);
}

#[test]
fn an_entry_without_a_length_is_no_entry_and_stays() {
    let (table, memory) = table(0);
    memory.write(0, &native(buffer(77, 0))).expect("inside");
    assert_eq!(table.take(0), Ok(buffer(77, 0)));
    let mut bytes = [0; 8];
    memory.read(0, &mut bytes).expect("inside");
    assert_eq!(u64::from_ne_bytes(bytes), 77, "a peer may be in the middle of writing it");
}

#[test]
fn entries_are_taken_from_the_place_of_their_number() {
    let (table, memory) = table(0);
    memory.write(0, &native(buffer(10, 1))).expect("inside");
    memory.write(Remote::LEN, &native(buffer(20, 2))).expect("inside");
    assert_eq!(table.take(3), Ok(buffer(20, 2)));
    assert_eq!(table.take(4), Ok(buffer(10, 1)));
    assert_eq!((table.take(0), table.take(1)), (Ok(Remote::default()), Ok(Remote::default())));
    memory.write(0, &native(buffer(u64::MAX - 4, 4))).expect("inside");
    assert_eq!(table.take(0), Ok(buffer(u64::MAX - 4, 4)), "up to the last address");
    memory.write(0, &native(buffer(u64::MAX - 3, 4))).expect("inside");
    assert_eq!(table.take(0), Err(ProtocolError));
    assert_eq!(table.take(0), Err(ProtocolError), "and again");
}

#[test]
fn the_first_of_mapped_buffers_that_has_the_offset_is_written_to() {
    let (table, memory) = table(3);
    let write = |index: usize, offset, buffer| {
        let at = BUFFERS * Remote::LEN + index * Iomap::LEN;
        let entry = Iomap { offset, buffer }.entry(cfg!(target_endian = "big"));
        memory.write(at, &entry).expect("inside");
    };
    assert_eq!(table.mapped(0), None, "nothing is mapped");
    write(1, 50, buffer(1_000, 100));
    write(2, 100, buffer(5_000, 100));
    assert_eq!(table.mapped(120), Some(buffer(1_070, 30)));
    assert_eq!(table.mapped(150), Some(buffer(5_050, 50)), "the first one ends before it");
    assert_eq!((table.mapped(199), table.mapped(200)), (Some(buffer(5_099, 1)), None));
    write(0, 0, buffer(u64::MAX - 200, 200));
    assert_eq!(table.mapped(199), Some(buffer(u64::MAX - 1, 1)));
    write(0, 0, buffer(u64::MAX - 198, 200));
    assert_eq!(table.mapped(10), None, "an entry that cannot be");
    assert_eq!(table.mapped(1 << 40), None, "further away than lengths reach");
}

#[test]
fn entries_behind_those_that_were_offered_are_not_looked_at() {
    let memory = memory(CreditTable::size(2));
    let table = CreditTable::new(memory.clone(), 1);
    let entry = Iomap { offset: 0, buffer: buffer(1, 8) }.entry(cfg!(target_endian = "big"));
    memory.write(BUFFERS * Remote::LEN + Iomap::LEN, &entry).expect("inside");
    assert_eq!(table.mapped(0), None);
}

#[test]
fn nothing_goes_without_a_slot_and_without_a_credit() {
    let (table, _) = table(0);
    let mut outbound = sender(64, 2, 8);
    outbound.push(b"one");
    outbound.push(b"two");
    assert_eq!((outbound.room(&table), outbound.free(), outbound.has_slot()), (Ok(0), 0, false));
    outbound.done(3);
    assert_eq!((outbound.room(&table), outbound.has_slot()), (Ok(0), true), "not enough is free");
    outbound.done(3);
    assert_eq!((outbound.room(&table), outbound.free()), (Ok(64), 64));
    let mut outbound = sender(64, 4, 1);
    outbound.push(b"one");
    outbound.done(3);
    assert_eq!(outbound.room(&table), Ok(0), "no credit");
    assert_eq!(outbound.free(), 64, "writes to mapped buffers need none");
    assert_eq!(outbound.credits(2), Ok(()));
    assert_eq!(outbound.room(&table), Ok(64));
}

#[test]
fn a_message_has_at_most_64_kib_and_a_large_ring_is_filled_in_larger_steps() {
    let (table, _) = table(0);
    let mut outbound = sender(1 << 18, 16, 16);
    assert_eq!((outbound.room(&table), outbound.free()), (Ok(65_536), 65_536));
    for _ in 0..3 {
        outbound.push(&vec![1; 65_536]);
    }
    outbound.push(&vec![1; 65_536 - 2_047]);
    assert_eq!(outbound.room(&table), Ok(0), "2047 bytes are below the low-water mark");
    assert_eq!(outbound.free(), 2_047);
    outbound.done(1);
    assert_eq!(outbound.room(&table), Ok(2_048));
}

#[test]
fn credits_are_counted_modulo_65536() {
    let (table, _) = table(0);
    let mut outbound = sender(64, 4, 3);
    for sent in 1..=200_000_u32 {
        assert_eq!(outbound.room(&table), Ok(64), "message {sent}");
        outbound.push(b"x");
        outbound.done(1);
        let limit = sent.wrapping_add(3) as u16;
        assert_eq!(outbound.credits(limit.wrapping_add(1)), Err(ProtocolError));
        assert_eq!(outbound.credits(limit.wrapping_sub(4)), Err(ProtocolError), "{sent}");
        assert_eq!(outbound.credits(limit), Ok(()));
    }
}

#[test]
fn what_is_written_to_mapped_buffers_takes_no_room_at_the_peer() {
    let (table, _) = table(0);
    let mut outbound = Outbound::new(memory(16), 4);
    outbound.begin(buffer(100, 8), 4);
    assert_eq!(outbound.keep(&[1; 12]), [(0, 12), (0, 0)]);
    assert_eq!(outbound.keep(&[2; 4]), [(12, 4), (0, 0)]);
    assert_eq!(outbound.free(), 0);
    outbound.done(12);
    outbound.done(4);
    assert_eq!(outbound.room(&table), Ok(8));
    assert_eq!(outbound.push(&[3; 8]).to, buffer(100, 8));
}

#[test]
fn everything_was_sent_when_all_slots_are_back() {
    let mut outbound = sender(16, 2, 2);
    assert!(outbound.is_idle(2));
    outbound.take_slot();
    assert!(!outbound.is_idle(2));
    outbound.done(0);
    assert!(outbound.is_idle(2));
}

#[test]
fn grants_name_the_halves_in_turn() {
    let mut inbound = Inbound::new(memory(16), 4);
    assert!(inbound.wants_grant(), "the second half is free from the start");
    assert_eq!(inbound.grant(), Grant { credits: 4, half: Some(8) });
    assert!(!inbound.wants_grant());
    for turn in 0..4 {
        inbound.arrived(8).expect("a half was granted");
        assert!(!inbound.wants_grant(), "nothing was read");
        assert_eq!(inbound.read(&mut [0; 7], false), 7);
        assert!(!inbound.wants_grant(), "a byte is left");
        assert_eq!(inbound.read(&mut [0; 7], false), 1);
        let half = if turn % 2 == 0 { 0 } else { 8 };
        assert_eq!(inbound.grant(), Grant { credits: 5 + turn, half: Some(half) });
    }
}

#[test]
fn a_receiver_of_one_message_at_a_time_tells_of_each() {
    let mut inbound = Inbound::new(memory(16), 1);
    inbound.grant();
    inbound.arrived(1).expect("one");
    assert_eq!(inbound.arrived(1), Err(ProtocolError));
    assert!(!inbound.wants_grant());
    assert_eq!(inbound.read(&mut [0], false), 1);
    assert!(inbound.wants_grant(), "half of 1 is 1 here");
    assert_eq!(inbound.grant().credits, 2);
}

#[test]
fn looking_changes_nothing() {
    let ring = memory(16);
    ring.write(0, b"abcdefgh").expect("inside");
    let mut inbound = Inbound::new(ring, 4);
    inbound.grant();
    inbound.arrived(3).expect("allowed");
    inbound.arrived(5).expect("allowed");
    let mut out = [0; 8];
    for _ in 0..3 {
        assert_eq!((inbound.read(&mut out, true), &out), (8, b"abcdefgh"));
        assert!(inbound.has_data() && !inbound.wants_grant());
    }
    assert_eq!((inbound.read(&mut out[..4], false), &out[..4]), (4, &b"abcd"[..]));
    assert_eq!((inbound.read(&mut out, true), &out[..4]), (4, &b"efgh"[..]));
    assert_eq!(inbound.read(&mut [], false), 0);
    assert_eq!(inbound.read(&mut out, false), 4);
    assert!(!inbound.has_data());
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Two halves of streams, and what is between them.
struct Joined {
    outbound: Outbound,
    send_ring: Region,
    tables: CreditTable,
    table: Region,
    inbound: Inbound,
    receive_ring: Region,
    /// Messages that are under way.
    wire: Vec<Piece>,
    entry: usize,
}

impl Joined {
    fn new(ring: usize, credits: u16) -> Joined {
        let (send_ring, receive_ring) = (memory(ring), memory(ring));
        let (tables, table) = table(0);
        let mut outbound = Outbound::new(send_ring.clone(), 5);
        outbound.begin(buffer(0, ring as u32 / 2), credits);
        let inbound = Inbound::new(receive_ring.clone(), credits);
        Joined { outbound, send_ring, tables, table, inbound, receive_ring, wire: vec![], entry: 1 }
    }

    /// Sends as much of it as there is room for.
    fn send(&mut self, data: &[u8]) -> usize {
        let room = self.outbound.room(&self.tables).expect("a sound peer").min(data.len());
        if room > 0 {
            self.wire.push(self.outbound.push(&data[..room]));
        }
        room
    }

    /// The oldest message arrives, as the device would write it.
    fn deliver(&mut self) {
        if self.wire.is_empty() {
            return;
        }
        let piece = self.wire.remove(0);
        let mut at = piece.to.addr as usize;
        for (from, length) in piece.parts {
            let mut bytes = vec![0; length];
            self.send_ring.read(from, &mut bytes).expect("inside");
            self.receive_ring.write(at, &bytes).expect("inside");
            at += length;
        }
        let length: usize = piece.parts.iter().map(|(_, length)| length).sum();
        self.inbound.arrived(length as u32).expect("it was allowed");
        self.outbound.done(length);
    }

    /// The receiver tells of room, if that is worth a message.
    fn grant(&mut self) {
        while self.inbound.wants_grant() {
            let grant = self.inbound.grant();
            if let Some(half) = grant.half {
                let entry = buffer(half as u64, self.receive_ring.len() as u32 / 2);
                self.table.write(self.entry * Remote::LEN, &native(entry)).expect("inside");
                self.entry = (self.entry + 1) % BUFFERS;
            }
            self.outbound.credits(grant.credits).expect("never more than offered");
        }
    }
}

/// Moves bytes from one half to the other one, in any order of steps.
fn transfer(ring: usize, credits: u16, seed: u64) {
    let data: Vec<u8> = (0..5_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let (mut joined, mut numbers) = (Joined::new(ring, credits), Numbers(seed));
    let (mut sent, mut got) = (0, Vec::new());
    for _ in 0..200_000 {
        match numbers.below(4) {
            0 => {
                let length = numbers.below(ring + 3).min(data.len() - sent);
                sent += joined.send(&data[sent..sent + length]);
            }
            1 => joined.deliver(),
            2 => {
                let mut out = vec![0; numbers.below(ring + 3)];
                let (peek, length) = (numbers.below(3) == 0, out.len());
                let count = joined.inbound.read(&mut out, peek);
                assert!(count <= length);
                assert!(data[got.len()..].starts_with(&out[..count]), "ring {ring} seed {seed}");
                if !peek {
                    got.extend_from_slice(&out[..count]);
                }
            }
            _ => joined.grant(),
        }
        if got.len() == data.len() {
            return;
        }
    }
    panic!("it stops: ring {ring}, credits {credits}, seed {seed}: {} of {sent}", got.len());
}

#[test]
fn whatever_the_order_of_steps_bytes_arrive_in_order_and_never_stop() {
    for seed in 0..20 {
        for (ring, credits) in [(2, 1), (2, 2), (6, 3), (16, 1), (16, 4), (64, 3), (1_000, 16)] {
            transfer(ring, credits, seed);
        }
    }
}
