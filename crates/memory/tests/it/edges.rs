//! The edges of ranges, keys and lives: nothing at the end, everything up to 2^64, the same bytes twice.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use uroce_memory::{
    Access, AccessError, AtomicError, CopyError, Lkey, MwBind, MwType, OutOfRange, Region,
    Requirer, Rereg, Rkey, Sge,
};

use crate::common::{ALL, Guarded, QPN, World};

fn granted(world: &World, key: Rkey, va: u64, len: u64) -> bool {
    world.table.check(key.0, world.by(), Access::REMOTE_READ, va, len).is_ok()
}

#[test]
fn b10_a_region_of_no_bytes_grants_nothing_but_no_bytes_at_its_address() {
    for start in [0, 0x1000, u64::MAX] {
        let mut world = World::new();
        let mr = world.mr(0, start, ALL);
        for va in [0, start.wrapping_sub(1), start, start.wrapping_add(1), u64::MAX] {
            assert_eq!(granted(&world, mr.rkey, va, 0), va == start, "{start:#x} {va:#x}");
            assert!(!granted(&world, mr.rkey, va, 1) && !granted(&world, mr.rkey, va, u64::MAX));
        }
        let whole = world.table.check_whole(mr.rkey.0, world.by(), Access::FLUSH_GLOBAL).unwrap();
        assert!(whole.is_empty());
    }
}

/// An end at 2^64 has no number of 64 bits; its error says `u64::MAX` for it.
#[test]
fn b6_the_last_byte_of_the_address_space_can_be_used_and_no_byte_behind_it() {
    let mut world = World::new();
    let mr = world.mr(16, u64::MAX - 15, ALL);
    assert!(granted(&world, mr.rkey, u64::MAX, 1) && granted(&world, mr.rkey, u64::MAX - 15, 16));
    for (va, len) in [(u64::MAX, 2), (u64::MAX - 15, 17), (0, 0), (0, 1), (u64::MAX, u64::MAX)] {
        let refused = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_READ, va, len);
        let (start, end) = (u64::MAX - 15, u64::MAX);
        assert_eq!(refused.unwrap_err(), AccessError::OutOfRange { va, len, start, end });
    }
    let sge = Sge { addr: u64::MAX - 15, length: 16, lkey: mr.lkey };
    assert_eq!(world.table.scatter(world.pd, &[sge], 0, &[7; 16]), Ok(()));
    let mut out = [0; 16];
    assert_eq!(world.table.gather(world.pd, &[sge], 0, &mut out), Ok(()));
    assert_eq!(out, [7; 16]);
}

#[test]
fn one_memory_under_two_keys_and_addresses_has_the_same_bytes() {
    let guarded = Guarded::new(64);
    let mut world = World::new();
    let first = world.table.reg_mr(world.pd, guarded.region.clone(), 0x1000, ALL).unwrap();
    let second = world.table.reg_mr(world.pd, guarded.region.clone(), 0x9_0000, ALL).unwrap();
    assert_ne!((first.rkey, first.id), (second.rkey, second.id));
    let (by, write) = (world.by(), Access::REMOTE_WRITE);
    world.table.check(first.rkey.0, by, write, 0x1008, 4).unwrap().copy_in(0, b"same").unwrap();
    let mut seen = [0; 4];
    world
        .table
        .check(second.rkey.0, by, write, 0x9_0008, 4)
        .unwrap()
        .copy_out(0, &mut seen)
        .unwrap();
    assert_eq!(&seen, b"same");
    world.table.dereg_mr(first.id).unwrap();
    assert!(granted(&world, second.rkey, 0x9_0008, 4), "one registration ends, the other does not");
    guarded.assert_guards();
}

/// The owner of the memory keeps it: only the peers' way to it ends.
#[test]
fn the_memory_outlives_its_registration() {
    let mut world = World::new();
    let region = Region::alloc(16).unwrap();
    let mr = world.table.reg_mr(world.pd, region.clone(), 0, ALL).unwrap();
    let slice = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_WRITE, 0, 16).unwrap();
    slice.copy_in(0, &[9; 16]).unwrap();
    world.table.dereg_mr(mr.id).unwrap();
    assert!(!granted(&world, mr.rkey, 0, 16));
    assert!(world.table.region_of(mr.id).is_none());
    let mut seen = [0; 16];
    region.read(0, &mut seen).unwrap();
    assert_eq!(seen, [9; 16]);
}

/// All 256 variants of a window in turn; each ends the one before, and each may come again.
#[test]
fn r95_a_type_2_window_goes_through_all_variants_of_its_key() {
    let mut world = World::new();
    let mr = world.mr(64, 0, ALL);
    let mw = world.table.alloc_mw(world.pd, MwType::Type2B).unwrap();
    let first = mw.rkey;
    for round in 1..=512u32 {
        let before = world.table.mw(mw.id).unwrap().rkey;
        let new_rkey = before.with_variant(before.variant().wrapping_add(1));
        let (mr, pd, access) = (mr.lkey, world.pd, Access::REMOTE_READ);
        let bind = MwBind { mw: mw.id, mr, new_rkey, va: 0, length: 8, access, pd, qpn: QPN };
        assert_eq!(world.table.bind_mw(&bind), Ok(new_rkey));
        assert_eq!(new_rkey.index(), first.index());
        assert_eq!(new_rkey == first, round % 256 == 0);
        for variant in 0..=255u8 {
            let key = first.with_variant(variant);
            assert_eq!(granted(&world, key, 0, 8), key == new_rkey, "round {round}");
        }
        world.table.invalidate(new_rkey, pd, QPN, true).unwrap();
    }
}

/// A peer that saw every key so far knows nothing of the next.
#[test]
fn a7_keys_of_type_1_binds_do_not_repeat_or_count_up() {
    let mut world = World::new();
    let mr = world.mr(64, 0, ALL);
    let mw = world.table.alloc_mw(world.pd, MwType::Type1).unwrap();
    let mut seen = HashSet::from([mr.rkey, mw.rkey]);
    let mut steps = HashSet::new();
    let binds = if cfg!(miri) { 100 } else { 1_000 };
    for _ in 0..binds {
        let (mw, mr, pd, access) =
            (world.table.mw(mw.id).unwrap(), mr.lkey, world.pd, Access::REMOTE_READ);
        let (new_rkey, va, length) = (mw.rkey, 0, 8);
        let key = world
            .table
            .bind_mw(&MwBind { mw: mw.id, mr, new_rkey, va, length, access, pd, qpn: QPN })
            .unwrap();
        assert!(seen.insert(key) && key.index() != 0, "{key}");
        steps.insert(key.0.wrapping_sub(mw.rkey.0));
    }
    assert!(steps.len() + 10 > binds, "{} different steps of {binds}", steps.len());
}

#[test]
fn keys_are_printed_as_eight_digits_and_made_of_index_and_variant() {
    assert_eq!(
        (Rkey(0x12).to_string(), Lkey(0xabcd_ef01).to_string()),
        ("0x00000012".into(), "0xabcdef01".into())
    );
    for key in [0, 0xff, 0x100, 0x1234_5678, u32::MAX].map(Rkey) {
        assert_eq!(key.index() << 8 | u32::from(key.variant()), key.0);
        assert_eq!(key.with_variant(key.variant()), key);
        assert_eq!(key.with_variant(0xa5).0, key.0 & 0xffff_ff00 | 0xa5);
    }
}

/// A region whose first byte is not at its address of registration: the words of the memory decide.
#[test]
fn r33_an_atomic_is_aligned_where_the_memory_is() {
    let mut world = World::new();
    let mr = world.mr(64, 0x1004, ALL);
    for into in 0..=56u64 {
        let (by, va) = (world.by(), 0x1004 + into);
        let slice = world.table.check(mr.rkey.0, by, Access::REMOTE_ATOMIC, va, 8).unwrap();
        let done = [slice.fetch_add(0, 1), slice.compare_swap(0, 1, 0), slice.load_u64(0)];
        if into % 8 == 0 {
            assert_eq!(done, [Ok(0), Ok(1), Ok(0)], "{into}");
        } else {
            let refused = |result: Result<u64, AtomicError>| {
                matches!(result, Err(AtomicError::Misaligned { .. }))
            };
            assert!(done.into_iter().all(refused) && slice.store_u64(0, 1).is_err(), "{into}");
        }
    }
}

#[test]
fn r34_eight_bytes_of_an_atomic_do_not_reach_beyond_the_grant() {
    let mut world = World::new();
    let mr = world.mr(64, 0, ALL);
    for len in 0..16u64 {
        let slice =
            world.table.check(mr.rkey.0, world.by(), Access::REMOTE_ATOMIC, 0, len).unwrap();
        assert_eq!(slice.fetch_add(0, 1).is_ok(), len >= 8, "{len} bytes granted");
        let size = len as usize;
        if len < 8 {
            let refused = AtomicError::OutOfRange(OutOfRange { offset: 0, len: 8, size });
            assert_eq!(slice.compare_swap(0, 0, 1), Err(refused));
        }
        assert!(slice.load_u64(8).is_err(), "the second word is not granted whole");
    }
}

#[test]
fn atomics_of_many_threads_lose_nothing() {
    let mut world = World::new();
    let (mr, rounds) = (world.mr(16, 0, ALL), if cfg!(miri) { 20 } else { 2_000u64 });
    let (table, by, key) = (&world.table, world.by(), mr.rkey.0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let slice = table.check(key, by, Access::REMOTE_ATOMIC, 0, 16).unwrap();
                for _ in 0..rounds {
                    slice.fetch_add(0, 1).unwrap();
                    // A counter by compare and swap, as a peer without fetch and add would have it.
                    let mut seen = slice.load_u64(8).unwrap();
                    while let Ok(now) = slice.compare_swap(8, seen, seen + 1)
                        && now != seen
                    {
                        seen = now;
                    }
                }
            });
        }
    });
    let slice = table.check(key, by, Access::REMOTE_ATOMIC, 0, 16).unwrap();
    assert_eq!((slice.load_u64(0), slice.load_u64(8)), (Ok(4 * rounds), Ok(4 * rounds)));
}

/// A program that polls the last word of a message sees the rest of it.
#[test]
fn the_end_of_a_message_comes_last() {
    let mut world = World::new();
    let region = Region::alloc(256).unwrap();
    let mr = world.table.reg_mr(world.pd, region.clone(), 0, ALL).unwrap();
    let (table, by, done) = (&world.table, world.by(), AtomicBool::new(false));
    let rounds = if cfg!(miri) { 5 } else { 100u64 };
    thread::scope(|scope| {
        scope.spawn(|| {
            let slice = table.check(mr.rkey.0, by, Access::REMOTE_WRITE, 0, 256).unwrap();
            for round in 1..=rounds {
                let word = round.to_ne_bytes();
                slice.copy_in(0, &word.repeat(32)).unwrap();
                while region.load_u64(248).unwrap() != 0 {
                    std::hint::spin_loop();
                    thread::yield_now();
                }
            }
            done.store(true, Ordering::Release);
        });
        for round in 1..=rounds {
            while region.load_u64(248).unwrap() != round {
                thread::yield_now();
            }
            let mut seen = [0; 248];
            region.read(0, &mut seen).unwrap();
            assert_eq!(seen.to_vec(), round.to_ne_bytes().repeat(31), "round {round}");
            region.store_u64(248, 0).unwrap();
        }
    });
    assert!(done.load(Ordering::Acquire));
}

#[test]
fn a_copy_from_slice_to_slice_needs_room_for_all_of_it() {
    let (from, to) = (Guarded::new(32), Guarded::new(32));
    let mut world = World::new();
    let source = world.table.reg_mr(world.pd, from.region.clone(), 0, ALL).unwrap().rkey.0;
    let target = world.table.reg_mr(world.pd, to.region.clone(), 0, ALL).unwrap().rkey.0;
    from.region.write(0, &(0..32).collect::<Vec<u8>>()).unwrap();
    let slice =
        |key, va, len| world.table.check(key, world.by(), Access::REMOTE_WRITE, va, len).unwrap();
    for (at, len) in (0..8u64).flat_map(|at| (0..24u64).map(move |len| (at, len))) {
        to.region.fill(0, 32, 0xee).unwrap();
        let refused = slice(target, at, len).copy_from(&slice(source, 3, len + 1));
        let (len_wanted, size) = (len as usize + 1, len as usize);
        let error = CopyError::OutOfRange(OutOfRange { offset: 0, len: len_wanted, size });
        assert_eq!((refused, to.bytes()), (Err(error), vec![0xee; 32]));
        slice(target, at, len).copy_from(&slice(source, 3, len)).unwrap();
        let mut wanted = vec![0xee; 32];
        wanted[at as usize..(at + len) as usize]
            .copy_from_slice(&from.bytes()[3..3 + len as usize]);
        assert_eq!(to.bytes(), wanted, "{len} bytes to {at}");
    }
    from.assert_guards();
    to.assert_guards();
}

/// Another table may be another device of the process.
#[test]
fn keys_and_domains_mean_nothing_to_another_table() {
    let (mut one, mut other) = (World::new(), World::new());
    let mr = one.mr(64, 0, ALL);
    let by = Requirer { pd: other.pd, qpn: QPN };
    let refused = other.table.check(mr.rkey.0, by, Access::REMOTE_READ, 0, 8).map(|_| ());
    assert_eq!(refused, Err(AccessError::UnknownKey { key: mr.rkey.0 }));
    assert!(other.table.mr(mr.id).is_none() && other.table.dereg_mr(mr.id).is_err());
    assert!(granted(&one, mr.rkey, 0, 8));
}

/// Handles of C are places: small, and used again when their object is gone, unlike ids.
#[test]
fn a_place_is_used_again_and_an_id_is_not() {
    let mut world = World::new();
    let first = world.mr(8, 0, ALL);
    let second = world.mr(8, 0, ALL);
    assert_eq!((first.id.place(), second.id.place()), (0, 1));
    assert_eq!(world.table.mr_at(0), Some(first));
    world.table.dereg_mr(first.id).unwrap();
    assert_eq!(world.table.mr_at(0), None);
    let third = world.mr(8, 0, ALL);
    assert_eq!((third.id.place(), world.table.mr_at(0)), (0, Some(third)));
    assert!(third.id != first.id && third.id.get() != first.id.get());
    assert_eq!((world.table.mr(first.id), world.table.mr_at(77)), (None, None));
    assert_eq!(world.table.pd_at(world.pd.place()), Some(world.pd));
    assert_eq!((world.pd.place(), world.other_pd.place(), world.table.pd_at(2)), (0, 1, None));
    let listed: Vec<_> = world.table.pds().collect();
    assert_eq!(listed, [(world.pd, 2), (world.other_pd, 0)]);
}

/// A window has a place among the regions, and is none of them.
#[test]
fn a_window_is_not_found_as_a_region() {
    let mut world = World::new();
    world.table.alloc_mw(world.pd, MwType::Type1).unwrap();
    let mr = world.mr(8, 0, ALL);
    assert_eq!((world.table.mr_at(0), world.table.mr_at(1)), (None, Some(mr)));
    assert_eq!(world.table.mrs().map(|info| info.mr).collect::<Vec<_>>(), [mr]);
}

#[test]
fn a_rereg_to_other_memory_shows_the_new_bytes_only() {
    let mut world = World::new();
    let (old, new) = (Region::alloc(8).unwrap(), Region::alloc(24).unwrap());
    let mr = world.table.reg_mr(world.pd, old.clone(), 0x100, ALL).unwrap();
    let change = Rereg { translation: Some((new.clone(), 0x200)), ..Rereg::default() };
    let moved = world.table.rereg_mr(mr.id, change).unwrap();
    let (by, write) = (world.by(), Access::REMOTE_WRITE);
    let slice = world.table.check(moved.rkey.0, by, write, 0x200, 24).unwrap();
    slice.copy_in(16, &[1; 8]).unwrap();
    assert_eq!((new.load_u64(16), old.load_u64(0)), (Ok(u64::MAX / 255), Ok(0)));
    assert!(!granted(&world, moved.rkey, 0x100, 8) && !granted(&world, mr.rkey, 0x100, 8));
    let info = world.table.mrs().next().unwrap();
    assert_eq!((info.mr, info.iova, info.len), (moved, 0x200, 24));
}
