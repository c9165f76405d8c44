//! Threads that post, poll and destroy at the same time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use uroce_verbs::*;

use crate::common;
use crate::common::{COMPLETION_TIMEOUT, Net, Side, connect, on_both, pair, pair_with};

fn shared_between_threads<T: Send + Sync>() {}

#[test]
fn every_object_is_send_and_sync() {
    shared_between_threads::<Context>();
    shared_between_threads::<ContextBuilder>();
    shared_between_threads::<ProtectionDomain>();
    shared_between_threads::<MemoryRegion>();
    shared_between_threads::<MemoryWindow>();
    shared_between_threads::<CompChannel>();
    shared_between_threads::<CompletionQueue>();
    shared_between_threads::<SharedReceiveQueue>();
    shared_between_threads::<QueuePair>();
    shared_between_threads::<AddressHandle>();
    shared_between_threads::<SendWr<'static>>();
    shared_between_threads::<WorkCompletion>();
    shared_between_threads::<PostError>();
}

on_both!(posting_and_polling_in_several_threads, polling_while_others_destroy);

fn posting_and_polling_in_several_threads(net: &Net) {
    const EACH: usize = 80; // so that all completions fit into the queue, if nobody polls
    let (a, b) = pair(net, QpType::Rc);
    let completed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let (qp, remote) = (&a.qp, b.mr.remote().part(thread * 64..));
            scope.spawn(move || {
                let mut posted = 0;
                while posted < EACH {
                    let wr = SendWr::write(thread as u64, &[], remote).inline(&[7; 64]).signaled();
                    match qp.post_send(&[wr]) {
                        Ok(()) => posted += 1,
                        Err(full) => {
                            assert!(full.to_string().contains("queue is full"), "{full}");
                            std::thread::yield_now();
                        }
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut out = [WorkCompletion::default(); 8];
                while completed.load(Ordering::SeqCst) < 3 * EACH {
                    let count = a.cq.poll(&mut out);
                    for wc in &out[..count] {
                        wc.result().expect("success");
                    }
                    completed.fetch_add(count, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(completed.into_inner(), 3 * EACH);
    assert_eq!(b.bytes(0, 192), [7; 192]);
}

fn polling_while_others_destroy(net: &Net) {
    let (a, b) = (Side::new(net, QpType::Rc), Side::new(net, QpType::Rc));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for side in [&a, &b] {
            let stop = &stop;
            scope.spawn(move || {
                let mut out = [WorkCompletion::default(); 4];
                while !stop.load(Ordering::SeqCst) {
                    side.cq.poll(&mut out);
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                destroy_under_traffic(&a, &b);
            }
            stop.store(true, Ordering::SeqCst);
        });
    });
}

/// Two queue pairs, a region and a window that go while packets for them are under way.
fn destroy_under_traffic(a: &Side, b: &Side) {
    let build = |side: &Side| side.pd.qp_builder(QpType::Rc, &side.cq, &side.cq).build().unwrap();
    let (from, to) = (build(a), build(b));
    let target = b.pd.alloc_mr(65_536, common::all()).unwrap();
    connect(&from, &to, &ConnectOptions::default());
    let sges = [a.mr.sge(..65_536)];
    from.post_send(&[
        SendWr::write(1, &sges, target.remote()).signaled(),
        SendWr::read(2, &sges, target.remote()).signaled(),
    ])
    .unwrap();
    drop(target);
    drop(to);
    drop(from);
}

#[test]
fn a_sleeper_wakes_up_although_another_thread_polls_another_queue() {
    let net = Net::fabric();
    let (a, b) = pair_with(&net, QpType::Rc, &ConnectOptions::default());
    let channel = b.context.create_comp_channel().unwrap();
    let cq = channel.create_cq(8, 5).unwrap();
    let qp = b.pd.qp_builder(QpType::Rc, &cq, &cq).build().unwrap();
    let peer = a.pd.qp_builder(QpType::Rc, &a.cq, &a.cq).build().unwrap();
    connect(&qp, &peer, &ConnectOptions::default());
    qp.post_recv(&[RecvWr::new(1, &[])]).unwrap();
    cq.req_notify(Notify::Next);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                b.cq.poll_one();
            }
        });
        scope.spawn(|| {
            let event = channel.next_event(Some(COMPLETION_TIMEOUT));
            stop.store(true, Ordering::SeqCst);
            assert_eq!(event.unwrap(), Some(CqEvent { cq: cq.id(), cookie: 5 }));
        });
        peer.post_send(&[SendWr::send(1, &[])]).unwrap();
    });
    assert_eq!(cq.poll_one().map(|wc| wc.wr_id), Some(1));
}
