//! Rights, flag by flag: what can be registered, and what a window may grant of its region (R94).

use uroce_memory::{
    Access, AccessError, BindError, MemLimits, MemTable, MwBind, MwType, RegMrError, Region, Rereg,
};

use crate::common::{QPN, World};

/// All sets of these flags.
fn subsets(flags: &[Access]) -> impl Iterator<Item = Access> {
    (0..1u32 << flags.len()).map(move |set| {
        let chosen = flags.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
        chosen.fold(Access::empty(), |all, (_, flag)| all | *flag)
    })
}

const FLAGS: [Access; 11] = [
    Access::LOCAL_WRITE,
    Access::REMOTE_WRITE,
    Access::REMOTE_READ,
    Access::REMOTE_ATOMIC,
    Access::MW_BIND,
    Access::ZERO_BASED,
    Access::ON_DEMAND,
    Access::HUGETLB,
    Access::FLUSH_GLOBAL,
    Access::FLUSH_PERSISTENT,
    Access::RELAXED_ORDERING,
];

/// The values are an interface: programs in C pass them.
#[test]
fn access_flags_have_the_values_of_ibv_access_flags() {
    let values = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1 << 20];
    assert_eq!(FLAGS.map(|flag| flag.bits()), values);
    assert_eq!(FLAGS.into_iter().fold(Access::empty(), Access::union), Access::all());
}

#[test]
fn each_set_of_flags_is_registered_or_refused_by_rule() {
    let mut world = World::new();
    let region = Region::alloc(64).unwrap();
    for access in subsets(&FLAGS) {
        let changes = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        let wanted = if changes && !access.contains(Access::LOCAL_WRITE) {
            Err(RegMrError::NeedsLocalWrite)
        } else if access.contains(Access::FLUSH_PERSISTENT) {
            Err(RegMrError::NotPersistent)
        } else {
            Ok(())
        };
        let made = world.table.reg_mr(world.pd, region.clone(), 0x2000, access);
        assert_eq!(made.map(|_| ()), wanted, "{access:?}");
        let Ok(mr) = made else { continue };
        let info = world.table.mrs().find(|info| info.mr == mr).expect("it is listed");
        let iova = if access.contains(Access::ZERO_BASED) { 0 } else { 0x2000 };
        assert_eq!((info.access, info.iova, info.len, info.pd), (access, iova, 64, world.pd));
        world.table.dereg_mr(mr.id).unwrap();
    }
}

/// `IBV_ACCESS_OPTIONAL_RANGE`: bits 20 to 29 are hints that a provider may not know.
#[test]
fn an_unknown_flag_is_dropped_in_the_optional_range_and_refused_elsewhere() {
    let mut world = World::new();
    let region = Region::alloc(8).unwrap();
    for bit in (0..32).filter(|bit| *bit > 9) {
        let bits = 1 | 1 << bit;
        let access = Access::from_bits_retain(bits);
        let made = world.table.reg_mr(world.pd, region.clone(), 0, access);
        if !(20..30).contains(&bit) {
            assert_eq!(made, Err(RegMrError::UnknownAccess { bits }));
            continue;
        }
        let mr = made.expect("an optional flag");
        let (_, kept) = world.table.region_of(mr.id).expect("registered");
        let known = if bit == 20 { Access::RELAXED_ORDERING } else { Access::empty() };
        assert_eq!(kept, Access::LOCAL_WRITE | known, "bit {bit}");
        let change = Rereg { access: Some(access), ..Rereg::default() };
        assert_eq!(world.table.rereg_mr(mr.id, change), Ok(mr));
    }
}

/// Miri grants some sets of rights only.
const GRANT_STEP: usize = if cfg!(miri) { 11 } else { 1 };

/// What can be granted and what a region has, for both types of windows: 2 x 64 x 64 binds.
#[test]
fn r94_each_right_of_a_window_against_each_of_its_region() {
    let of_region = [
        Access::LOCAL_WRITE,
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::MW_BIND,
        Access::ZERO_BASED,
        Access::FLUSH_GLOBAL,
    ];
    let of_window = [
        Access::LOCAL_WRITE,
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::REMOTE_ATOMIC,
        Access::ZERO_BASED,
        Access::FLUSH_GLOBAL,
    ];
    let mut world = World::new();
    let region = Region::alloc(64).unwrap();
    for has in subsets(&of_region) {
        let Ok(mr) = world.table.reg_mr(world.pd, region.clone(), 0, has) else { continue };
        for (grants, mw_type) in subsets(&of_window)
            .step_by(GRANT_STEP)
            .flat_map(|grants| [MwType::Type1, MwType::Type2B].map(|mw_type| (grants, mw_type)))
        {
            let mw = world.table.alloc_mw(world.pd, mw_type).unwrap();
            let new_rkey = mw.rkey.with_variant(!mw.rkey.variant());
            let (mw, mr, pd) = (mw.id, mr.lkey, world.pd);
            let (access, va, length) = (grants, 0, 64);
            let bind = MwBind { mw, mr, new_rkey, va, length, access, pd, qpn: QPN };
            let bound = world.table.bind_mw(&bind).map(|_| ());
            assert_eq!(
                bound.is_ok(),
                may_bind(mw_type, has, grants),
                "{mw_type:?} {has:?} {grants:?}"
            );
            if let Err(error) = bound {
                explains(error, mw_type, has, grants);
            }
            world.table.dealloc_mw(mw).unwrap();
        }
        world.table.dereg_mr(mr.id).unwrap();
    }
}

fn may_bind(mw_type: MwType, has: Access, grants: Access) -> bool {
    let changes = grants.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    let flush = grants.contains(Access::FLUSH_GLOBAL);
    has.contains(Access::MW_BIND)
        && !grants.contains(Access::LOCAL_WRITE)
        && (!changes || has.contains(Access::LOCAL_WRITE))
        && (!flush || has.contains(Access::FLUSH_GLOBAL))
        && (mw_type == MwType::Type2B || !(has | grants).contains(Access::ZERO_BASED))
}

/// The error of a bind says something that is true of it.
fn explains(error: BindError, mw_type: MwType, has: Access, grants: Access) {
    match error {
        BindError::NoMwBind => assert!(!has.contains(Access::MW_BIND)),
        BindError::NeedsLocalWrite => assert!(!has.contains(Access::LOCAL_WRITE)),
        BindError::ZeroBased => assert_eq!(mw_type, MwType::Type1),
        BindError::BadAccess { access } => {
            let not_of_region = Access::LOCAL_WRITE | (Access::FLUSH_GLOBAL - has);
            assert!(!access.is_empty() && (grants & not_of_region) == access);
        }
        other => panic!("{other:?} has nothing to do with rights"),
    }
}

/// A window grants by its own flags: more than a peer may do with the region, or less.
#[test]
fn r96_the_rights_of_a_window_are_its_own() {
    let mut world = World::new();
    let mr = world.mr(64, 0, Access::LOCAL_WRITE | Access::MW_BIND | Access::REMOTE_READ);
    let mw = world.table.alloc_mw(world.pd, MwType::Type1).unwrap();
    let access = Access::REMOTE_WRITE;
    let (new_rkey, mr_key, pd) = (mw.rkey, mr.lkey, world.pd);
    let bind = MwBind { mw: mw.id, mr: mr_key, new_rkey, va: 0, length: 64, access, pd, qpn: QPN };
    let window = world.table.bind_mw(&bind).unwrap();
    let may = |key: u32, need| world.table.check(key, world.by(), need, 0, 8).is_ok();
    assert!(may(window.0, Access::REMOTE_WRITE) && !may(window.0, Access::REMOTE_READ));
    assert!(may(mr.rkey.0, Access::REMOTE_READ) && !may(mr.rkey.0, Access::REMOTE_WRITE));
}

/// Several rights at once are granted only together.
#[test]
fn r28_all_of_the_rights_that_an_access_needs_must_be_there() {
    let rights =
        [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC, Access::FLUSH_GLOBAL];
    for has in subsets(&rights) {
        let mut world = World::new();
        let granted = has | Access::LOCAL_WRITE;
        let mr = world.mr(64, 0, granted);
        for needed in subsets(&rights) {
            let found = world.table.check(mr.rkey.0, world.by(), needed, 0, 8).map(|_| ());
            let refused = AccessError::NoAccess { needed, granted };
            assert_eq!(found, if has.contains(needed) { Ok(()) } else { Err(refused) });
            let whole = world.table.check_whole(mr.rkey.0, world.by(), needed).map(|_| ());
            assert_eq!(whole, found, "the whole region needs the same rights");
        }
    }
}

/// Limits are those asked for, but for what the tables can number.
#[test]
fn limits_are_lowered_to_what_can_be_numbered() {
    let most = MemLimits { max_pd: u32::MAX, max_mr: u32::MAX, max_mw: u32::MAX, max_mr_size: 9 };
    let table = MemTable::new([1; 32], most);
    let wanted = MemLimits { max_pd: 1 << 21, max_mr: 1 << 20, max_mw: 1 << 20, max_mr_size: 9 };
    assert_eq!(*table.limits(), wanted);
    let few = MemLimits { max_pd: 0, max_mr: 0, max_mw: 0, max_mr_size: 0 };
    let mut table = MemTable::new([1; 32], few);
    assert_eq!(*table.limits(), few);
    assert!(table.alloc_pd().is_err());
}
