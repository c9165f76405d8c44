//! Copying through scatter/gather lists, with a map of bytes as the model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use uroce_memory::{Access, AccessError, Lkey, Mr, Sge, SgeError};

use crate::common;
use crate::common::{Guarded, World, config};

fn fails(index: usize, error: AccessError) -> Result<(), SgeError> {
    Err(SgeError { index, error })
}

/// A writable region whose bytes are 0, 1, 2 ..
fn counting(world: &mut World, len: usize, start: u64) -> Mr {
    let mr = world.mr(len, start, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
    let (by, need) = (world.by(), Access::REMOTE_WRITE);
    let slice = world.table.check(mr.rkey.0, by, need, start, len as u64).unwrap();
    slice.copy_in(0, &bytes).unwrap();
    mr
}

#[test]
fn a_list_is_one_row_of_bytes() {
    let mut world = World::new();
    let lkey = counting(&mut world, 100, 1000).lkey;
    let sge = |addr, length| Sge { addr, length, lkey };
    let list = [sge(1010, 3), sge(1000, 0), sge(1050, 2), sge(1099, 1)];
    let whole = [10, 11, 12, 50, 51, 99];
    for offset in 0..=6 {
        for len in 0..=6 - offset {
            let mut out = vec![0; len];
            world.table.gather(world.pd, &list, offset as u64, &mut out).unwrap();
            assert_eq!(out, whole[offset..offset + len]);
        }
    }
}

#[test]
fn a_list_that_is_too_short_copies_nothing_in() {
    let guarded = Guarded::new(16);
    let mut world = World::new();
    let access = Access::LOCAL_WRITE;
    let lkey = world.table.reg_mr(world.pd, guarded.region.clone(), 0, access).unwrap().lkey;
    let sge = |addr, length| Sge { addr, length, lkey };
    for list in [vec![sge(0, 8)], vec![sge(0, 4), sge(8, 4)], vec![]] {
        let bytes = list.iter().map(|sge| u64::from(sge.length)).sum::<u64>();
        for (offset, len) in [(0, 9), (1, 8), (8, 1), (100, 4), (u64::MAX, 1)] {
            let missing = if bytes > offset { offset + len - bytes } else { len };
            let short = fails(list.len(), AccessError::ListTooShort { missing });
            let data = vec![1; len as usize];
            assert_eq!(world.table.scatter(world.pd, &list, offset, &data), short);
            let mut out = vec![0; len as usize];
            assert_eq!(world.table.gather(world.pd, &list, offset, &mut out), short);
        }
        assert_eq!(world.table.scatter(world.pd, &list, bytes, &[]), Ok(()));
    }
    assert_eq!(guarded.bytes(), [0; 16]);
    guarded.assert_guards();
}

#[test]
fn b46_one_bad_sge_and_nothing_is_written() {
    let guarded = Guarded::new(64);
    let mut world = World::new();
    let region = guarded.region.clone();
    let good = world.table.reg_mr(world.pd, region.clone(), 0, Access::LOCAL_WRITE).unwrap();
    let read_only = world.table.reg_mr(world.pd, region.clone(), 0, Access::empty()).unwrap();
    let foreign = world.table.reg_mr(world.other_pd, region, 0, Access::LOCAL_WRITE).unwrap();
    let fine = Sge { addr: 0, length: 16, lkey: good.lkey };
    let granted = Access::empty();
    let (start, end) = (0, 64);
    let bad = [
        (Sge { lkey: Lkey(0), ..fine }, AccessError::UnknownKey { key: 0 }),
        (Sge { lkey: foreign.lkey, ..fine }, AccessError::WrongPd),
        (
            Sge { lkey: read_only.lkey, ..fine },
            AccessError::NoAccess { needed: Access::LOCAL_WRITE, granted },
        ),
        (Sge { addr: 49, ..fine }, AccessError::OutOfRange { va: 49, len: 16, start, end }),
        (
            Sge { addr: u64::MAX - 7, ..fine },
            AccessError::OutOfRange { va: u64::MAX - 7, len: 16, start, end },
        ),
    ];
    for (sge, error) in bad {
        let alone = world.table.scatter(world.pd, &[sge], 0, &[1; 16]);
        assert_eq!(alone, fails(0, error));
        let last = world.table.scatter(world.pd, &[fine, fine, sge], 0, &[1; 48]);
        assert_eq!(last, fails(2, error));
        assert_eq!(guarded.bytes(), [0; 64]);
        let unreached = world.table.scatter(world.pd, &[fine, sge], 0, &[0; 16]);
        assert_eq!(unreached, Ok(()), "an SGE that is not reached may hold anything");
    }
    guarded.assert_guards();
}

#[test]
fn an_offset_that_leaves_the_address_space_is_out_of_range() {
    let mut world = World::new();
    let lkey = world.mr(64, 0, Access::LOCAL_WRITE).lkey;
    let sge = Sge { addr: u64::MAX - 1, length: 16, lkey };
    for list in [&[sge][..], &[sge, sge][..]] {
        let result = world.table.gather(world.pd, list, 4, &mut [0; 4]);
        assert!(matches!(
            result,
            Err(SgeError { index: 0, error: AccessError::OutOfRange { .. } })
        ));
    }
}

const BASE: u64 = 0x7000;
const SIZE: u64 = 128;

/// An SGE near the two regions, often but not always inside one.
fn any_sge() -> impl Strategy<Value = (u64, u32, usize)> {
    (BASE - 4..BASE + SIZE + 4, prop_oneof![4 => 0u32..24, 1 => 0u32..200], 0usize..3)
}

/// The addresses of the bytes that a copy touches, by the definition; `None` if one is missing
/// or outside.
fn model(list: &[(u64, u32, usize)], offset: u64, len: usize) -> Option<Vec<(usize, u64)>> {
    let all = list.iter().flat_map(|&(addr, length, region)| {
        (0..u64::from(length)).map(move |i| (region, addr + i))
    });
    let touched: Vec<_> = all.skip(offset as usize).take(len).collect();
    let inside = |&(region, va): &(usize, u64)| region < 2 && (BASE..BASE + SIZE).contains(&va);
    (touched.len() == len && touched.iter().all(inside)).then_some(touched)
}

proptest! {
    #![proptest_config(config(2000))]

    /// Two regions and a key of nothing; any list, offset and length: the bytes are those of the
    /// model, or the copy fails and changes nothing.
    #[test]
    fn scatter_and_gather_agree_with_a_map_of_bytes(
        steps in proptest::collection::vec(
            (proptest::collection::vec(any_sge(), 0..5), 0u64..40, 0usize..60, any::<u8>()), 1..8)
    ) {
        let regions = [Guarded::new(SIZE as usize), Guarded::new(SIZE as usize)];
        let mut world = World::new();
        let mut lkeys: Vec<Lkey> = regions.iter().map(|guarded| {
            let region = guarded.region.clone();
            world.table.reg_mr(world.pd, region, BASE, Access::LOCAL_WRITE).unwrap().lkey
        }).collect();
        lkeys.push(Lkey(lkeys[0].0 ^ 1));
        let mut bytes: BTreeMap<(usize, u64), u8> = BTreeMap::new();
        for (list, offset, len, first) in steps {
            let sges: Vec<Sge> = list.iter()
                .map(|&(addr, length, region)| Sge { addr, length, lkey: lkeys[region] }).collect();
            let data: Vec<u8> = (0..len).map(|i| first.wrapping_add(i as u8)).collect();
            let touched = model(&list, offset, len);
            let result = world.table.scatter(world.pd, &sges, offset, &data);
            prop_assert_eq!(result.is_ok(), touched.is_some());
            let touched = touched.unwrap_or_default();
            bytes.extend(touched.iter().copied().zip(data));
            let mut out = vec![0; len];
            let gathered = world.table.gather(world.pd, &sges, offset, &mut out);
            prop_assert_eq!(gathered.is_ok(), result.is_ok());
            if gathered.is_ok() {
                let expected: Vec<u8> = touched.iter().map(|at| bytes[at]).collect();
                prop_assert_eq!(out, expected);
            }
        }
        for (index, guarded) in regions.iter().enumerate() {
            let at = |va| bytes.get(&(index, va)).copied().unwrap_or(0);
            prop_assert_eq!(guarded.bytes(), (BASE..BASE + SIZE).map(at).collect::<Vec<u8>>());
            guarded.assert_guards();
        }
    }

    /// A remote access is granted exactly if every byte of it is inside, in wide arithmetic.
    #[test]
    fn check_agrees_with_wide_arithmetic(
        start in prop_oneof![Just(0u64), Just(BASE), Just(0u64.wrapping_sub(SIZE)), any::<u64>()],
        into in -200i64..200, len in prop_oneof![0u64..300, any::<u64>(), u64::MAX - 300..=u64::MAX],
    ) {
        prop_assume!(u128::from(start) + u128::from(SIZE) <= 1 << 64);
        let mut world = World::new();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mr = world.mr(SIZE as usize, start, access);
        let va = start.wrapping_add_signed(into);
        let (first, end) = (u128::from(start), u128::from(start) + u128::from(SIZE));
        let inside = u128::from(va) >= first && u128::from(va) + u128::from(len) <= end;
        let result = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_WRITE, va, len);
        prop_assert_eq!(result.is_ok(), inside);
        if let Ok(slice) = result {
            slice.copy_in(0, &vec![1; len as usize]).unwrap();
        }
    }

    /// No key, address or length makes a check do anything but answer.
    #[test]
    fn no_check_panics(key: u32, va: u64, len: u64, bits: u32, qpn: u32) {
        let mut world = World::new();
        let mr = world.mr(64, va & !0xff, common::ALL);
        let by = uroce_memory::Requirer { pd: world.pd, qpn };
        for key in [key, mr.rkey.0] {
            let need = Access::from_bits_retain(bits);
            let granted = world.table.check(key, by, need, va, len).is_ok();
            prop_assert!(!granted || key == mr.rkey.0 && len <= 64);
            let inside = world.table.check(key, by, Access::REMOTE_READ, va, len).is_ok();
            prop_assert_eq!(inside, key == mr.rkey.0 && (va & 0xff) + len.min(65) <= 64);
        }
    }
}
