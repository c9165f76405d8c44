//! Registered memory of one end, and what must stand in it.

use uroce_device::Device;
use uroce_device::memory::{Access, Lkey, MrId, PdId, Region, Rkey, Sge};

use crate::random::Random;
use crate::rxe::RxeMemory;
use crate::violation::{Check, Invariant, ensure};

/// Bytes that no request writes: sources of SENDs, WRITEs and READs.
pub(crate) const SOURCE: usize = 32 * 1024;
/// Words for atomics, behind the source.
pub(crate) const WORDS: usize = 8;
/// Longest message.
pub(crate) const MAX_MESSAGE: usize = 12 * 1024;
/// Bytes from slot to slot: a message and a gap.
const PITCH: usize = MAX_MESSAGE + 128;
/// First byte of the first slot.
const FIRST: usize = SOURCE + WORDS * 8 + GAP;
/// Bytes between the words and the first slot, which nothing writes.
const GAP: usize = 64;
/// Bytes behind the slots, at the end of the region: what of a range that is half beyond it lies in it.
const TAIL: usize = MAX_MESSAGE / 2;
/// What stands where nothing was written.
const CANARY: u8 = 0xee;
/// Bytes behind a message that are looked at when it completes; all others when its connection ends.
const NEAR: usize = 256;
/// Bytes that are compared at a time where a message may have arrived in part.
const PART: usize = 256;
const CANARIES: [u8; PITCH] = [CANARY; PITCH];
/// What stands in a slot that was never taken, and in the tail.
const ZEROS: [u8; PITCH] = [0; PITCH];

/// A place for one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

/// Parts of a source: offsets and lengths.
pub(crate) type Pieces = Vec<(u32, u32)>;

/// Memory of one end of a pair.
pub(crate) struct Arena {
    region: Region,
    /// Address of the first byte, as peers name it.
    base: u64,
    /// Its registration, on a NIC of ours.
    mr: Option<MrId>,
    /// The key of the region, local and remote.
    key: u32,
    /// What the source holds.
    source: Vec<u8>,
    /// What the words hold, as far as is known.
    pub(crate) words: [u64; WORDS],
    free: Vec<SlotId>,
    /// What is known of each slot.
    slots: Vec<SlotState>,
    /// A slot that was not empty when it was taken for the first time.
    foreign: Option<SlotId>,
    /// A WRITE that leaves in parts reaches from the tail over the end of the region.
    is_tail_open: bool,
    scratch: Box<[u8]>,
    /// Bytes of the scratch that count.
    loaded: usize,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// Zeros: it was never taken.
    Fresh,
    /// Canaries, as was seen when its connection ended.
    Clean,
    /// A message, or canaries.
    Used,
}

impl Arena {
    /// Memory that is registered in a protection domain of a device, or with a model if there is none.
    pub(crate) fn new(owner: Option<(&Device, PdId)>, slots: u32, random: &mut Random) -> Arena {
        let region = Region::alloc(FIRST + slots as usize * PITCH + TAIL).expect("memory");
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC
            | Access::FLUSH_GLOBAL
            | Access::MW_BIND;
        // Not the address of the process, which differs from run to run and would be in the packets.
        let base = (random.next() & 0xffff_ffff_f000) | 1 << 40;
        let register =
            |(device, pd): (&Device, PdId)| device.memory().reg_mr(pd, region.clone(), base, all);
        let mr = owner.map(|owner| register(owner).expect("a region"));
        let key = mr.map_or_else(|| random.next() as u32 | 1, |mr| mr.lkey.0);
        let mut source = vec![0; SOURCE];
        random.fill_payload(&mut source);
        let mut arena = Arena {
            region,
            base,
            mr: mr.map(|mr| mr.id),
            key,
            source,
            words: [0; WORDS],
            free: (0..slots).rev().map(SlotId).collect(),
            slots: vec![SlotState::Fresh; slots as usize],
            foreign: None,
            is_tail_open: false,
            scratch: vec![0; SOURCE.max(PITCH)].into(),
            loaded: 0,
        };
        arena.region.fill(SOURCE, FIRST - SOURCE, CANARY).expect("inside");
        arena.write(0, &arena.source);
        arena.reset();
        arena
    }

    /// Everything as at the beginning: no slot in use. Slots that are not in use hold canaries already, as
    /// [`check_rest`](Self::check_rest) has seen.
    pub(crate) fn reset(&mut self) {
        let slots = self.slots.len() as u32;
        let mut is_free = vec![false; self.slots.len()];
        self.free.iter().for_each(|slot| is_free[slot.0 as usize] = true);
        for slot in (0..slots).map(SlotId).filter(|slot| !is_free[slot.0 as usize]) {
            if *self.state(slot) == SlotState::Used {
                self.region.fill(offset(slot), PITCH, CANARY).expect("inside the region");
            }
        }
        if std::mem::take(&mut self.is_tail_open) {
            self.write(self.tail(), &ZEROS[..TAIL]);
        }
        self.words = [0; WORDS];
        self.write(SOURCE, &[0; WORDS * 8]);
        self.free = (0..slots).rev().map(SlotId).collect();
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.region.write(offset, bytes).expect("inside the region");
    }

    fn state(&mut self, slot: SlotId) -> &mut SlotState {
        &mut self.slots[slot.0 as usize]
    }

    /// A slot that is not in use, full of canaries.
    pub(crate) fn take(&mut self) -> Option<SlotId> {
        let slot = self.free.pop()?;
        if std::mem::replace(self.state(slot), SlotState::Used) == SlotState::Fresh {
            self.load(slot, PITCH);
            if *self.loaded() != ZEROS {
                self.foreign = Some(slot);
            }
            self.region.fill(offset(slot), PITCH, CANARY).expect("inside the region");
        }
        Some(slot)
    }

    /// Ends the use of a slot of which the first `length` bytes may have been written.
    pub(crate) fn release(&mut self, slot: SlotId, length: usize) {
        self.region.fill(offset(slot), length, CANARY).expect("inside the region");
        self.free.push(slot);
    }

    /// Where the tail begins.
    fn tail(&self) -> usize {
        self.region.len() - TAIL
    }

    /// The tail may change: parts of a WRITE that fails lie in it.
    pub(crate) fn open_tail(&mut self) {
        self.is_tail_open = true;
    }

    /// Address of a slot.
    pub(crate) fn addr(&self, slot: SlotId) -> u64 {
        self.base + offset(slot) as u64
    }

    /// Address of a byte of the source.
    pub(crate) fn source_addr(&self, offset: u32) -> u64 {
        self.base + u64::from(offset)
    }

    /// Address of a word.
    pub(crate) fn word_addr(&self, word: usize) -> u64 {
        self.base + (SOURCE + word * 8) as u64
    }

    /// Its registration, on a NIC of ours.
    pub(crate) fn mr(&self) -> Option<MrId> {
        self.mr
    }

    /// The same memory for a model.
    pub(crate) fn as_rxe_memory(&self) -> RxeMemory {
        RxeMemory { region: self.region.clone(), base: self.base, key: self.key }
    }

    /// Address of the first byte.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Address behind the last byte.
    pub(crate) fn end_addr(&self) -> u64 {
        self.base + self.region.len() as u64
    }

    pub(crate) fn rkey(&self) -> Rkey {
        Rkey(self.key)
    }

    /// Everything that a slot holds.
    pub(crate) fn contents(&self, slot: SlotId) -> Vec<u8> {
        let mut bytes = vec![0; PITCH];
        self.region.read(offset(slot), &mut bytes).expect("inside the region");
        bytes
    }

    /// Bytes of the whole region.
    pub(crate) fn len(&self) -> u64 {
        self.region.len() as u64
    }

    pub(crate) fn lkey(&self) -> Lkey {
        Lkey(self.key)
    }

    /// The parts of the source as a gather list.
    pub(crate) fn gather(&self, pieces: &Pieces) -> Vec<Sge> {
        let sge = |(offset, length): &(u32, u32)| Sge {
            addr: self.source_addr(*offset),
            length: *length,
            lkey: self.lkey(),
        };
        pieces.iter().map(sge).collect()
    }

    /// A slot as a scatter list of one to several entries.
    pub(crate) fn scatter(&self, slot: SlotId, length: usize, parts: &[usize]) -> Vec<Sge> {
        let mut addr = self.addr(slot);
        let mut rest = length;
        let mut sges = Vec::with_capacity(parts.len() + 1);
        for part in parts.iter().copied().chain([length]) {
            let length = part.min(rest);
            sges.push(Sge { addr, length: length as u32, lkey: self.lkey() });
            addr += length as u64;
            rest -= length;
        }
        sges
    }

    /// Appends the bytes of parts of the source.
    pub(crate) fn copy_source(&self, pieces: &Pieces, out: &mut Vec<u8>) {
        for (offset, length) in pieces {
            let from = *offset as usize;
            out.extend_from_slice(&self.source[from..from + *length as usize]);
        }
    }

    /// Fails unless the slot holds `due` from byte `skip` on, and nothing behind.
    pub(crate) fn check(&mut self, slot: SlotId, skip: usize, due: &[u8]) -> Check {
        self.check_message(slot, skip, due)?;
        let behind = skip + due.len();
        self.check_canaries(behind, due.len())
    }

    /// Fails unless the slot holds `due` from byte `skip` on. Behind may be parts of a longer message.
    pub(crate) fn check_reused(&mut self, slot: SlotId, skip: usize, due: &[u8]) -> Check {
        self.check_message(slot, skip, due)?;
        self.check_behind(slot, MAX_MESSAGE)
    }

    /// Fails unless only the first `length` bytes of the slot have been written.
    pub(crate) fn check_behind(&mut self, slot: SlotId, length: usize) -> Check {
        self.load(slot, PITCH);
        self.note_clean(slot);
        self.check_canaries(length, length)
    }

    /// The slot that was loaded need not be filled again if it holds canaries only.
    fn note_clean(&mut self, slot: SlotId) {
        if *self.loaded() == CANARIES {
            *self.state(slot) = SlotState::Clean;
        }
    }

    fn check_message(&mut self, slot: SlotId, skip: usize, due: &[u8]) -> Check {
        self.load(slot, PITCH.min(skip + due.len() + NEAR));
        let bytes = &self.scratch[skip..skip + due.len()];
        ensure(bytes == due, Invariant::Bytes, || {
            let at = bytes.iter().zip(due).position(|(is, due)| is != due).unwrap_or_default();
            format!("byte {at} of {} is {:#04x}, not {:#04x}", due.len(), bytes[at], due[at])
        })
    }

    fn check_canaries(&self, from: usize, length: usize) -> Check {
        let behind = self.loaded().get(from..).unwrap_or_default();
        ensure(behind == &CANARIES[..behind.len()], Invariant::Canaries, || {
            let at = behind.iter().position(|byte| *byte != CANARY).unwrap_or_default();
            format!("a byte {at} behind a message of {length} has changed")
        })
    }

    /// Fails unless each byte of the slot is as before, or as `due` says.
    pub(crate) fn check_either(&mut self, slot: SlotId, skip: usize, due: &[u8]) -> Check {
        self.load(slot, PITCH);
        self.note_clean(slot);
        let (message, behind) = self.loaded()[skip..].split_at(due.len());
        let parts = message.chunks(PART).zip(due.chunks(PART));
        let is_either = |is: &[u8], due: &[u8]| {
            // Most parts are all old or all new.
            is == due
                || *is == CANARIES[..is.len()]
                || is.iter().zip(due).all(|(is, due)| *is == CANARY || is == due)
        };
        let wrong = parts.into_iter().position(|(is, due)| !is_either(is, due));
        ensure(wrong.is_none(), Invariant::Canaries, || {
            let part = wrong.unwrap_or_default() * PART;
            format!("a byte from {part} on of a request that failed is foreign")
        })?;
        ensure(*behind == CANARIES[..behind.len()], Invariant::Canaries, || {
            "a byte behind a request that failed is foreign".to_owned()
        })
    }

    /// Copies the first `length` bytes of a slot.
    fn load(&mut self, slot: SlotId, length: usize) {
        self.loaded = length;
        let into = &mut self.scratch[..length];
        self.region.read(offset(slot), into).expect("inside the region");
    }

    /// What was loaded last.
    fn loaded(&self) -> &[u8] {
        &self.scratch[..self.loaded]
    }

    /// The 8 bytes at the start of a slot.
    pub(crate) fn load_word(&self, slot: SlotId) -> u64 {
        self.region.load_u64(offset(slot)).expect("aligned")
    }

    /// A word for atomics as it is now.
    pub(crate) fn word(&self, word: usize) -> u64 {
        self.region.load_u64(SOURCE + word * 8).expect("aligned")
    }

    /// Fails unless the source and everything that is not in use are as they were. Slots that were never taken are
    /// looked at when they are, or when this `is_last`.
    pub(crate) fn check_rest(&mut self, is_last: bool) -> Check {
        let source = &mut self.scratch[..SOURCE];
        self.region.read(0, source).expect("inside the region");
        ensure(*source == *self.source, Invariant::Canaries, || "a source has changed".into())?;
        ensure(self.foreign.is_none(), Invariant::Canaries, || {
            "a slot has changed that was never in use".into()
        })?;
        let mut gap = [0; GAP];
        self.region.read(SOURCE + WORDS * 8, &mut gap).expect("inside the region");
        ensure(gap == [CANARY; GAP], Invariant::Canaries, || "a byte behind the words".into())?;
        let (at, tail) = (self.tail(), &mut self.scratch[..TAIL]);
        self.region.read(at, tail).expect("inside the region");
        ensure(self.is_tail_open || *tail == ZEROS[..TAIL], Invariant::Canaries, || {
            "a byte behind the slots has changed".into()
        })?;
        for index in 0..self.free.len() {
            let slot = self.free[index];
            let is_fresh = *self.state(slot) == SlotState::Fresh;
            if is_fresh && !is_last {
                continue;
            }
            self.load(slot, PITCH);
            let holds = *self.loaded() == if is_fresh { ZEROS } else { CANARIES };
            ensure(holds, Invariant::Canaries, || "a slot has changed that is not in use".into())?;
        }
        Ok(())
    }
}

fn offset(slot: SlotId) -> usize {
    FIRST + slot.0 as usize * PITCH
}
