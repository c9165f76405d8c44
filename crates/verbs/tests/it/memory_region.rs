//! Regions: copies in and out, words, rights, re-registration.

use uroce_verbs::*;

use crate::common::{MOMENT, Net, all, pair};

fn pd() -> ProtectionDomain {
    Net::fabric().open().alloc_pd().unwrap()
}

#[test]
fn copies_stay_inside() {
    let mr = pd().alloc_mr(100, Access::LOCAL_WRITE).unwrap();
    mr.write(90, b"0123456789").unwrap();
    assert!(mr.write(91, b"0123456789").unwrap_err().to_string().contains("nothing was copied"));
    let mut out = [0; 10];
    mr.read(90, &mut out).unwrap();
    assert_eq!(&out, b"0123456789");
    mr.read(91, &mut out).unwrap_err();
    assert_eq!(&out, b"0123456789", "untouched");
    mr.fill(0, 100, 7).unwrap();
    mr.fill(usize::MAX, 2, 7).unwrap_err();
    assert_eq!(mr.load_u64(8).unwrap(), 0x0707_0707_0707_0707);
    mr.store_u64(4, 0).unwrap_err();
    mr.store_u64(96, 0).unwrap_err();
    assert_eq!((mr.len(), mr.is_empty()), (100, false));
}

#[test]
fn v105_remote_rights_need_the_local_one() {
    let error = pd().alloc_mr(8, Access::REMOTE_WRITE).unwrap_err();
    assert!(error.to_string().contains("LOCAL_WRITE"), "{error}");
    let huge = pd().alloc_mr(usize::MAX / 2, Access::empty()).unwrap_err();
    assert!(matches!(huge, AllocMrError::Alloc(_)), "{huge}");
}

#[test]
fn one_region_can_be_registered_twice_with_different_rights() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let region = Region::alloc(4096).unwrap();
    let for_reading = b.pd.reg_mr(region.clone(), Access::REMOTE_READ).unwrap();
    let for_writing = b.pd.reg_mr(region, all()).unwrap();
    assert_ne!(for_reading.rkey(), for_writing.rkey());
    a.send(SendWr::write(1, &[], for_writing.remote()).inline(b"both").signaled());
    a.done();
    a.send(SendWr::read(2, &[a.mr.sge(..4)], for_reading.remote()).signaled());
    a.done();
    assert_eq!(a.bytes(0, 4), b"both");
    a.send(SendWr::write(3, &[], for_reading.remote()).inline(b"no"));
    assert_eq!(a.next().status, WcStatus::RemAccessErr);
}

#[test]
fn addresses_may_be_chosen_or_count_from_zero() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let region = Region::alloc(64).unwrap();
    let chosen = b.pd.reg_mr_iova(region.clone(), 0xffff_ffff_ffff_ffc0, all()).unwrap();
    a.send(SendWr::write(1, &[], chosen.remote().part(56..)).inline(b"topmost!").signaled());
    a.done();
    let zero = b.pd.reg_mr_iova(region, 0x1000, all() | Access::ZERO_BASED).unwrap();
    assert_eq!(zero.remote().addr, 0);
    a.send(SendWr::read(2, &[a.mr.sge(..8)], zero.remote().part(56..)).signaled());
    a.done();
    assert_eq!(a.bytes(0, 8), b"topmost!");
    let wraps = b.pd.reg_mr_iova(Region::alloc(64).unwrap(), u64::MAX - 62, all()).unwrap_err();
    assert!(wraps.to_string().contains("2^64"), "{wraps}");
}

#[test]
fn v106_rereg_changes_rights_domain_or_memory() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let mut mr = b.pd.alloc_mr(64, Access::LOCAL_WRITE).unwrap();
    let key = mr.rkey();
    mr.set_access(all()).unwrap();
    assert_eq!((mr.rkey(), mr.access()), (key, all()));
    a.send(SendWr::write(1, &[], mr.remote()).inline(b"old").signaled());
    a.done();

    let other = Region::alloc(128).unwrap();
    mr.set_region(other.clone(), 0x7000).unwrap();
    assert_ne!(mr.rkey(), key);
    assert_eq!((mr.addr(), mr.len()), (0x7000, 128));
    a.send(SendWr::write(2, &[], mr.remote()).inline(b"new").signaled());
    a.done();
    let mut seen = [0; 3];
    other.read(0, &mut seen).unwrap();
    assert_eq!(&seen, b"new");

    mr.set_pd(&b.context.alloc_pd().unwrap()).unwrap();
    a.send(SendWr::write(3, &[], mr.remote()).inline(b"not here"));
    assert_eq!(a.next().status, WcStatus::RemAccessErr);
    mr.set_pd(&a.pd).unwrap_err();
}

#[test]
fn v107_deregistering_ends_the_access_of_peers_and_keeps_the_bytes() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let mr = b.pd.alloc_mr(64, all()).unwrap();
    let (remote, region) = (mr.remote(), mr.region().clone());
    a.send(SendWr::write(1, &[], remote).inline(b"kept").signaled());
    a.done();
    mr.deregister().unwrap();
    a.send(SendWr::write(2, &[], remote).inline(b"gone"));
    assert_eq!(a.next().status, WcStatus::RemAccessErr);
    assert_eq!(b.cq.wait(&mut [WorkCompletion::default()], MOMENT), 0);
    let mut seen = [0; 4];
    region.read(0, &mut seen).unwrap();
    assert_eq!(&seen, b"kept");
}

#[test]
fn v104_keys_of_another_domain_do_not_work() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let theirs = b.context.alloc_pd().unwrap().alloc_mr(64, all()).unwrap();
    a.send(SendWr::write(1, &[], theirs.remote()).inline(b"x"));
    assert_eq!(a.next().status, WcStatus::RemAccessErr);
}

#[test]
fn an_sge_names_what_was_asked_for() {
    let mr = pd().alloc_mr(4096, Access::empty()).unwrap();
    let sge = mr.sge(100..=199);
    assert_eq!((sge.addr, sge.length, sge.lkey), (mr.addr() + 100, 100, mr.lkey()));
    assert_eq!(mr.sge(..).length, 4096);
    assert_eq!(mr.remote().len, 4096);
    let text = mr.remote().to_string();
    assert!(text.starts_with("4096 bytes at 0x"), "{text}");
}
