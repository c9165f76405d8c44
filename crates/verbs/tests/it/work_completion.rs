//! A failed work request explains itself: status, place, cause, remedy.

use uroce_verbs::*;

use crate::common::{COMPLETION_TIMEOUT, MOMENT, Net, Side, on_both, pair, pair_with};

on_both!(
    success_is_no_error,
    a_wrong_key_of_the_peer,
    beyond_the_end_of_the_peers_memory,
    a_right_that_was_not_granted,
    a_peer_that_does_not_answer,
    a_peer_without_receives,
    a_message_longer_than_the_receive,
    a_local_buffer_outside_its_region,
    a_region_that_was_dropped,
    a_flushed_queue,
    a_read_on_a_connection_without_read_depth,
);

/// The text of the failure, after its status was checked.
fn failure(wc: WorkCompletion, status: WcStatus) -> String {
    assert_eq!(wc.status, status, "{wc}");
    assert!(wc.cause != Cause::None, "a failure has a cause");
    assert_eq!(wc.vendor_err, wc.cause.code());
    let text = wc.result().expect_err("not a success").to_string();
    assert!(text.contains(status.name()), "{text}");
    assert!(text.contains(&format!("{:#08x}", wc.qpn)), "{text}");
    text
}

fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

fn success_is_no_error(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    a.send(SendWr::write(1, &[], b.mr.remote()).inline(b"x").signaled());
    let wc = a.next();
    assert_eq!(wc.result().map(|wc| wc.wr_id), Ok(1));
    assert_eq!((wc.cause, wc.vendor_err), (Cause::None, 0));
}

fn a_wrong_key_of_the_peer(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let remote = RemoteSlice { rkey: Rkey(b.mr.rkey().0 ^ 0x5a5a), ..b.mr.remote() };
    a.send(SendWr::write(1, &[], remote).inline(b"x"));
    let text = failure(a.next(), WcStatus::RemAccessErr);
    has(&text, &[&b.context.address().to_string(), "rkey", "protection domain"]);
    let event = b.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::QpAccessErr(b.qp.qpn())));
}

fn beyond_the_end_of_the_peers_memory(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let end = b.mr.len();
    let last = [0xee; 8];
    a.send(SendWr::write(1, &[], b.mr.remote().part(end - 8..)).inline(&last).signaled());
    a.done();
    a.send(SendWr::write(2, &[], b.mr.remote().part(end - 7..)).inline(&last));
    has(&failure(a.next(), WcStatus::RemAccessErr), &["address range"]);
}

fn a_right_that_was_not_granted(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let readable = b.pd.alloc_mr(64, Access::REMOTE_READ).unwrap();
    a.send(SendWr::read(1, &[a.mr.sge(..8)], readable.remote()).signaled());
    a.done();
    a.send(SendWr::fetch_add(2, &[a.mr.sge(..8)], readable.remote(), 1));
    has(&failure(a.next(), WcStatus::RemAccessErr), &["access flags"]);
}

fn a_peer_that_does_not_answer(net: &Net) {
    let a = Side::new(net, QpType::Rc);
    let nobody = Endpoint::new(Gid::from_ip(net.nobody()), Qpn::new(99), Psn::new(1));
    let hasty = ConnectOptions { timeout: 10, retry_cnt: 1, ..ConnectOptions::default() };
    a.qp.connect(&nobody, &hasty).unwrap();
    a.send(SendWr::send(1, &[]));
    let text = failure(a.next(), WcStatus::RetryExcErr);
    has(&text, &[&net.nobody().to_string(), "never answered", "QPN and GID"]);
}

fn a_peer_without_receives(net: &Net) {
    let brief = ConnectOptions { rnr_retry: 1, min_rnr_timer: 1, ..ConnectOptions::default() };
    let (a, b) = pair_with(net, QpType::Rc, &brief);
    a.send(SendWr::send(1, &[]));
    let text = failure(a.next(), WcStatus::RnrRetryExcErr);
    has(&text, &[&b.context.address().to_string(), "no receive posted", "rnr_retry"]);
}

fn a_message_longer_than_the_receive(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    b.recv(5, 0..10);
    a.send(SendWr::send(1, &[a.mr.sge(..11)]));
    has(&failure(a.next(), WcStatus::RemInvReqErr), &["longer than its receive buffer"]);
    let there = b.next();
    assert_eq!(there.wr_id, 5);
    failure(there, WcStatus::LocLenErr);
}

fn a_local_buffer_outside_its_region(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let end = a.mr.len();
    a.send(SendWr::write(1, &[a.mr.sge(..8), a.mr.sge(end - 1..end + 1)], b.mr.remote()));
    let text = failure(a.next(), WcStatus::LocProtErr);
    has(&text, &["entry 1", &format!("{:#x}", a.mr.lkey().0)]);
}

fn a_region_that_was_dropped(net: &Net) {
    let (a, b) = pair(net, QpType::Rc);
    let gone = a.pd.alloc_mr(64, Access::empty()).unwrap();
    let sge = gone.sge(..);
    drop(gone);
    a.send(SendWr::write(1, &[sge], b.mr.remote()));
    has(&failure(a.next(), WcStatus::LocProtErr), &["entry 0"]);
}

fn a_flushed_queue(net: &Net) {
    let (a, _b) = pair(net, QpType::Rc);
    a.recv(1, 0..8);
    a.recv(2, 0..8);
    a.qp.fail().unwrap();
    a.send(SendWr::send(3, &[]));
    let ids = [a.next(), a.next(), a.next()].map(|wc| {
        has(&failure(wc, WcStatus::WrFlushErr), &["moved to the error state"]);
        wc.wr_id
    });
    assert!(ids.contains(&1) && ids.contains(&2) && ids.contains(&3), "{ids:?}");
}

fn a_read_on_a_connection_without_read_depth(net: &Net) {
    let shallow = ConnectOptions { max_rd_atomic: 0, ..ConnectOptions::default() };
    let (a, b) = pair_with(net, QpType::Rc, &shallow);
    a.send(SendWr::read(1, &[a.mr.sge(..8)], b.mr.remote()));
    has(&failure(a.next(), WcStatus::LocQpOpErr), &["max_rd_atomic"]);
}

#[test]
fn the_rest_of_the_queue_names_the_request_that_failed() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let wrong = RemoteSlice { rkey: Rkey(1), ..b.mr.remote() };
    let wrs = [
        SendWr::write(1, &[], b.mr.remote()).inline(b"good"),
        SendWr::write(2, &[], wrong).inline(b"bad"),
        SendWr::write(3, &[], b.mr.remote()).inline(b"flushed"),
    ];
    a.qp.post_send(&wrs).unwrap();
    let (bad, flushed) = (a.next(), a.next());
    assert_eq!((bad.wr_id, flushed.wr_id), (2, 3));
    failure(bad, WcStatus::RemAccessErr);
    has(&failure(flushed, WcStatus::WrFlushErr), &["send work request 2 failed", "access"]);
    assert_eq!(b.bytes(0, 4), b"good");
}

#[test]
fn waiting_in_vain_says_what_to_check() {
    let a = Side::new(&Net::fabric(), QpType::Rc);
    let error = a.cq.wait_one(MOMENT).unwrap_err();
    assert_eq!(error.waited, MOMENT);
    has(&error.to_string(), &["signalled", "connected"]);
}

#[test]
fn v122_an_error_that_main_returns_prints_its_sentence() {
    let error = ConnectError::Datagram;
    assert_eq!(format!("{error:?}"), error.to_string());
    let boxed: Box<dyn std::error::Error> = Box::new(WaitError { waited: COMPLETION_TIMEOUT });
    assert_eq!(format!("{boxed:?}"), boxed.to_string());
    let failed = WorkCompletion { status: WcStatus::RemInvReqErr, ..WorkCompletion::default() };
    let error = failed.result().expect_err("it failed");
    assert_eq!(format!("{error:?}"), error.to_string());
    let open = Context::builder().address([198, 51, 100, 1]).open().expect_err("not here");
    assert_eq!(format!("{open:?}"), open.to_string());
}
