//! Bounds, canaries, and the two ways of copying against each other.
//!
//! Under Miri these need `MIRIFLAGS=-Zmiri-disable-weak-memory-emulation`: its emulation of weak
//! memory does not know atomics of different sizes on the same bytes.

#[cfg(not(miri))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
use proptest::prelude::*;

#[cfg(target_arch = "x86_64")]
use super::region::{HUGE_PAGE, PAGE, copy_in};
#[cfg(target_arch = "x86_64")]
use super::{string_moves, word_moves};
use crate::{AtomicError, CopyError, OutOfRange, Region};

const GUARD: u8 = 0xa5;

/// Region in which everything is a guard byte.
fn guarded(len: usize) -> Region {
    let memory = Region::alloc(len).unwrap();
    memory.fill(0, len, GUARD).unwrap();
    memory
}

fn bytes(memory: &Region) -> Vec<u8> {
    let mut out = vec![0; memory.len()];
    memory.read(0, &mut out).unwrap();
    out
}

#[test]
fn an_allocation_is_zeroed_and_starts_at_a_page() {
    for len in [0, 1, 4095, 4096, 4097] {
        let region = Region::alloc(len).unwrap();
        assert_eq!((region.addr() as usize % PAGE, region.len()), (0, len));
        assert!(bytes(&region).iter().all(|&b| b == 0));
    }
}

#[test]
fn a_large_allocation_starts_at_a_huge_page() {
    for len in [HUGE_PAGE, 2 * HUGE_PAGE + 1] {
        let region = Region::alloc(len).unwrap();
        assert_eq!((region.addr() as usize % HUGE_PAGE, region.len()), (0, len));
        region.write(len - 1, &[1]).unwrap();
    }
}

#[test]
fn an_impossible_allocation_is_an_error() {
    for len in [usize::MAX, usize::MAX - PAGE + 1, isize::MAX as usize] {
        assert_eq!(Region::alloc(len).unwrap_err().len, len);
    }
}

#[test]
fn every_short_copy_touches_its_range_only() {
    let data: Vec<u8> = (1..=40).collect();
    for offset in 0..20 {
        for len in 0..=40 {
            let memory = guarded(64);
            memory.write(offset, &data[..len]).unwrap();
            let mut expected = vec![GUARD; 64];
            expected[offset..offset + len].copy_from_slice(&data[..len]);
            assert_eq!(bytes(&memory), expected);
            let mut out = vec![0; len];
            memory.read(offset, &mut out).unwrap();
            assert_eq!(out, data[..len]);
        }
    }
}

#[test]
fn a_copy_beyond_the_end_changes_nothing() {
    let memory = guarded(32);
    for (offset, len) in [(0, 33), (32, 1), (33, 0), (usize::MAX, 1), (usize::MAX, 0), (31, 2)] {
        let refused = Err(OutOfRange { offset, len, size: 32 });
        assert_eq!(memory.write(offset, &vec![1; len]), refused);
        assert_eq!(memory.read(offset, &mut vec![1; len]), refused);
        assert_eq!(memory.fill(offset, len, 1), refused);
    }
    assert!(memory.fill(1, usize::MAX, 1).is_err());
    assert_eq!(memory.write(32, &[]), Ok(()));
    assert_eq!(bytes(&memory), [GUARD; 32]);
}

#[test]
fn every_short_copy_between_memories_touches_its_range_only() {
    let data: Vec<u8> = (1..=64).collect();
    let source = guarded(64);
    source.write(0, &data).unwrap();
    for (from, to) in (0..9).flat_map(|from| (0..9).map(move |to| (from, to))) {
        for len in 0..=40 {
            let memory = guarded(64);
            memory.copy_from(to, &source, from, len).unwrap();
            let mut expected = vec![GUARD; 64];
            expected[to..to + len].copy_from_slice(&data[from..from + len]);
            assert_eq!(bytes(&memory), expected, "{len} bytes from {from} to {to}");
        }
    }
    assert_eq!(bytes(&source), data);
}

#[test]
fn a_copy_between_memories_beyond_either_end_changes_nothing() {
    let (source, memory) = (guarded(32), Region::alloc(16).unwrap());
    for (to, from, len) in
        [(0, 0, 17), (16, 0, 1), (0, 31, 2), (0, usize::MAX, 1), (usize::MAX, 0, 1)]
    {
        let refused = memory.copy_from(to, &source, from, len);
        assert!(matches!(refused, Err(CopyError::OutOfRange(_))), "{to} {from} {len}");
    }
    assert_eq!(bytes(&memory), [0; 16]);
}

#[test]
fn a_copy_within_one_memory_stays_inside_it() {
    for (to, from) in [(0, 8), (8, 0), (3, 4), (5, 5)] {
        let memory = Region::alloc(64).unwrap();
        memory.fill(0, 48, 7).unwrap();
        memory.copy_from(to, &memory, from, 40).unwrap();
        assert_eq!(bytes(&memory)[..48], [7; 48], "to {to} from {from}");
        assert_eq!(bytes(&memory)[48..], [0; 16]);
    }
}

#[test]
fn r33_atomics_are_aligned_and_inside() {
    let memory = Region::alloc(20).unwrap();
    for offset in (0..20).filter(|offset| offset % 8 != 0 && offset + 8 <= 20) {
        let addr = memory.addr() + offset as u64;
        assert_eq!(memory.fetch_add(offset, 1), Err(AtomicError::Misaligned { addr }));
    }
    for offset in [13, 16, usize::MAX - 7] {
        let refused = AtomicError::OutOfRange(OutOfRange { offset, len: 8, size: 20 });
        assert_eq!(memory.compare_swap(offset, 0, 1), Err(refused));
    }
    assert_eq!(bytes(&memory), [0; 20]);
}

#[test]
fn r34_atomics_do_what_they_say_in_host_order() {
    let memory = Region::alloc(24).unwrap();
    assert_eq!(memory.fetch_add(8, u64::MAX), Ok(0));
    assert_eq!(memory.fetch_add(8, 3), Ok(u64::MAX));
    assert_eq!(memory.compare_swap(8, 1, 7), Ok(2));
    assert_eq!(memory.compare_swap(8, 2, 7), Ok(2));
    assert_eq!(memory.load_u64(8), Ok(7));
    memory.store_u64(8, 0x0102_0304_0506_0708).unwrap();
    let mut expected = [0; 24];
    expected[8..16].copy_from_slice(&0x0102_0304_0506_0708_u64.to_ne_bytes());
    assert_eq!(bytes(&memory), expected);
}

#[test]
fn foreign_memory_is_used_in_place_and_null_is_empty() {
    let mut words = [0u64; 4];
    let start = words.as_mut_ptr().cast::<u8>();
    // SAFETY: `words` outlives the region and is not touched by name while that exists.
    let region = unsafe { Region::from_raw(start, 32) };
    region.write(8, &[1; 8]).unwrap();
    assert_eq!((region.addr(), region.load_u64(8)), (start.addr() as u64, Ok(u64::MAX / 255)));
    drop(region);
    assert_eq!(words, [0, u64::MAX / 255, 0, 0]);
    // SAFETY: a null pointer is allowed and makes an empty region.
    let none = unsafe { Region::from_raw(std::ptr::null_mut(), 9) };
    assert!(none.is_empty());
}

#[test]
fn a_clone_keeps_the_memory_alive() {
    let first = Region::alloc(8).unwrap();
    let second = first.clone();
    first.store_u64(0, 42).unwrap();
    drop(first);
    assert_eq!(second.load_u64(0), Ok(42));
}

#[test]
fn regions_and_tables_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Region>();
    shared::<crate::MemTable>();
    shared::<crate::MrSlice<'static>>();
}

/// Threads add, copy in and copy out on the same memory; run under Miri or a race detector this
/// also shows that they may.
#[test]
fn concurrent_atomics_lose_nothing_while_bytes_are_copied_next_to_them() {
    let region = Region::alloc(64).unwrap();
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    std::thread::scope(|scope| {
        for thread in 1..4u8 {
            let region = region.clone();
            scope.spawn(move || {
                for _ in 0..rounds {
                    region.fetch_add(0, 1).unwrap();
                    region.write(8, &[thread; 51]).unwrap();
                    let mut out = [0; 51];
                    region.read(8, &mut out).unwrap();
                    assert!(out.iter().all(|byte| (1..4).contains(byte)));
                }
            });
        }
    });
    assert_eq!(region.load_u64(0), Ok(3 * rounds));
}

/// The end of a copy is visible last: a reader that sees the counter sees the bytes before it.
#[test]
fn the_end_of_a_message_arrives_last() {
    const BODY: usize = 241;
    let (body_at, counter_at, seen_at) = (7, 7 + BODY, 256);
    let region = Region::alloc(264).unwrap();
    let last: u32 = if cfg!(miri) { 5 } else { 50_000 };
    let writer = region.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 1..=last {
                let message = [&[round as u8; BODY][..], &round.to_ne_bytes()].concat();
                writer.write(body_at, &message).unwrap();
                while writer.load_u64(seen_at).unwrap() != u64::from(round) {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=last {
            let mut counter = [0; 4];
            while u32::from_ne_bytes(counter) != round {
                std::thread::yield_now();
                region.read(counter_at, &mut counter).unwrap();
            }
            let mut body = [0; BODY];
            region.read(body_at, &mut body).unwrap();
            assert_eq!(body, [round as u8; BODY]);
            region.store_u64(seen_at, u64::from(round)).unwrap();
        }
    });
}

#[cfg(target_arch = "x86_64")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Loops of moves, string moves and loops of words do the same.
    #[test]
    #[cfg_attr(miri, ignore = "assembly")]
    fn the_two_ways_of_copying_agree(
        data in proptest::collection::vec(any::<u8>(), 0..200), to in 0usize..9, from in 0usize..9,
        byte: u8,
    ) {
        let len = data.len().saturating_sub(from);
        let (first, second) = (guarded(256), guarded(256));
        let (a, b) = (first.pointer(to, len).unwrap(), second.pointer(to, len).unwrap());
        // SAFETY: `pointer` has checked the memory, `len` bytes follow `from` in `data`.
        unsafe {
            string_moves::loop_bytes(data.as_ptr().add(data.len() - len), a, len);
            word_moves::put_bytes(data.as_ptr().add(data.len() - len), b, len);
        }
        prop_assert_eq!(bytes(&first), bytes(&second));
        let mut out = (vec![0; len], vec![0; len]);
        // SAFETY: as above; the results have `len` bytes.
        unsafe {
            string_moves::get_bytes(a, out.0.as_mut_ptr(), len);
            word_moves::get_bytes(b, out.1.as_mut_ptr(), len);
        }
        prop_assert_eq!(&out.0, &out.1);
        // SAFETY: as above.
        unsafe { string_moves::move_string(data.as_ptr().add(data.len() - len), a, len) };
        prop_assert_eq!(bytes(&first), bytes(&second));
        // SAFETY: as above.
        unsafe {
            string_moves::set_bytes(a, byte, len / 2);
            word_moves::set_bytes(b, byte, len / 2);
            copy_in(data.as_ptr(), a, len.min(7));
            copy_in(data.as_ptr(), b, len.min(7));
        }
        prop_assert_eq!(bytes(&first), bytes(&second));
        // SAFETY: as above; both ends lie within the 256 bytes and overlap only forwards.
        unsafe {
            string_moves::move_bytes(a, a.sub(to), len);
            word_moves::move_bytes(b, b.sub(to), len);
        }
        prop_assert_eq!(bytes(&first), bytes(&second));
    }
}

/// Of a region on demand what is mapped is granted, wherever the peer says that it begins, and what is not mapped any more is refused.
#[cfg(not(miri))]
#[test]
fn of_a_region_on_demand_only_what_is_mapped_is_granted() {
    use super::pages::page_size;
    use crate::{Access, AccessError, MemLimits, MemTable, Requirer};
    const IOVA: u64 = 0x7000;
    let (page, protection) = (page_size(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let mut table = MemTable::new([7; 32], MemLimits::default());
    let pd = table.alloc_pd().unwrap();
    // SAFETY: a mapping of its own at a place of the kernel's choice, half of it given back; no reference covers its bytes.
    let (start, region) = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), 2 * page, protection, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(libc::munmap(start.byte_add(page), page), 0);
        (start, Region::on_demand(start.expose_provenance(), 2 * page).expect("a kernel that can"))
    };
    assert_eq!((region.addr(), region.len()), (start.addr() as u64, 2 * page));
    let access = Access::ON_DEMAND | Access::LOCAL_WRITE | Access::REMOTE;
    let mr = table.reg_mr(pd, region, IOVA, access).unwrap();
    let by = Requirer { pd, qpn: 17 };
    let refused = |table: &MemTable, va: u64| {
        for need in [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
            let refused = table.check(mr.rkey.0, by, need, va, 8).unwrap_err();
            assert_eq!(refused, AccessError::NotMapped { va });
        }
    };
    let slice = table.check(mr.rkey.0, by, Access::REMOTE_WRITE, IOVA + 8, 24).unwrap();
    slice.copy_in(0, &[3; 24]).unwrap();
    let mut out = [0; 24];
    slice.copy_out(0, &mut out).unwrap();
    assert_eq!(out, [3; 24]);
    let word = table.check(mr.rkey.0, by, Access::REMOTE_ATOMIC, IOVA, 8).unwrap();
    assert_eq!((word.fetch_add(0, 2), word.fetch_add(0, 0)), (Ok(0), Ok(2)));
    refused(&table, IOVA + page as u64);
    // SAFETY: the rest of that mapping.
    assert_eq!(unsafe { libc::munmap(start, page) }, 0);
    refused(&table, IOVA);
    slice.copy_out(0, &mut out).unwrap();
    assert_eq!(out, [0; 24], "it has gone behind the check");
    // SAFETY: nothing is accessed.
    let beyond = unsafe { Region::on_demand(usize::MAX, 2) };
    assert!(beyond.is_none());
}

/// A region of all memory: what the program has is granted, the rest refused, whatever a peer asks for.
#[cfg(not(miri))]
#[test]
fn of_all_memory_only_what_is_mapped_is_granted() {
    use crate::{Access, AccessError, MemLimits, MemTable, Requirer};
    let mut table = MemTable::new([7; 32], MemLimits::default());
    let pd = table.alloc_pd().unwrap();
    // SAFETY: this test touches no byte but those of `cell`, which is made of atomics.
    let region = unsafe { Region::whole_process() }.expect("a kernel that can");
    let access = Access::ON_DEMAND | Access::LOCAL_WRITE | Access::REMOTE;
    let mr = table.reg_mr(pd, region, 0, access).unwrap();
    let by = Requirer { pd, qpn: 17 };
    let cell = [const { AtomicU64::new(5) }; 4];
    let va = cell.as_ptr().expose_provenance() as u64;

    let slice = table.check(mr.rkey.0, by, Access::REMOTE_WRITE, va, 24).unwrap();
    slice.copy_in(0, &[1; 24]).unwrap();
    let mut out = [0; 32];
    let sge = crate::Sge { addr: va, length: 32, lkey: mr.lkey };
    table.gather(pd, &[sge], 0, &mut out).unwrap();
    assert_eq!(
        (out[..24].to_vec(), out[24..].to_vec()),
        (vec![1; 24], 5u64.to_ne_bytes().to_vec())
    );
    let word = table.check(mr.rkey.0, by, Access::REMOTE_ATOMIC, va + 24, 8).unwrap();
    assert_eq!((word.fetch_add(0, 2), cell[3].load(Ordering::SeqCst)), (Ok(5), 7));

    for va in [0, 8, 1 << 47, u64::MAX - 8] {
        for need in [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
            let refused = table.check(mr.rkey.0, by, need, va, 8).unwrap_err();
            assert_eq!(refused, AccessError::NotMapped { va });
        }
    }
    let constant = "only to be read".as_ptr().expose_provenance() as u64;
    assert!(table.check(mr.rkey.0, by, Access::REMOTE_READ, constant, 8).is_ok());
    let refused = table.check(mr.rkey.0, by, Access::REMOTE_WRITE, constant, 8).unwrap_err();
    assert_eq!(refused, AccessError::NotMapped { va: constant });
    // FLUSH of everything touches nothing.
    assert!(table.check_whole(mr.rkey.0, by, Access::FLUSH_GLOBAL).is_ok());
}

/// The register of CRC-32 behind `bytes`, from 0 on, bit by bit.
fn register(bytes: &[u8]) -> u32 {
    let bit = |state: u32| (state >> 1) ^ if state & 1 == 1 { 0xedb8_8320 } else { 0 };
    let byte = |state: u32, byte: &u8| (0..8).fold(state ^ u32::from(*byte), |state, _| bit(state));
    bytes.iter().fold(0, byte)
}

/// Bytes that are all different from their neighbours.
fn uneven(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect()
}

#[test]
fn long_copies_into_the_memory_touch_their_range_only() {
    let data = uneven(700);
    for len in [120, 127, 128, 129, 136, 255, 256, 257, 383, 384, 500, 640, 699] {
        for at in [0, 1, 5, 8, 31, 64] {
            let memory = guarded(800);
            memory.write(at, &data[..len]).unwrap();
            let seen = bytes(&memory);
            assert_eq!(&seen[at..at + len], &data[..len], "{len} at {at}");
            let beside = seen[..at].iter().chain(&seen[at + len..]);
            assert!(beside.into_iter().all(|byte| *byte == GUARD), "{len} at {at}");
        }
    }
}

#[test]
fn long_copies_out_of_the_memory_touch_their_range_only() {
    let memory = Region::alloc(800).unwrap();
    let data = uneven(800);
    memory.write(0, &data).unwrap();
    for len in [120, 127, 128, 129, 136, 255, 256, 257, 383, 384, 500, 640, 699] {
        for at in [0, 1, 5, 8, 31, 64] {
            let mut seen = vec![GUARD; 800];
            memory.read(at, &mut seen[at + 3..at + 3 + len]).unwrap();
            assert_eq!(&seen[at + 3..at + 3 + len], &data[at..at + len], "{len} at {at}");
            let beside = seen[..at + 3].iter().chain(&seen[at + 3 + len..]);
            assert!(beside.into_iter().all(|byte| *byte == GUARD), "{len} at {at}");
        }
    }
}

#[test]
fn a_copy_with_a_crc_is_a_copy_and_the_crc_of_it() {
    let memory = Region::alloc(5000).unwrap();
    let data = uneven(5000);
    memory.write(0, &data).unwrap();
    for len in [64, 128, 192, 256, 512, 1024, 1088, 2048, 4096] {
        for at in [0, 1, 13, 64] {
            let mut seen = vec![GUARD; len + 2];
            let crc = memory.read_crc(at, &mut seen[1..=len]);
            let expected = crate::multiplied_crc(0, &data[at..at + len]);
            assert_eq!(crc, expected, "{len} at {at}");
            let Some(crc) = crc else {
                assert!(seen.iter().all(|byte| *byte == GUARD), "this processor cannot");
                continue;
            };
            assert_eq!(crc, register(&data[at..at + len]), "{len} at {at}");
            assert_eq!(&seen[1..=len], &data[at..at + len]);
            assert_eq!((seen[0], seen[len + 1]), (GUARD, GUARD));
        }
    }
}

#[test]
fn a_copy_with_a_crc_beyond_the_end_changes_nothing() {
    let memory = guarded(1024);
    for at in [1, 512, 1024, usize::MAX - 63, usize::MAX] {
        let mut out = vec![1; 1024];
        assert_eq!(memory.read_crc(at, &mut out), None, "{at}");
        assert!(out.iter().all(|byte| *byte == 1), "{at}");
    }
    for len in [0, 1, 63, 65, 96] {
        let mut out = vec![1; len];
        assert_eq!(memory.read_crc(0, &mut out), None, "{len} bytes are not multiplied");
        assert!(out.iter().all(|byte| *byte == 1), "{len}");
    }
}

#[cfg(not(miri))]
#[test]
fn the_crc_is_of_what_was_copied_while_others_write() {
    let memory = Region::alloc(1024).unwrap();
    let (writer, done) = (memory.clone(), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut fill = 0u8;
            while !done.load(Ordering::Relaxed) {
                fill = fill.wrapping_add(1);
                writer.fill(0, 1024, fill).unwrap();
            }
        });
        for _ in 0..2000 {
            let mut out = [0; 1024];
            let crc = memory.read_crc(0, &mut out);
            assert!(crc.is_none_or(|crc| crc == register(&out)), "a mixture, and its CRC");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn crcs_of_parts_of_a_memory_are_those_of_their_bytes() {
    let memory = Region::alloc(4096).unwrap();
    let data = uneven(4096);
    memory.write(0, &data).unwrap();
    let mut out = [0; 256];
    for at in (0..=3840).step_by(240) {
        let part = &data[at..at + out.len()];
        let crc = memory.read_crc(at, &mut out);
        assert!(crc.is_none_or(|crc| crc == register(part)), "at {at}");
        assert!(crc.is_none() || out == part, "at {at}");
    }
}

#[test]
fn zeros_have_the_crc_0_and_one_bit_has_another() {
    let mut bytes = [0; 128];
    let none = crate::multiplied_crc(0, &bytes);
    assert!(none.is_none_or(|crc| crc == 0), "the register begins at 0");
    for bit in (0..bytes.len() * 8).step_by(37) {
        bytes[bit / 8] = 1 << (bit % 8);
        let crc = crate::multiplied_crc(0, &bytes);
        assert_eq!(crc, none.map(|_| register(&bytes)), "bit {bit}");
        assert_ne!(crc, Some(0), "bit {bit}");
        bytes[bit / 8] = 0;
    }
}

#[test]
fn a_crc_does_not_depend_on_where_the_bytes_are() {
    let data = uneven(600);
    let expected = crate::multiplied_crc(0, &data[..512]);
    for at in 1..64 {
        let moved = [vec![GUARD; at].as_slice(), &data[..512]].concat();
        assert_eq!(crate::multiplied_crc(0, &moved[at..]), expected, "{at} bytes on");
    }
}
