//! Any sequence of registrations, binds, invalidations and accesses against a model that keeps plain lists.

use proptest::prelude::*;
use uroce_memory::{
    Access, AccessError, BindError, DeallocMwError, DeregError, InvalidateError, Lkey, MemLimits,
    MemTable, MrId, MwBind, MwId, MwType, PdError, PdId, Region, Requirer, Rereg, ReregError, Rkey,
};

use crate::common::config;

/// Bytes of every region here.
const LEN: u64 = 64;
const START: u64 = 0x1000;
const QPNS: [u32; 2] = [17, 18];

#[derive(Debug, Clone)]
enum Step {
    AllocPd,
    DeallocPd(usize),
    Register {
        pd: usize,
        access: Access,
    },
    Reregister {
        mr: usize,
        pd: Option<usize>,
        access: Option<Access>,
        moved: bool,
    },
    Deregister(usize),
    AllocMw {
        pd: usize,
        mw_type: MwType,
    },
    Bind {
        mw: usize,
        mr: usize,
        pd: usize,
        variant: u8,
        qpn: u32,
        range: (u64, u64),
        access: Access,
    },
    Invalidate {
        key: usize,
        pd: usize,
        qpn: u32,
        remote: bool,
    },
    DeallocMw(usize),
    DestroyQp(u32),
    Use {
        key: usize,
        pd: usize,
        qpn: u32,
        need: Access,
        range: (u64, u64),
    },
}

struct MrModel {
    id: MrId,
    key: u32,
    pd: PdId,
    region: Region,
    access: Access,
    live: bool,
}

struct MwModel {
    id: MwId,
    key: u32,
    pd: PdId,
    mw_type: MwType,
    bound: Option<Bound>,
    live: bool,
}

#[derive(Clone, Copy)]
struct Bound {
    mr: usize,
    qpn: u32,
    va: u64,
    len: u64,
    access: Access,
}

struct World {
    table: MemTable,
    pds: Vec<(PdId, bool)>,
    mrs: Vec<MrModel>,
    mws: Vec<MwModel>,
    /// Every key there ever was.
    keys: Vec<u32>,
}

/// What a key gives access to, as the model knows it.
struct Grant {
    pd: PdId,
    /// Of a window that is bound, and of a region: the right, first address, length, and its region.
    extent: Option<(Access, u64, u64, Region)>,
    only_qpn: Option<u32>,
}

impl World {
    fn new() -> World {
        let mut table = MemTable::new([3; 32], MemLimits::default());
        let pds = vec![(table.alloc_pd().unwrap(), true)];
        World { table, pds, mrs: vec![], mws: vec![], keys: vec![0, 0xdead_beef] }
    }

    fn pd(&self, index: usize) -> PdId {
        self.pds[index % self.pds.len()].0
    }

    fn users(&self, pd: PdId) -> u32 {
        let mrs = self.mrs.iter().filter(|mr| mr.live && mr.pd == pd).count();
        let mws = self.mws.iter().filter(|mw| mw.live && mw.pd == pd).count();
        (mrs + mws) as u32
    }

    fn windows(&self, mr: usize) -> u32 {
        let onto = |mw: &&MwModel| mw.bound.is_some_and(|bound| bound.mr == mr);
        self.mws.iter().filter(|mw| mw.live).filter(onto).count() as u32
    }

    fn grant(&self, key: u32) -> Option<Grant> {
        if let Some(mr) = self.mrs.iter().find(|mr| mr.live && mr.key == key) {
            let extent = Some((mr.access, START, LEN, mr.region.clone()));
            return Some(Grant { pd: mr.pd, extent, only_qpn: None });
        }
        let mw = self.mws.iter().find(|mw| mw.live && mw.key == key)?;
        let extent = mw
            .bound
            .map(|bound| (bound.access, bound.va, bound.len, self.mrs[bound.mr].region.clone()));
        let qpn = mw.bound.map(|bound| bound.qpn).filter(|_| mw.mw_type == MwType::Type2B);
        Some(Grant { pd: mw.pd, extent, only_qpn: qpn })
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::AllocPd => self.pds.push((self.table.alloc_pd().unwrap(), true)),
            Step::DeallocPd(index) => self.dealloc_pd(index),
            Step::Register { pd, access } => self.register(pd, access),
            Step::Reregister { mr, pd, access, moved } => self.reregister(mr, pd, access, moved),
            Step::Deregister(mr) => self.deregister(mr),
            Step::AllocMw { pd, mw_type } => self.alloc_mw(pd, mw_type),
            Step::Bind { mw, mr, pd, variant, qpn, range, access } => {
                self.bind(mw, mr, self.pd(pd), variant, qpn, range, access);
            }
            Step::Invalidate { key, pd, qpn, remote } => self.invalidate(key, pd, qpn, remote),
            Step::DeallocMw(mw) => self.dealloc_mw(mw),
            Step::DestroyQp(qpn) => self.destroy_qp(qpn),
            Step::Use { key, pd, qpn, need, range } => self.access(key, pd, qpn, need, range),
        }
    }

    fn dealloc_pd(&mut self, index: usize) {
        let index = index % self.pds.len();
        let (pd, live) = self.pds[index];
        let wanted = match (live, self.users(pd)) {
            (false, _) => Err(PdError::Unknown),
            (true, 0) => Ok(()),
            (true, users) => Err(PdError::Busy { users }),
        };
        assert_eq!(self.table.dealloc_pd(pd), wanted);
        self.pds[index].1 &= wanted.is_err();
    }

    fn is_live(&self, pd: PdId) -> bool {
        self.pds.contains(&(pd, true))
    }

    fn register(&mut self, pd: usize, access: Access) {
        let (pd, region) = (self.pd(pd), Region::alloc(LEN as usize).unwrap());
        let made = self.table.reg_mr(pd, region.clone(), START, access);
        assert_eq!(made.is_ok(), self.is_live(pd) && registrable(access));
        if let Ok(mr) = made {
            assert!(mr.lkey.0 == mr.rkey.0 && !self.keys.contains(&mr.rkey.0), "a fresh key");
            self.keys.push(mr.rkey.0);
            self.mrs.push(MrModel { id: mr.id, key: mr.rkey.0, pd, region, access, live: true });
        }
    }

    fn reregister(&mut self, mr: usize, pd: Option<usize>, access: Option<Access>, moved: bool) {
        let Some(index) = mr.checked_rem(self.mrs.len()) else { return };
        let (pd, region) = (pd.map(|pd| self.pd(pd)), Region::alloc(LEN as usize).unwrap());
        let translation = moved.then(|| (region.clone(), START));
        let change = Rereg { pd, access, translation };
        let done = self.table.rereg_mr(self.mrs[index].id, change);
        let windows = self.windows(index);
        let fine = pd.is_none_or(|pd| self.is_live(pd)) && access.is_none_or(registrable);
        match (self.mrs[index].live, windows) {
            (false, _) => assert_eq!(done, Err(ReregError::Unknown)),
            (true, 1..) => assert_eq!(done, Err(ReregError::Busy { windows })),
            (true, 0) if !fine => assert!(matches!(done, Err(ReregError::Reg(_))), "{done:?}"),
            (true, 0) => {
                let (mr, key) = (&mut self.mrs[index], done.expect("nothing is wrong").rkey.0);
                assert_eq!(moved, key != mr.key, "only other memory brings another key");
                mr.key = key;
                mr.pd = pd.unwrap_or(mr.pd);
                mr.access = access.unwrap_or(mr.access);
                if moved {
                    mr.region = region;
                    self.keys.push(key);
                }
            }
        }
    }

    fn deregister(&mut self, mr: usize) {
        let Some(index) = mr.checked_rem(self.mrs.len()) else { return };
        let wanted = match (self.mrs[index].live, self.windows(index)) {
            (false, _) => Err(DeregError::Unknown),
            (true, 0) => Ok(()),
            (true, windows) => Err(DeregError::Busy { windows }),
        };
        assert_eq!(self.table.dereg_mr(self.mrs[index].id), wanted);
        self.mrs[index].live &= wanted.is_err();
    }

    fn alloc_mw(&mut self, pd: usize, mw_type: MwType) {
        let pd = self.pd(pd);
        let made = self.table.alloc_mw(pd, mw_type);
        assert_eq!(made.is_ok(), self.is_live(pd));
        if let Ok(mw) = made {
            assert!(!self.keys.contains(&mw.rkey.0), "a fresh key");
            self.keys.push(mw.rkey.0);
            let (id, key) = (mw.id, mw.rkey.0);
            self.mws.push(MwModel { id, key, pd, mw_type, bound: None, live: true });
        }
    }

    /// Tries a bind; it must fail exactly if it breaks a rule, and with an error of one that it breaks.
    #[allow(clippy::too_many_arguments, reason = "the fields of one step")]
    fn bind(
        &mut self,
        mw: usize,
        mr: usize,
        pd: PdId,
        variant: u8,
        qpn: u32,
        (into, length): (u64, u64),
        access: Access,
    ) {
        let (Some(mw), Some(mr)) = (mw.checked_rem(self.mws.len()), mr.checked_rem(self.mrs.len()))
        else {
            return;
        };
        let (window, region) = (&self.mws[mw], &self.mrs[mr]);
        let (lkey, new_rkey) = (Lkey(region.key), Rkey(window.key).with_variant(variant));
        let va = (START - 8).wrapping_add(into);
        let bind = MwBind { mw: window.id, mr: lkey, new_rkey, va, length, access, pd, qpn };
        let broken = self.broken_rules(window, region, &bind);
        let (mw_type, old) = (window.mw_type, window.key);
        match self.table.bind_mw(&bind) {
            Err(error) => assert!(broken.contains(&error), "{error:?} of {broken:?}"),
            Ok(key) => {
                assert_eq!(broken, [], "{bind:?}");
                let asked = mw_type == MwType::Type2B || new_rkey.0 != old;
                assert_eq!(
                    key == new_rkey,
                    asked,
                    "the variant that was asked for, or a fresh key"
                );
                self.keys.push(key.0);
                let window = &mut self.mws[mw];
                window.key = key.0;
                let bound = Bound { mr, qpn, va, len: length, access };
                window.bound = (length > 0).then_some(bound);
            }
        }
    }

    /// The errors of all rules that a bind breaks (R94).
    fn broken_rules(&self, window: &MwModel, region: &MrModel, bind: &MwBind) -> Vec<BindError> {
        let mut broken = vec![];
        if !window.live {
            return vec![BindError::UnknownMw];
        }
        let mut rule = |is_broken: bool, error: BindError| {
            if is_broken {
                broken.push(error);
            }
        };
        rule(window.pd != bind.pd, BindError::WrongPd);
        if window.mw_type == MwType::Type2B {
            rule(window.bound.is_some(), BindError::AlreadyBound);
            rule(bind.length == 0, BindError::ZeroLength);
        }
        if bind.length > 0 {
            rule(!region.live, BindError::UnknownMr { lkey: bind.mr });
            rule(region.pd != bind.pd, BindError::WrongPd);
            rule(!region.access.contains(Access::MW_BIND), BindError::NoMwBind);
            let changes = bind.access.intersects(Access::REMOTE_CHANGE);
            let local = region.access.contains(Access::LOCAL_WRITE);
            rule(changes && !local, BindError::NeedsLocalWrite);
            let excess = bind.access & (Access::LOCAL_WRITE | Access::MW_BIND);
            rule(!excess.is_empty(), BindError::BadAccess { access: excess });
            let (va, len, start, end) = (bind.va, bind.length, START, START + LEN);
            let inside = va >= start && u128::from(va) + u128::from(len) <= u128::from(end);
            rule(!inside, BindError::OutOfRange { va, len, start, end });
        }
        broken
    }

    fn invalidate(&mut self, key: usize, pd: usize, qpn: u32, remote: bool) {
        let (key, pd) = (self.keys[key % self.keys.len()], self.pd(pd));
        let window = self.mws.iter().position(|mw| mw.live && mw.key == key);
        let wanted = match (self.grant(key), window) {
            (None, _) => Err(InvalidateError::UnknownKey { rkey: Rkey(key) }),
            (Some(grant), _) if grant.pd != pd => Err(InvalidateError::WrongPd),
            (Some(_), None) => Err(InvalidateError::Region { remote }),
            (Some(grant), Some(at)) => match (self.mws[at].mw_type, grant.only_qpn) {
                (MwType::Type1, _) => Err(InvalidateError::Type1 { remote }),
                (MwType::Type2B, None) => Err(InvalidateError::NotBound),
                (MwType::Type2B, Some(bound)) if bound != qpn => Err(InvalidateError::WrongQp),
                (MwType::Type2B, Some(_)) => Ok(()),
            },
        };
        assert_eq!(self.table.invalidate(Rkey(key), pd, qpn, remote), wanted);
        if let (Ok(()), Some(at)) = (wanted, window) {
            self.mws[at].bound = None;
        }
    }

    fn dealloc_mw(&mut self, mw: usize) {
        let Some(index) = mw.checked_rem(self.mws.len()) else { return };
        let window = &mut self.mws[index];
        let wanted = if window.live { Ok(()) } else { Err(DeallocMwError::Unknown) };
        assert_eq!(self.table.dealloc_mw(window.id), wanted);
        (window.live, window.bound) = (false, None);
    }

    fn destroy_qp(&mut self, qpn: u32) {
        let mut count = 0;
        for window in self.mws.iter_mut().filter(|mw| mw.mw_type == MwType::Type2B) {
            if window.bound.is_some_and(|bound| bound.qpn == qpn) {
                window.bound = None;
                count += 1;
            }
        }
        assert_eq!(self.table.unbind_windows_of(qpn), count);
    }

    /// An access gets the first error of the order that `check` documents, or exactly its bytes.
    fn access(&mut self, key: usize, pd: usize, qpn: u32, need: Access, (into, len): (u64, u64)) {
        let (key, by) = (self.keys[key % self.keys.len()], Requirer { pd: self.pd(pd), qpn });
        let va = (START - 8).wrapping_add(into);
        let found = self.table.check(key, by, need, va, len);
        let Some(grant) = self.grant(key) else {
            return assert_eq!(found.unwrap_err(), AccessError::UnknownKey { key });
        };
        if grant.pd != by.pd {
            return assert_eq!(found.unwrap_err(), AccessError::WrongPd);
        }
        let Some((granted, start, length, region)) = grant.extent else {
            return assert_eq!(found.unwrap_err(), AccessError::NotBound);
        };
        if grant.only_qpn.is_some_and(|bound| bound != qpn) {
            return assert_eq!(found.unwrap_err(), AccessError::WrongQp);
        }
        if !granted.contains(need) {
            return assert_eq!(found.unwrap_err(), AccessError::NoAccess { needed: need, granted });
        }
        let end = start + length;
        if va < start || u128::from(va) + u128::from(len) > u128::from(end) {
            return assert_eq!(found.unwrap_err(), AccessError::OutOfRange { va, len, start, end });
        }
        // A region begins at START, a window somewhere in it: both show bytes at their address.
        let (slice, mut seen) = (found.unwrap(), vec![0; len as usize]);
        slice.copy_in(0, &vec![key as u8; len as usize]).unwrap();
        region.read((va - START) as usize, &mut seen).unwrap();
        assert_eq!(seen, vec![key as u8; len as usize]);
    }

    /// What holds after every step.
    fn check_counts(&self) {
        for &(pd, live) in &self.pds {
            assert_eq!(self.table.pd_users(pd), live.then(|| self.users(pd)));
        }
        let (mrs, mws) = (self.mrs.iter(), self.mws.iter());
        assert_eq!(self.table.mr_count(), mrs.clone().filter(|mr| mr.live).count());
        assert_eq!(self.table.mw_count(), mws.clone().filter(|mw| mw.live).count());
        for mr in mrs {
            assert_eq!(self.table.mr(mr.id).map(|mr| mr.rkey.0), mr.live.then_some(mr.key));
        }
        for mw in mws {
            assert_eq!(self.table.mw(mw.id).map(|mw| mw.rkey.0), mw.live.then_some(mw.key));
        }
        let mut listed: Vec<_> =
            self.table.mrs().map(|info| (info.mr.id, info.pd, info.access)).collect();
        listed.sort_by_key(|(id, ..)| *id);
        let mut wanted: Vec<_> =
            self.mrs.iter().filter(|mr| mr.live).map(|mr| (mr.id, mr.pd, mr.access)).collect();
        wanted.sort_by_key(|(id, ..)| *id);
        assert_eq!(listed, wanted);
    }
}

fn registrable(access: Access) -> bool {
    !access.intersects(Access::REMOTE_CHANGE) || access.contains(Access::LOCAL_WRITE)
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        3 => Just(Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::MW_BIND),
        1 => (0u32..32).prop_map(Access::from_bits_retain),
    ]
}

fn window_access() -> impl Strategy<Value = Access> {
    prop_oneof![
        3 => Just(Access::REMOTE_READ | Access::REMOTE_WRITE),
        1 => (0u32..32).prop_map(Access::from_bits_retain),
    ]
}

/// Mostly inside of a region, which begins 8 bytes behind 0 here.
fn range() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        8 => (8u64..40, 0u64..32),
        1 => (0u64..90, 0u64..90),
        1 => (Just(8u64), prop_oneof![Just(u64::MAX), Just(LEN), Just(LEN + 1)]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (few, qpn) = (0usize..4, prop::sample::select(&QPNS[..]));
    let need = prop::sample::select(vec![
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::REMOTE_ATOMIC,
    ]);
    let mw_type = prop::sample::select(vec![MwType::Type1, MwType::Type2B]);
    // Mostly the first domain.
    let pd = prop_oneof![6 => Just(0usize), 1 => 0usize..4];
    prop_oneof![
        1 => Just(Step::AllocPd),
        1 => few.clone().prop_map(Step::DeallocPd),
        4 => (pd.clone(), access()).prop_map(|(pd, access)| Step::Register { pd, access }),
        2 => (few.clone(), prop::option::of(pd.clone()), prop::option::of(access()), any::<bool>())
            .prop_map(|(mr, pd, access, moved)| Step::Reregister { mr, pd, access, moved }),
        2 => few.clone().prop_map(Step::Deregister),
        4 => (pd.clone(), mw_type).prop_map(|(pd, mw_type)| Step::AllocMw { pd, mw_type }),
        8 => (few.clone(), few.clone(), pd.clone(), any::<u8>(), qpn.clone(), range(), window_access())
            .prop_map(|(mw, mr, pd, variant, qpn, range, access)| {
                Step::Bind { mw, mr, pd, variant, qpn, range, access }
            }),
        4 => (any::<usize>(), pd.clone(), qpn.clone(), any::<bool>())
            .prop_map(|(key, pd, qpn, remote)| Step::Invalidate { key, pd, qpn, remote }),
        1 => few.prop_map(Step::DeallocMw),
        1 => qpn.clone().prop_map(Step::DestroyQp),
        8 => (any::<usize>(), pd, qpn, need, range())
            .prop_map(|(key, pd, qpn, need, range)| Step::Use { key, pd, qpn, need, range }),
    ]
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn any_life_of_regions_and_windows_is_that_of_the_model(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.check_counts();
        }
    }
}
