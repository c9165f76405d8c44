//! Memory windows: binding, access through them, invalidating (R41, R94 to R96; B7, B24, B40).

use uroce_memory::{
    Access, AccessError, BindError, DeallocMwError, DeregError, InvalidateError, Lkey, Mr, Mw,
    MwBind, MwType, Region, Requirer, Rereg, ReregError, Rkey,
};

use crate::common::{ALL, QPN, World};

const START: u64 = 0x4_0000;
const LEN: usize = 1024;
const TYPES: [MwType; 2] = [MwType::Type1, MwType::Type2B];

struct Windowed {
    world: World,
    mr: Mr,
    mw: Mw,
    bind: MwBind,
}

/// A region, a window, and a bind of its bytes 256..512 that is right in everything.
fn windowed(mw_type: MwType) -> Windowed {
    let mut world = World::new();
    let mr = world.mr(LEN, START, Access::LOCAL_WRITE | Access::MW_BIND);
    let mw = world.table.alloc_mw(world.pd, mw_type).unwrap();
    let bind = MwBind {
        mw: mw.id,
        mr: mr.lkey,
        new_rkey: mw.rkey.with_variant(mw.rkey.variant().wrapping_add(1)),
        va: START + 256,
        length: 256,
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        pd: world.pd,
        qpn: QPN,
    };
    Windowed { world, mr, mw, bind }
}

impl Windowed {
    fn bind(&mut self) -> Result<Rkey, BindError> {
        self.world.table.bind_mw(&self.bind)
    }

    fn read(&self, rkey: Rkey, by: Requirer, va: u64, len: u64) -> Result<(), AccessError> {
        self.world.table.check(rkey.0, by, Access::REMOTE_READ, va, len).map(|_| ())
    }

    fn valid(&self, rkey: Rkey) -> Result<(), AccessError> {
        self.read(rkey, self.world.by(), START + 256, 8)
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), InvalidateError> {
        self.world.table.invalidate(rkey, self.world.pd, QPN, true)
    }
}

#[test]
fn r96_domain_queue_pair_rights_and_range_of_an_access() {
    for mw_type in TYPES {
        let mut w = windowed(mw_type);
        assert_eq!(w.valid(w.mw.rkey), Err(AccessError::NotBound));
        let rkey = w.bind().unwrap();
        let by = w.world.by();
        assert_eq!(w.valid(rkey), Ok(()));
        assert_eq!(
            w.read(rkey, Requirer { pd: w.world.other_pd, ..by }, START + 256, 8),
            Err(AccessError::WrongPd)
        );
        let other_qp = w.read(rkey, Requirer { qpn: QPN + 1, ..by }, START + 256, 8);
        match mw_type {
            MwType::Type1 => assert_eq!(other_qp, Ok(())),
            MwType::Type2B => assert_eq!(other_qp, Err(AccessError::WrongQp)),
        }
        let key = rkey.0 ^ 1;
        assert_eq!(w.valid(Rkey(key)), Err(AccessError::UnknownKey { key }));
        let atomic = w.world.table.check(rkey.0, by, Access::REMOTE_ATOMIC, START + 256, 8);
        assert!(matches!(atomic, Err(AccessError::NoAccess { .. })));
        for (va, len, inside) in [
            (START + 256, 256, true),
            (START + 255, 256, false),
            (START + 257, 256, false),
            (START + 256, 257, false),
            (START + 511, 1, true),
            (START + 512, 1, false),
            (START, 8, false),
            (u64::MAX, 1, false),
            (START + 256, u64::MAX, false),
        ] {
            assert_eq!(w.read(rkey, by, va, len).is_ok(), inside, "{va:#x} {len}");
        }
    }
}

#[test]
fn a_window_shows_its_part_of_the_region() {
    let mut w = windowed(MwType::Type2B);
    let region = Region::alloc(LEN).unwrap();
    let translation = Some((region.clone(), START));
    let change = Rereg { translation, ..Rereg::default() };
    w.bind.mr = w.world.table.rereg_mr(w.mr.id, change).unwrap().lkey;
    let rkey = w.bind().unwrap();
    let (by, need) = (w.world.by(), Access::REMOTE_WRITE);
    let slice = w.world.table.check(rkey.0, by, need, START + 258, 3).unwrap();
    slice.copy_in(0, &[1, 2, 3]).unwrap();
    let mut bytes = [0; LEN];
    region.read(0, &mut bytes).unwrap();
    assert_eq!(bytes[256..264], [0, 0, 1, 2, 3, 0, 0, 0]);
    assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 3);
}

#[test]
fn r94_what_a_bind_needs() {
    for mw_type in TYPES {
        let w = windowed(mw_type);
        let good = w.bind;
        let mut world = w.world;
        let lkey = |mr: Mr| mr.lkey;
        let region = || Region::alloc(LEN).unwrap();
        let foreign = world.table.reg_mr(world.other_pd, region(), START, ALL).map(lkey).unwrap();
        let unbindable = lkey(world.mr(LEN, START, Access::LOCAL_WRITE));
        let read_only = lkey(world.mr(LEN, START, Access::MW_BIND));
        let no_right = Access::empty();
        let bad = [
            (MwBind { pd: world.other_pd, ..good }, BindError::WrongPd),
            (MwBind { mr: foreign, ..good }, BindError::WrongPd),
            (MwBind { mr: Lkey(0), ..good }, BindError::UnknownMr { lkey: Lkey(0) }),
            (
                MwBind { mr: Lkey(w.mw.rkey.0), ..good },
                BindError::UnknownMr { lkey: Lkey(w.mw.rkey.0) },
            ),
            (MwBind { mr: unbindable, ..good }, BindError::NoMwBind),
            (MwBind { mr: read_only, ..good }, BindError::NeedsLocalWrite),
            (
                MwBind { mr: read_only, access: Access::REMOTE_ATOMIC, ..good },
                BindError::NeedsLocalWrite,
            ),
            (
                MwBind { access: Access::LOCAL_WRITE, ..good },
                BindError::BadAccess { access: Access::LOCAL_WRITE },
            ),
            (
                MwBind { access: Access::FLUSH_GLOBAL, ..good },
                BindError::BadAccess { access: Access::FLUSH_GLOBAL },
            ),
        ];
        for (bind, error) in bad {
            assert_eq!(world.table.bind_mw(&bind), Err(error));
            assert_eq!(world.table.mw(good.mw), Some(w.mw), "a failed bind changes nothing");
        }
        let mr = read_only;
        assert!(world.table.bind_mw(&MwBind { mr, access: no_right, ..good }).is_ok());
    }
}

#[test]
fn b7_the_range_of_a_bind() {
    for mw_type in TYPES {
        let (len, end) = (LEN as u64, START + LEN as u64);
        for (va, length, inside) in [
            (START, len, true),
            (START - 1, len, false),
            (START + 1, len, false),
            (START, len + 1, false),
            (end - 1, 1, true),
            (end - 1, 2, false),
            (end, 1, false),
            (START, u64::MAX, false),
            (u64::MAX, 1, false),
            (START, 0u64.wrapping_sub(START), false),
            (START, 1u64.wrapping_sub(START), false),
        ] {
            let mut w = windowed(mw_type);
            w.bind = MwBind { va, length, ..w.bind };
            let expected = BindError::OutOfRange { va, len: length, start: START, end };
            assert_eq!(w.bind().err(), (!inside).then_some(expected));
        }
    }
}

#[test]
fn b7_a_window_may_end_at_2_to_the_64() {
    let mut w = windowed(MwType::Type2B);
    let top = 0u64.wrapping_sub(LEN as u64);
    w.bind.mr = w.world.mr(LEN, top, ALL).lkey;
    w.bind = MwBind { va: top + 1000, length: 24, ..w.bind };
    let rkey = w.bind().unwrap();
    let by = w.world.by();
    assert_eq!(w.read(rkey, by, top + 1000, 24), Ok(()));
    for len in [25, 1024, u64::MAX - 24, u64::MAX] {
        assert!(w.read(rkey, by, top + 1000, len).is_err());
    }
}

#[test]
fn r94_zero_based_windows_are_type_2() {
    let mut w = windowed(MwType::Type1);
    let good = w.bind;
    w.bind.access |= Access::ZERO_BASED;
    assert_eq!(w.bind(), Err(BindError::ZeroBased));
    let zero_based = w.world.mr(LEN, 0, ALL | Access::ZERO_BASED).lkey;
    w.bind = MwBind { mr: zero_based, va: 256, ..good };
    assert_eq!(w.bind(), Err(BindError::ZeroBased));

    let mut w = windowed(MwType::Type2B);
    w.bind.access |= Access::ZERO_BASED;
    let (rkey, by) = (w.bind().unwrap(), w.world.by());
    assert_eq!(w.read(rkey, by, 0, 256), Ok(()));
    assert!(w.read(rkey, by, 1, 256).is_err() && w.valid(rkey).is_err());
}

#[test]
fn r95_a_type_1_bind_ends_the_key_before() {
    let mut w = windowed(MwType::Type1);
    let first = w.bind().unwrap();
    w.bind.va = START;
    let second = w.bind().unwrap();
    assert!(first != w.mw.rkey && second != first);
    for key in [w.mw.rkey.0, first.0] {
        assert_eq!(w.valid(Rkey(key)), Err(AccessError::UnknownKey { key }));
    }
    assert_eq!(w.read(second, w.world.by(), START, 8), Ok(()));
    w.bind.length = 0;
    let third = w.bind().unwrap();
    assert_eq!(w.valid(third), Err(AccessError::NotBound));
    assert_eq!(w.valid(second), Err(AccessError::UnknownKey { key: second.0 }));
    assert_eq!(w.world.table.dereg_mr(w.mr.id), Ok(()), "no window is bound any more");
}

#[test]
fn r95_the_caller_of_a_type_1_bind_can_know_the_key_before_it_is_done() {
    let mut w = windowed(MwType::Type1);
    assert_eq!(w.bind(), Ok(w.bind.new_rkey));
    let drawn = w.bind().unwrap();
    assert_ne!(drawn, w.bind.new_rkey, "the key that is asked for ends with this bind");
    w.bind.new_rkey = Rkey(drawn.0 ^ 0x100);
    assert_ne!(w.bind().unwrap(), w.bind.new_rkey, "the index is not the caller's to choose");
}

#[test]
fn r95_a_type_2_bind_ends_the_key_before_and_keeps_the_index() {
    let mut w = windowed(MwType::Type2B);
    let wrong = Rkey(w.mw.rkey.0 ^ 0x100);
    let good = w.bind;
    w.bind.new_rkey = wrong;
    let current = w.mw.rkey;
    assert_eq!(w.bind(), Err(BindError::WrongIndex { new: wrong, current }));
    w.bind = MwBind { length: 0, ..good };
    assert_eq!(w.bind(), Err(BindError::ZeroLength));
    w.bind = good;
    assert_eq!(w.bind(), Ok(good.new_rkey));
    assert_eq!(w.valid(good.new_rkey), Ok(()));
    assert_eq!(w.valid(current), Err(AccessError::UnknownKey { key: current.0 }));
    assert_eq!(w.bind(), Err(BindError::AlreadyBound));
    w.invalidate(good.new_rkey).unwrap();
    assert_eq!(w.valid(good.new_rkey), Err(AccessError::NotBound));
}

#[test]
fn b40_a_rebind_with_the_same_key_is_allowed() {
    let mut w = windowed(MwType::Type2B);
    for _ in 0..3 {
        let rkey = w.bind().unwrap();
        assert_eq!((rkey, w.valid(rkey)), (w.bind.new_rkey, Ok(())));
        w.invalidate(rkey).unwrap();
    }
}

#[test]
fn b40_a_region_with_windows_stays() {
    for mw_type in TYPES {
        let mut w = windowed(mw_type);
        let rkey = w.bind().unwrap();
        assert_eq!(w.world.table.dereg_mr(w.mr.id), Err(DeregError::Busy { windows: 1 }));
        let rereg = w.world.table.rereg_mr(w.mr.id, Rereg::default());
        assert_eq!(rereg, Err(ReregError::Busy { windows: 1 }));
        assert_eq!(w.world.table.dealloc_mw(w.mw.id), Ok(()));
        assert_eq!(w.world.table.dealloc_mw(w.mw.id), Err(DeallocMwError::Unknown));
        assert_eq!(w.valid(rkey), Err(AccessError::UnknownKey { key: rkey.0 }));
        assert_eq!(w.bind(), Err(BindError::UnknownMw));
        assert_eq!(w.world.table.dereg_mr(w.mr.id), Ok(()));
        assert_eq!(w.world.table.dealloc_pd(w.world.pd), Ok(()));
    }
}

#[test]
fn b40_a_window_that_moves_frees_the_region_it_leaves() {
    let mut w = windowed(MwType::Type1);
    w.bind().unwrap();
    let second = w.world.mr(LEN, START, ALL);
    w.bind.mr = second.lkey;
    w.bind().unwrap();
    assert_eq!(w.world.table.dereg_mr(w.mr.id), Ok(()));
    assert_eq!(w.world.table.dereg_mr(second.id), Err(DeregError::Busy { windows: 1 }));
}

/// {region, region with a window, window 1, window 2} x {right key, wrong variant}, from the
/// peer and from the program.
#[test]
fn b24_what_may_be_invalidated() {
    for remote in [false, true] {
        for mw_type in TYPES {
            let mut w = windowed(mw_type);
            let rkey = w.bind().unwrap();
            let plain = w.world.mr(LEN, START, ALL).rkey;
            let (pd, bound_mr) = (w.world.pd, w.mr.rkey);
            let table = &mut w.world.table;
            for region in [plain, bound_mr] {
                let refused = Err(InvalidateError::Region { remote });
                assert_eq!(table.invalidate(region, pd, QPN, remote), refused);
            }
            for key in
                [plain, bound_mr, rkey].map(|key| Rkey(key.0 ^ 0x80)).into_iter().chain([Rkey(0)])
            {
                let refused = Err(InvalidateError::UnknownKey { rkey: key });
                assert_eq!(table.invalidate(key, pd, QPN, remote), refused);
            }
            let expected = match mw_type {
                MwType::Type1 => Err(InvalidateError::Type1 { remote }),
                MwType::Type2B => Ok(()),
            };
            assert_eq!(table.invalidate(rkey, pd, QPN, remote), expected);
            assert_eq!(w.valid(rkey).is_ok(), mw_type == MwType::Type1);
        }
    }
}

#[test]
fn r41_a_foreign_domain_or_queue_pair_may_not_invalidate() {
    let mut w = windowed(MwType::Type2B);
    let (pd, other_pd, unbound) = (w.world.pd, w.world.other_pd, w.mw.rkey);
    let table = &mut w.world.table;
    assert_eq!(table.invalidate(unbound, pd, QPN, true), Err(InvalidateError::NotBound));
    let rkey = w.bind().unwrap();
    let table = &mut w.world.table;
    assert_eq!(table.invalidate(rkey, other_pd, QPN, true), Err(InvalidateError::WrongPd));
    assert_eq!(table.invalidate(rkey, pd, QPN + 1, true), Err(InvalidateError::WrongQp));
    assert_eq!(w.valid(rkey), Ok(()));
    assert_eq!(w.invalidate(rkey), Ok(()));
    assert_eq!(w.invalidate(rkey), Err(InvalidateError::NotBound));
}

#[test]
fn a_destroyed_queue_pair_leaves_no_window_to_its_successor() {
    let mut w = windowed(MwType::Type2B);
    let rkey = w.bind().unwrap();
    assert_eq!(w.world.table.unbind_windows_of(QPN + 1), 0);
    assert_eq!(w.world.table.unbind_windows_of(QPN), 1);
    assert_eq!(w.valid(rkey), Err(AccessError::NotBound));
    assert_eq!(w.world.table.dereg_mr(w.mr.id), Ok(()));
    let mut w = windowed(MwType::Type1);
    w.bind().unwrap();
    assert_eq!(w.world.table.unbind_windows_of(QPN), 0, "type 1 belongs to the domain");
}

#[test]
fn a_window_is_no_local_memory() {
    let mut w = windowed(MwType::Type1);
    let key = w.bind().unwrap().0;
    let sge = uroce_memory::Sge { addr: START + 256, length: 8, lkey: Lkey(key) };
    let local = w.world.table.check_local(&sge, w.world.pd, Access::empty());
    assert_eq!(local.unwrap_err(), AccessError::UnknownKey { key });
}
