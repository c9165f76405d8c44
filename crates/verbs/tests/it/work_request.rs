//! Work requests that contradict themselves are refused, with a sentence.

use uroce_verbs::*;

use crate::common::{Net, QKEY, Side, datagram_pair, pair};

fn reason(side: &Side, wr: SendWr<'_>) -> PostReason {
    let error = side.qp.post_send(&[wr]).unwrap_err();
    assert_eq!(error.index, 0);
    assert!(error.to_string().len() > 40, "a sentence: {error}");
    error.reason
}

#[test]
fn parts_that_do_not_go_together() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let (sges, remote) = ([a.mr.sge(..8)], b.mr.remote());
    let imm = PostReason::ImmNotAllowed;
    assert_eq!(reason(&a, SendWr::read(1, &sges, remote).imm(1)), imm);
    assert_eq!(reason(&a, SendWr::send(1, &sges).invalidate(Rkey(1)).imm(1)), imm);
    let inv = PostReason::InvalidateNotAllowed;
    assert_eq!(reason(&a, SendWr::write(1, &sges, remote).invalidate(Rkey(1))), inv);
    assert_eq!(reason(&a, SendWr::send(1, &sges).imm(1).invalidate(Rkey(1))), inv);
    assert_eq!(reason(&a, SendWr::send(1, &sges).with_rkey(Rkey(1))), PostReason::RkeyNotAllowed);
    assert_eq!(reason(&a, SendWr::send(1, &sges).inline(b"x")), PostReason::InlineAndSges);
    let queue = reason(&a, SendWr::read(1, &[], remote).inline(b"x"));
    assert!(queue.to_string().contains("no payload that could be inline"), "{queue}");
}

#[test]
fn b36_the_good_before_the_bad_is_posted_and_the_rest_is_not() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    for bad in [0, 1, 15, 16, 17, 40] {
        let wr = |id| {
            let good = SendWr::write(id as u64, &[], b.mr.remote()).inline(b"x").signaled();
            if id == bad { good.invalidate(Rkey(1)) } else { good }
        };
        let wrs: Vec<_> = (0..50).map(wr).collect();
        let error = a.qp.post_send(&wrs).unwrap_err();
        assert_eq!((error.index, error.reason), (bad, PostReason::InvalidateNotAllowed));
        for id in 0..bad {
            assert_eq!(a.done().wr_id, id as u64);
        }
        assert_eq!(a.cq.poll_one(), None);
    }
    // The same when the queue itself refuses one.
    let six = [a.mr.sge(..1); 6];
    let wr = |id| SendWr::write(id, if id == 20 { &six } else { &[] }, b.mr.remote());
    let wrs: Vec<_> = (0..50).map(wr).collect();
    let error = a.qp.post_send(&wrs).unwrap_err();
    assert_eq!(error.index, 20);
    assert!(error.to_string().contains("6 scatter/gather entries"), "{error}");
}

#[test]
fn v104_a_datagram_needs_a_destination_of_its_own_domain() {
    let (a, b, ah) = datagram_pair(&Net::fabric());
    let missing = reason(&a, SendWr::send(1, &[]));
    assert!(missing.to_string().contains("address handle"), "{missing}");
    let foreign = reason(&b, SendWr::send(1, &[]).to(&ah, b.qp.qpn(), QKEY));
    assert_eq!(foreign, PostReason::ForeignObject);
}

#[test]
fn v108_a_full_queue_is_refused_and_takes_more_later() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    // The peer has no receive: nothing completes.
    let mut posted = 0;
    let full = loop {
        match a.qp.post_send(&[SendWr::send(posted, &[]).signaled()]) {
            Ok(()) => posted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(posted, u64::from(a.qp.caps().max_send_wr));
    assert!(full.to_string().contains("poll completions"), "{full}");
    b.qp.post_recv(&[RecvWr::new(1, &[])]).unwrap();
    a.done();
    a.send(SendWr::send(posted, &[]));
}

#[test]
fn r25_a_message_beyond_2_31_is_refused() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let huge = a.mr.sge(0..1 << 40);
    let error = reason(&a, SendWr::write(1, &[huge], b.mr.remote()));
    assert!(error.to_string().contains("longer than 2^31"), "{error}");
}

#[test]
fn v109_an_empty_list_is_no_error() {
    let (a, _b) = pair(&Net::fabric(), QpType::Rc);
    a.qp.post_send(&[]).unwrap();
    a.qp.post_recv(&[]).unwrap();
    assert_eq!(SendWr::send(7, &[]).wr_id(), 7);
}
