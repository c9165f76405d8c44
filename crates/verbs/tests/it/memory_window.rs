//! Windows: keys, rights and misuse. What they do on the wire is in `reliable.rs`.

use uroce_verbs::*;

use crate::common::{Net, Side, pair};

#[test]
fn o10_37_the_owner_chooses_the_variant_of_a_type_2_key() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let window = b.pd.alloc_mw(MwType::Type2B).unwrap();
    let wanted = window.rkey().with_variant(0x42);
    let bind = SendWr::bind_mw(1, &window, &b.mr, .., Access::REMOTE_WRITE);
    b.send(bind.with_rkey(wanted).signaled());
    b.done();
    assert_eq!(window.rkey(), wanted);
    assert_eq!(window.next_rkey().variant(), 0x43);
    a.send(SendWr::write(2, &[], window.remote(b.mr.addr(), 8)).inline(b"x").signaled());
    a.done();
}

#[test]
fn r95_a_new_bind_of_a_type_1_window_ends_the_old_key() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let window = b.pd.alloc_mw(MwType::Type1).unwrap();
    assert_eq!(window.mw_type(), MwType::Type1);
    let mut old = Rkey(0);
    for id in 0..2 {
        let bind = SendWr::bind_mw(id, &window, &b.mr, ..4096, Access::REMOTE_WRITE);
        b.send(bind.signaled());
        b.done();
        assert_ne!(window.rkey(), old);
        if id == 0 {
            old = window.rkey();
        }
    }
    a.send(SendWr::write(2, &[], window.remote(b.mr.addr(), 8)).inline(b"x").signaled());
    a.done();
    let stale = RemoteSlice::new(b.mr.addr(), old, 8);
    a.send(SendWr::write(3, &[], stale).inline(b"x"));
    assert_eq!(a.next().status, WcStatus::RemAccessErr);
}

/// The text of the failure of a bind.
fn refused(side: &Side, bind: SendWr<'_>) -> String {
    side.send(bind);
    let wc = side.next();
    assert_eq!(wc.status, WcStatus::MwBindErr, "{wc}");
    wc.result().unwrap_err().to_string()
}

#[test]
fn a_bind_that_cannot_be_says_why() {
    let net = Net::fabric();
    let bind_to = |access: Access, range: std::ops::Range<usize>, rights: Access| {
        let (_a, b) = pair(&net, QpType::Rc);
        let region = b.pd.alloc_mr(64, access).unwrap();
        let window = b.pd.alloc_mw(MwType::Type2B).unwrap();
        refused(&b, SendWr::bind_mw(1, &window, &region, range, rights))
    };
    let text = bind_to(Access::LOCAL_WRITE, 0..8, Access::REMOTE_READ);
    assert!(text.contains("MW_BIND"), "{text}");
    let text = bind_to(Access::MW_BIND, 0..8, Access::REMOTE_WRITE);
    assert!(text.contains("LOCAL_WRITE"), "{text}");
    let text = bind_to(Access::MW_BIND, 60..68, Access::REMOTE_READ);
    assert!(text.contains("not inside the region"), "{text}");
    let text = bind_to(Access::MW_BIND, 0..0, Access::REMOTE_READ);
    assert!(text.contains("0 bytes"), "{text}");
}

#[test]
fn v104_window_and_region_must_be_of_the_domain_of_the_queue_pair() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let foreign = b.pd.alloc_mw(MwType::Type2B).unwrap();
    let error = a.qp.post_send(&[SendWr::bind_mw(1, &foreign, &a.mr, .., Access::REMOTE_READ)]);
    assert_eq!(error.unwrap_err().reason, PostReason::ForeignRegion);
    let error = a.qp.post_send(&[SendWr::bind_mw(1, &foreign, &b.mr, .., Access::REMOTE_READ)]);
    assert_eq!(error.unwrap_err().reason, PostReason::ForeignObject);
}

#[test]
fn v102_the_limit_of_windows_is_exact() {
    let limits = DeviceLimits { max_mw: 2, ..DeviceLimits::default() };
    let pd = Net::fabric().builder().limits(limits).open().unwrap().alloc_pd().unwrap();
    let (_first, second) = (pd.alloc_mw(MwType::Type1), pd.alloc_mw(MwType::Type1).unwrap());
    let error = pd.alloc_mw(MwType::Type1).unwrap_err();
    assert_eq!(error, AllocMwError::TooMany { limit: 2 });
    drop(second);
    pd.alloc_mw(MwType::Type1).unwrap();
}
