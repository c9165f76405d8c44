//! Registering, re-registering, deregistering; domains and limits (B39, B40, A7).

use uroce_memory::{
    Access, AccessError, AllocMwError, DeregError, MemLimits, MemTable, MwType, PdError,
    RegMrError, Region, Rereg, ReregError,
};

use crate::common::{ALL, World};

fn valid(world: &World, key: u32, va: u64) -> Result<(), AccessError> {
    world.table.check(key, world.by(), Access::REMOTE_READ, va, 8).map(|_| ())
}

#[test]
fn remote_write_and_atomic_need_local_write() {
    let mut world = World::new();
    let region = Region::alloc(8).unwrap();
    for remote in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
        let refused = world.table.reg_mr(world.pd, region.clone(), 0, remote);
        assert_eq!(refused, Err(RegMrError::NeedsLocalWrite));
        let access = remote | Access::LOCAL_WRITE;
        assert!(world.table.reg_mr(world.pd, region.clone(), 0, access).is_ok());
    }
    let unknown = Access::from_bits_retain(1 << 15);
    let refused = world.table.reg_mr(world.pd, region, 0, unknown);
    assert_eq!(refused, Err(RegMrError::UnknownAccess { bits: 1 << 15 }));
}

#[test]
fn b45_a_registration_that_fails_leaves_nothing_behind() {
    let limits = MemLimits { max_mr: 1, max_mw: 0, max_mr_size: 64, ..MemLimits::default() };
    let mut table = MemTable::new([7; 32], limits);
    let (pd, gone) = (table.alloc_pd().unwrap(), table.alloc_pd().unwrap());
    table.dealloc_pd(gone).unwrap();
    let region = |len| Region::alloc(len).unwrap();
    for (pd, len, iova, access) in [
        (gone, 64, 0, ALL),
        (pd, 65, 0, ALL),
        (pd, 64, u64::MAX - 62, ALL),
        (pd, 64, 0, Access::REMOTE_WRITE),
        (pd, 64, 0, Access::from_bits_retain(1 << 12)),
        (pd, 64, 0, ALL | Access::FLUSH_PERSISTENT),
    ] {
        assert!(table.reg_mr(pd, region(len), iova, access).is_err(), "{len} {iova:#x}");
    }
    let mr = table.reg_mr(pd, region(64), 0, ALL).unwrap();
    assert!(table.reg_mr(pd, region(64), 0, ALL).is_err(), "the limit");
    assert!(table.alloc_mw(pd, MwType::Type1).is_err(), "the limit");
    assert_eq!((table.mr_count(), table.mw_count()), (1, 0));
    table.dereg_mr(mr.id).unwrap();
    assert_eq!(table.dealloc_pd(pd), Ok(()), "nobody uses the domain");
}

#[test]
fn r117_no_region_is_registered_for_a_flush_to_persistence() {
    let mut world = World::new();
    let flush = ALL | Access::FLUSH_PERSISTENT;
    let region = Region::alloc(64).unwrap();
    let error = world.table.reg_mr(world.pd, region, 0, flush).unwrap_err();
    assert_eq!(error, RegMrError::NotPersistent);
    assert!(error.to_string().contains("survive a power failure"), "{error}");
    let mr = world.mr(64, 0, ALL);
    let change = Rereg { access: Some(flush), ..Rereg::default() };
    let error = world.table.rereg_mr(mr.id, change).unwrap_err();
    assert_eq!(error, ReregError::Reg(RegMrError::NotPersistent));
    assert_eq!(world.table.mrs().next().unwrap().access, ALL);
}

#[test]
fn b5_a_registration_ends_at_2_to_the_64_at_most() {
    let mut world = World::new();
    let region = Region::alloc(64).unwrap();
    for (iova, fits) in [(0u64.wrapping_sub(64), true), (0u64.wrapping_sub(63), false)] {
        let result = world.table.reg_mr(world.pd, region.clone(), iova, ALL);
        assert_eq!(result.is_ok(), fits);
        if !fits {
            assert_eq!(result, Err(RegMrError::AddressWrap { iova, len: 64 }));
        }
    }
    assert!(world.table.reg_mr(world.pd, Region::alloc(0).unwrap(), u64::MAX, ALL).is_ok());
}

#[test]
fn a_zero_based_region_starts_at_0() {
    let mut world = World::new();
    let mr = world.mr(64, 0x5000, ALL | Access::ZERO_BASED);
    assert_eq!(valid(&world, mr.rkey.0, 0), Ok(()));
    assert!(valid(&world, mr.rkey.0, 0x5000).is_err());
}

#[test]
fn limits_are_kept_and_give_way_again() {
    let limits = MemLimits { max_pd: 1, max_mr: 2, max_mw: 1, max_mr_size: 64 };
    let mut table = MemTable::new([1; 32], limits);
    let pd = table.alloc_pd().unwrap();
    assert_eq!(table.alloc_pd(), Err(PdError::TooMany { limit: 1 }));
    let region = Region::alloc(64).unwrap();
    let first = table.reg_mr(pd, region.clone(), 0, ALL).unwrap();
    table.reg_mr(pd, region.clone(), 0, ALL).unwrap();
    let refused = table.reg_mr(pd, region.clone(), 0, ALL);
    assert_eq!(refused, Err(RegMrError::TooMany { limit: 2 }));
    table.dereg_mr(first.id).unwrap();
    let large = table.reg_mr(pd, Region::alloc(65).unwrap(), 0, ALL);
    assert_eq!(large, Err(RegMrError::TooLarge { len: 65, limit: 64 }));
    assert!(table.reg_mr(pd, region, 0, ALL).is_ok());
    let mw = table.alloc_mw(pd, MwType::Type1).unwrap();
    assert_eq!(table.alloc_mw(pd, MwType::Type1), Err(AllocMwError::TooMany { limit: 1 }));
    table.dealloc_mw(mw.id).unwrap();
    assert_eq!((table.pd_count(), table.mr_count(), table.mw_count()), (1, 2, 0));
}

#[test]
fn a_domain_in_use_stays() {
    let mut world = World::new();
    let mr = world.mr(8, 0, ALL);
    let mw = world.table.alloc_mw(world.pd, MwType::Type1).unwrap();
    world.table.retain_pd(world.pd).unwrap();
    assert_eq!(world.table.dealloc_pd(world.pd), Err(PdError::Busy { users: 3 }));
    world.table.dereg_mr(mr.id).unwrap();
    world.table.dealloc_mw(mw.id).unwrap();
    world.table.release_pd(world.pd).unwrap();
    assert_eq!(world.table.dealloc_pd(world.pd), Ok(()));
    assert_eq!(world.table.dealloc_pd(world.pd), Err(PdError::Unknown));
    assert_eq!(world.table.retain_pd(world.pd), Err(PdError::Unknown));
    assert_eq!(world.table.release_pd(world.pd), Err(PdError::Unknown));
    let region = Region::alloc(8).unwrap();
    assert_eq!(world.table.reg_mr(world.pd, region, 0, ALL), Err(RegMrError::UnknownPd));
    let refused = world.table.alloc_mw(world.pd, MwType::Type1);
    assert_eq!(refused, Err(AllocMwError::UnknownPd));
    let next = world.table.alloc_pd().unwrap();
    assert_ne!(next, world.pd, "the id of a freed domain does not come back at once");
}

#[test]
fn a7_a_deregistered_key_is_dead() {
    let mut world = World::new();
    let old = world.mr(64, 0, ALL);
    world.table.dereg_mr(old.id).unwrap();
    assert_eq!(world.table.dereg_mr(old.id), Err(DeregError::Unknown));
    assert_eq!(world.table.mr(old.id), None);
    let rounds = if cfg!(miri) { 50 } else { 20_000 };
    for _ in 0..rounds {
        let mr = world.mr(8, 0, ALL);
        assert_ne!((mr.rkey, mr.id), (old.rkey, old.id));
        let dead = Err(AccessError::UnknownKey { key: old.rkey.0 });
        assert_eq!(valid(&world, old.rkey.0, 0), dead);
        assert_eq!(world.table.dereg_mr(old.id), Err(DeregError::Unknown));
        world.table.dereg_mr(mr.id).unwrap();
    }
}

#[test]
fn a7_another_seed_makes_other_keys() {
    let key = |seed| {
        let mut table = MemTable::new([seed; 32], MemLimits::default());
        let pd = table.alloc_pd().unwrap();
        table.reg_mr(pd, Region::alloc(8).unwrap(), 0, ALL).unwrap().rkey
    };
    assert_ne!(key(1), key(2));
}

#[test]
fn a7_a_new_translation_ends_the_old_key() {
    let mut world = World::new();
    let old = world.mr(64, 0x1000, ALL);
    let translation = Some((Region::alloc(128).unwrap(), 0x8000));
    let change = Rereg { translation, ..Rereg::default() };
    let new = world.table.rereg_mr(old.id, change).unwrap();
    assert!(new.id == old.id && new.rkey != old.rkey && new.rkey.0 == new.lkey.0);
    assert_eq!(world.table.mr(old.id), Some(new));
    let dead = Err(AccessError::UnknownKey { key: old.rkey.0 });
    assert_eq!(valid(&world, old.rkey.0, 0x1000), dead);
    assert_eq!(valid(&world, new.rkey.0, 0x8000 + 120), Ok(()));
    assert!(valid(&world, new.rkey.0, 0x1000).is_err());
}

#[test]
fn rereg_of_domain_and_rights_keeps_the_key() {
    let mut world = World::new();
    let mr = world.mr(64, 0, ALL);
    let access = Some(Access::LOCAL_WRITE);
    let change = Rereg { access, pd: Some(world.other_pd), translation: None };
    assert_eq!(world.table.rereg_mr(mr.id, change), Ok(mr));
    assert_eq!(valid(&world, mr.rkey.0, 0), Err(AccessError::WrongPd));
    assert_eq!(world.table.dealloc_pd(world.pd), Ok(()));
    assert_eq!(world.table.dealloc_pd(world.other_pd), Err(PdError::Busy { users: 1 }));
    world.pd = world.other_pd;
    assert!(matches!(valid(&world, mr.rkey.0, 0), Err(AccessError::NoAccess { .. })));
    world.table.dereg_mr(mr.id).unwrap();
    assert_eq!(world.table.dealloc_pd(world.pd), Ok(()));
}

#[test]
fn a_failed_rereg_changes_nothing() {
    let mut world = World::new();
    let mr = world.mr(64, 0, ALL);
    let gone = world.table.alloc_pd().unwrap();
    world.table.dealloc_pd(gone).unwrap();
    let region = || Region::alloc(64).unwrap();
    let change = Rereg { pd: Some(world.other_pd), ..Rereg::default() };
    let bad = [
        Rereg { access: Some(Access::REMOTE_WRITE), ..change.clone() },
        Rereg { translation: Some((region(), u64::MAX)), ..change.clone() },
        Rereg { pd: Some(gone), translation: Some((region(), 8)), ..change.clone() },
    ];
    for change in bad {
        assert!(matches!(world.table.rereg_mr(mr.id, change), Err(ReregError::Reg(_))));
        assert_eq!((world.table.mr(mr.id), valid(&world, mr.rkey.0, 0)), (Some(mr), Ok(())));
    }
    world.table.dereg_mr(mr.id).unwrap();
    assert_eq!(world.table.rereg_mr(mr.id, change), Err(ReregError::Unknown));
}

/// The index range never runs out or into another's: all keys work while all are registered.
#[test]
fn b39_two_to_the_17_regions() {
    let count = if cfg!(miri) { 100 } else { 1 << 17 };
    let mut world = World::new();
    let region = Region::alloc(64).unwrap();
    let mws: Vec<_> =
        (0..100).map(|_| world.table.alloc_mw(world.pd, MwType::Type2B).unwrap()).collect();
    let mrs: Vec<_> = (0..count)
        .map(|iova| world.table.reg_mr(world.pd, region.clone(), iova, ALL).unwrap())
        .collect();
    assert_eq!(world.table.mr_count(), count as usize);
    for (iova, mr) in mrs.iter().enumerate() {
        assert_eq!(valid(&world, mr.rkey.0, iova as u64), Ok(()));
    }
    assert!(mws.iter().all(|mw| world.table.mw(mw.id) == Some(*mw)));
    mrs.iter().for_each(|mr| world.table.dereg_mr(mr.id).unwrap());
    assert!(mrs.iter().all(|mr| valid(&world, mr.rkey.0, 0).is_err()));
    assert_eq!(world.table.mr_count(), 0);
}

#[test]
fn the_memory_of_a_registration_lives_as_long_as_it() {
    let mut world = World::new();
    let region = Region::alloc(8).unwrap();
    let mr = world.table.reg_mr(world.pd, region.clone(), 0, ALL).unwrap();
    drop(region);
    let slice = world.table.check(mr.rkey.0, world.by(), Access::REMOTE_WRITE, 0, 8).unwrap();
    slice.store_u64(0, 5).unwrap();
    assert_eq!(slice.load_u64(0), Ok(5));
}

#[test]
fn debug_shows_no_key() {
    let mut world = World::new();
    let mr = world.mr(8, 0, ALL);
    let shown = format!("{:?}", world.table);
    assert_eq!(shown, "MemTable { pds: 2, mrs: 1, mws: 0, .. }");
    assert!(!shown.contains(&mr.rkey.0.to_string()));
}
