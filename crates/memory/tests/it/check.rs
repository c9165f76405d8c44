//! The access check: rights, ranges, wrapping, domains (R28, R31, R32; B5 to B7, B10).

use uroce_memory::{Access, AccessError, Lkey, Region, Requirer, Sge};

use crate::common::{ALL, Guarded, QPN, World};

const START: u64 = 0x10_0000;
const LEN: u64 = 4096;

/// Every set of the rights that matter here, as far as it can be registered.
fn registrable() -> impl Iterator<Item = Access> {
    let bits = [
        Access::LOCAL_WRITE,
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::REMOTE_ATOMIC,
        Access::FLUSH_GLOBAL,
    ];
    (0..1u32 << bits.len())
        .map(move |set| {
            let chosen = (0..bits.len()).filter(|i| set >> i & 1 == 1).map(|i| bits[i]);
            chosen.fold(Access::empty(), Access::union)
        })
        .filter(|access| {
            !access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC)
                || access.contains(Access::LOCAL_WRITE)
        })
}

const OPERATIONS: [Access; 5] = [
    Access::REMOTE_WRITE,
    Access::REMOTE_READ,
    Access::REMOTE_ATOMIC,
    Access::FLUSH_GLOBAL,
    Access::FLUSH_PERSISTENT,
];

/// Ranges at each bound, one byte off it either way, and whether they are inside.
const BOUNDS: [(u64, u64, bool); 14] = [
    (START, LEN, true),
    (START - 1, LEN, false),
    (START + 1, LEN, false),
    (START, LEN - 1, true),
    (START, LEN + 1, false),
    (START + 1, LEN - 1, true),
    (START - 1, LEN + 1, false),
    (START - 1, 1, false),
    (START, 1, true),
    (START + LEN - 1, 1, true),
    (START + LEN - 1, 2, false),
    (START + LEN, 1, false),
    (START + LEN, 0, true),
    (START + LEN + 1, 0, false),
];

#[test]
fn r28_every_right_operation_and_bound() {
    for access in registrable() {
        let mut world = World::new();
        let mr = world.mr(LEN as usize, START, access);
        for need in OPERATIONS {
            for (va, len, inside) in BOUNDS {
                let result = world.table.check(mr.rkey.0, world.by(), need, va, len);
                if !access.contains(need) {
                    let refused = AccessError::NoAccess { needed: need, granted: access };
                    assert_eq!(result.unwrap_err(), refused);
                } else if inside {
                    assert_eq!(result.unwrap().len() as u64, len);
                } else {
                    let (start, end) = (START, START + LEN);
                    let refused = AccessError::OutOfRange { va, len, start, end };
                    assert_eq!(result.unwrap_err(), refused);
                }
            }
        }
    }
}

#[test]
fn local_reads_need_nothing_and_local_writes_local_write() {
    for access in registrable() {
        let mut world = World::new();
        let mr = world.mr(LEN as usize, START, access);
        for (addr, length, inside) in BOUNDS {
            let sge = Sge { addr, length: length as u32, lkey: mr.lkey };
            let read = world.table.check_local(&sge, world.pd, Access::empty());
            assert_eq!(read.is_ok(), inside);
            let write = world.table.check_local(&sge, world.pd, Access::LOCAL_WRITE);
            assert_eq!(write.is_ok(), inside && access.contains(Access::LOCAL_WRITE));
        }
    }
}

/// Ranges whose end is 2^64 - 1, 2^64 and beyond, on a region that ends there itself.
#[test]
fn b5_to_b7_nothing_wraps_at_2_to_the_64() {
    let end_of_memory = 0u64.wrapping_sub(LEN);
    let mut world = World::new();
    let region = Region::alloc(LEN as usize).unwrap();
    let top = world.table.reg_mr(world.pd, region, end_of_memory, ALL).unwrap();
    let low = world.mr(LEN as usize, 0, ALL);
    let by = world.by();
    for need in [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC] {
        for into in [0, 1, 8, LEN - 8, LEN - 1] {
            let va = end_of_memory + into;
            let rest = LEN - into;
            let ok = |len| world.table.check(top.rkey.0, by, need, va, len).is_ok();
            assert!(ok(rest), "ends at exactly 2^64");
            assert!(ok(rest - 1), "ends at 2^64 - 1");
            for k in [1, 7, 8, LEN, u64::from(u32::MAX), u64::MAX - rest] {
                assert!(!ok(rest + k), "ends at 2^64 + {k}");
                let wrapped = world.table.check(low.rkey.0, by, need, va, rest + k);
                assert!(wrapped.is_err(), "wrapping into a region at 0");
            }
        }
    }
}

#[test]
fn b5_the_published_case() {
    let mut world = World::new();
    let mr = world.mr(0x400, 0x1000, ALL);
    let va = 0xffff_ffff_ffff_fc00;
    let refused = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_WRITE, va, 0x400);
    let (start, end) = (0x1000, 0x1400);
    assert_eq!(refused.unwrap_err(), AccessError::OutOfRange { va, len: 0x400, start, end });
}

#[test]
fn other_domains_other_keys_and_key_0_give_nothing() {
    let mut world = World::new();
    let mr = world.mr(64, START, ALL);
    let stranger = Requirer { pd: world.other_pd, qpn: QPN };
    let read = |key, by| world.table.check(key, by, Access::REMOTE_READ, START, 8).map(|_| ());
    assert_eq!(read(mr.rkey.0, stranger), Err(AccessError::WrongPd));
    for bit in 0..32 {
        let key = mr.rkey.0 ^ 1 << bit;
        assert_eq!(read(key, world.by()), Err(AccessError::UnknownKey { key }));
    }
    for key in [0, 1, u32::MAX] {
        assert_eq!(read(key, world.by()), Err(AccessError::UnknownKey { key }));
    }
    let sge = Sge { addr: START, length: 8, lkey: mr.lkey };
    let local = |sge: &Sge, pd| world.table.check_local(sge, pd, Access::empty()).map(|_| ());
    assert_eq!(local(&sge, world.other_pd), Err(AccessError::WrongPd));
    let bogus = Sge { lkey: Lkey(0), ..sge };
    assert_eq!(local(&bogus, world.pd), Err(AccessError::UnknownKey { key: 0 }));
}

/// Whether the key of an empty access matters is the caller's business; asking is harmless.
#[test]
fn b10_a_length_of_0_is_checked_without_harm() {
    let mut world = World::new();
    let (mr, empty) = (world.mr(64, START, ALL), world.mr(0, START, ALL));
    for key in [mr.rkey.0, empty.rkey.0, 0, 0xdead_beef] {
        for va in [0, START - 1, START, START + 64, START + 65, u64::MAX] {
            let known = key == mr.rkey.0 && (START..=START + 64).contains(&va);
            let at_empty = key == empty.rkey.0 && va == START;
            let result = world.table.check(key, world.by(), Access::REMOTE_READ, va, 0);
            assert_eq!(result.is_ok(), known || at_empty);
            if let Ok(slice) = result {
                assert!(slice.is_empty() && slice.copy_in(0, &[]).is_ok());
                assert!(slice.copy_in(0, &[1]).is_err() && slice.load_u64(0).is_err());
            }
        }
    }
}

#[test]
fn a_slice_gives_only_what_was_checked() {
    let guarded = Guarded::new(64);
    let mut world = World::new();
    let mr = world.table.reg_mr(world.pd, guarded.region.clone(), START, ALL).unwrap();
    let (by, need) = (world.by(), Access::REMOTE_WRITE);
    let slice = world.table.check(mr.rkey.0, by, need, START + 8, 16).unwrap();
    slice.copy_in(0, &[1; 16]).unwrap();
    for (offset, len) in [(0, 17), (1, 16), (16, 1), (17, 0), (usize::MAX, 1), (usize::MAX, 17)] {
        assert!(slice.copy_in(offset, &vec![2; len]).is_err());
        assert!(slice.copy_out(offset, &mut vec![2; len]).is_err());
    }
    for offset in [9, 16, usize::MAX - 7, usize::MAX] {
        assert!(slice.fetch_add(offset, 1).is_err() && slice.store_u64(offset, 1).is_err());
        assert!(slice.compare_swap(offset, 0, 1).is_err() && slice.load_u64(offset).is_err());
    }
    assert_eq!(guarded.bytes()[..24], [[0; 8], [1; 8], [1; 8]].concat());
    assert_eq!(guarded.bytes()[24..], [0; 40]);
    guarded.assert_guards();
}

#[test]
fn the_whole_of_a_registration_can_be_asked_for() {
    let mut world = World::new();
    let mr = world.mr(100, START, ALL);
    let whole = world.table.check_whole(mr.rkey.0, world.by(), Access::FLUSH_GLOBAL);
    assert_eq!(whole.unwrap().len(), 100);
    let more = Access::FLUSH_PERSISTENT;
    let refused = AccessError::NoAccess { needed: more, granted: ALL };
    assert_eq!(world.table.check_whole(mr.rkey.0, world.by(), more).unwrap_err(), refused);
}
