//! The progress thread: it works when the application does not, and costs nothing when idle.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Node, assert_ok, collect, fall_asleep, ip, pattern, rc_pair};
use rustix::time::{ClockId, clock_gettime};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{AsyncEvent, Notify, QpType, SendOp, Wc, WcStatus};
use uroce_device::wire::{Mtu, Qpn};
use uroce_device::{CompChannel, DeviceConfig};

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The tests of this file measure CPU time of the process: one at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Threads of this process with that name.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("proc").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

/// A thread that was joined may stay visible for a moment.
fn threads_become(name: &str, count: usize) -> bool {
    let start = Instant::now();
    while threads(name) != count && start.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(1));
    }
    threads(name) == count
}

#[test]
fn idle_devices_cost_no_cpu() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 1), Node::threaded(&fabric, 2));
    let u = Node::open(DeviceConfig { port: 0, ..DeviceConfig::new([127, 0, 0, 61].into()) });
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(64), b.buffer(64));
    // Traffic first: a QP that has sent, with its timers in the heap, is the interesting case.
    b.recv(qb, 1, &[to.sge(0, 64)]);
    a.send(qa, 1, SendOp::Send, &[from.sge(0, 64)]);
    collect(&[(&a, 1), (&b, 1)]);
    fall_asleep(&[&a, &b, &u]);
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let spent = cpu_time() - before;
    println!("three idle devices: {spent:?} of CPU in 1 s");
    assert!(spent < Duration::from_millis(30), "three idle devices used {spent:?} in 1 s");
    drop(u);
}

#[test]
fn a_one_sided_read_needs_nothing_of_the_target_application() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::threaded(&fabric, 2));
    let (qa, _) = rc_pair(&a, &b);
    let (into, target) = (a.buffer(1 << 20), b.buffer(1 << 20));
    target.write(0, &pattern(1 << 20, 4));
    for id in 0..4 {
        let (va, rkey) = (target.addr(), target.mr.rkey);
        a.send(qa, id, SendOp::Read { va, rkey }, &[into.sge(0, 1 << 20)]);
        fall_asleep(&[&b]);
        assert_ok(&collect(&[(&a, 1)])[0]);
    }
    assert_eq!(into.bytes(0, 1 << 20), pattern(1 << 20, 4));
}

#[test]
fn both_applications_sleep_on_their_channels() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, ca) = with_channel(Node::threaded(&fabric, 1));
    let (b, cb) = with_channel(Node::threaded(&fabric, 2));
    let (qa, qb) = rc_pair(&a, &b);
    let rounds = 200;
    let (from, to) = (a.buffer(64), b.buffer(64));
    let echo = std::thread::spawn(move || {
        for id in 0..rounds {
            b.recv(qb, id, &[to.sge(0, 64)]);
            assert_ok(&[sleep_for_one(&b, &cb)]);
            b.send(qb, id, SendOp::Send, &[to.sge(0, 64)]);
            assert_ok(&[sleep_for_one(&b, &cb)]);
        }
    });
    for id in 0..rounds {
        a.recv(qa, id, &[from.sge(0, 64)]);
        a.send(qa, id, SendOp::Send, &[from.sge(0, 64)]);
        assert_ok(&[sleep_for_one(&a, &ca), sleep_for_one(&a, &ca)]);
    }
    echo.join().expect("the echo side got everything");
}

fn with_channel(mut node: Node) -> (Node, CompChannel) {
    let channel = node.device.create_channel().expect("a channel");
    node.cq = node.device.create_cq(64, Some(&channel), 0).expect("a CQ");
    node.device.req_notify(node.cq, Notify::Next).expect("armed");
    (node, channel)
}

/// The usual loop: poll, arm, poll again, sleep.
fn sleep_for_one(node: &Node, channel: &CompChannel) -> Wc {
    let mut one = [Wc::default()];
    loop {
        if node.device.poll_cq(node.cq, &mut one).expect("the CQ") == 1 {
            return one[0];
        }
        node.device.req_notify(node.cq, Notify::Next).expect("armed");
        if node.device.poll_cq(node.cq, &mut one).expect("the CQ") == 1 {
            return one[0];
        }
        let event = channel.next_event(Some(Duration::from_secs(10))).expect("poll(2)");
        assert!(event.is_some(), "an event was lost");
    }
}

#[test]
fn r75_a_posted_request_is_timed_although_nobody_polls() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let a = Node::threaded(&fabric, 1);
    let channel = a.device.create_channel().expect("a channel");
    let cq = a.device.create_cq(64, Some(&channel), 0).expect("a CQ");
    let a = Node { cq, ..a };
    let qa = a.qp(QpType::Rc);
    // Code 8 is 1 ms; nobody lives at this address, so all retries run out.
    a.connect_with(qa, ip(200), Qpn::new(0x4242), Mtu::M1024, 8);
    fall_asleep(&[&a]);
    a.device.req_notify(cq, Notify::Next).expect("armed");
    let from = a.buffer(64);
    a.send(qa, 5, SendOp::Send, &[from.sge(0, 64)]);
    let event = channel.next_event(Some(Duration::from_secs(5))).expect("poll(2)");
    assert!(event.is_some(), "the timer never fired");
    assert_eq!(collect(&[(&a, 1)])[0][0].status, WcStatus::RetryExcErr);
}

#[test]
fn v113_async_events_wake_a_sleeper() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::threaded(&fabric, 2));
    let (qa, qb) = (a.qp(QpType::Rc), b.qp(QpType::Rc));
    a.connect(qa, ip(2), qb);
    b.connect(qb, ip(1), qa);
    let from = a.buffer(64);
    let device = b.device.clone();
    let sleeper =
        std::thread::spawn(move || device.async_events().next_event(Some(Duration::from_secs(5))));
    let bad = SendOp::Write { va: 0x1000, rkey: uroce_device::memory::Rkey(0x77) };
    a.send(qa, 1, bad, &[from.sge(0, 64)]);
    collect(&[(&a, 1)]);
    let event = sleeper.join().expect("no panic").expect("poll(2)");
    assert_eq!(event, Some(AsyncEvent::QpAccessErr(qb)));
}

#[test]
fn two_devices_a_hundred_queue_pairs_all_threads() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 1), Node::threaded(&fabric, 2));
    let pairs: Vec<(Qpn, Qpn)> = (0..100).map(|_| rc_pair(&a, &b)).collect();
    let (from, to) = (a.buffer(100 * 16_384), b.buffer(100 * 16_384));
    from.write(0, &pattern(100 * 16_384, 8));
    for (i, (qa, qb)) in pairs.iter().enumerate() {
        let at = i as u64 * 16_384;
        b.recv(*qb, at, &[to.sge(at, 16_384)]);
        a.send(*qa, at, SendOp::Send, &[from.sge(at, 16_384)]);
    }
    assert_ok(&collect(&[(&a, 100), (&b, 100)]).concat());
    assert_eq!(to.bytes(0, 100 * 16_384), pattern(100 * 16_384, 8));
}

#[test]
fn a30_the_last_handle_ends_thread_and_sockets() {
    let _alone = alone();
    let name = "uroce-a30";
    let config = DeviceConfig {
        name: Some(name.to_owned()),
        port: 14_791,
        ..DeviceConfig::new([127, 0, 0, 62].into())
    };
    for _ in 0..5 {
        let node = Node::open(config.clone());
        let again = node.device.clone();
        drop(node);
        assert!(threads_become(name, 1));
        again.drive();
        drop(again);
        assert!(threads_become(name, 0));
    }
}

/// Wake-ups are lost in rare interleavings, so: many rounds with odd pauses. A lost one would show
/// as a retransmission (1 s), or as an event that never comes.
#[test]
fn no_wake_up_is_lost_in_a_thousand_rounds() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, ca) = with_channel(Node::threaded(&fabric, 1));
    let b = Node::threaded(&fabric, 2);
    let (qa, qb) = (a.qp(QpType::Rc), b.qp(QpType::Rc));
    // Code 18 is a second: no scheduler is that late, however busy the machine.
    a.connect_with(qa, ip(2), qb, Mtu::M1024, 18);
    b.connect_with(qb, ip(1), qa, Mtu::M1024, 18);
    let (into, target) = (a.buffer(4096), b.buffer(4096));
    let (va, rkey) = (target.addr(), target.mr.rkey);
    let mut pause = 1u64;
    for id in 0..1_000 {
        pause =
            pause.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Around the end of the spin (50 us) and of the application's grace (1 ms).
        let micros = match pause >> 62 {
            0 => 0,
            1 => 30 + (pause >> 40) % 60,
            2 => 900 + (pause >> 40) % 300,
            _ => (pause >> 40) % 100,
        };
        std::thread::sleep(Duration::from_micros(micros));
        a.send(qa, id, SendOp::Read { va, rkey }, &[into.sge(0, 8)]);
        assert_ok(&[sleep_for_one(&a, &ca)]);
    }
    assert_eq!(a.counter("ack_timeout"), 0, "somebody slept through a packet");
}

/// B42 with real threads: one sleeps for each completion, another resizes the queue and a third polls another queue of
/// the same device all the while. An event that got lost would show as a sleep of ten seconds.
#[test]
fn b42_no_event_is_lost_while_the_queue_is_resized() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, channel) = with_channel(Node::threaded(&fabric, 1));
    let b = Node::threaded(&fabric, 2);
    let (qa, _) = rc_pair(&a, &b);
    let (from, target) = (a.buffer(64), b.buffer(64));
    let (va, rkey) = (target.addr(), target.mr.rkey);
    let (done, start) = (AtomicBool::new(false), Instant::now());
    // The limit ends the other threads after a failed assertion.
    let runs = || !done.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for size in (16..64).cycle().take_while(|_| runs()) {
                a.device.resize_cq(a.cq, size).expect("room for the one completion");
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            let other = a.device.create_cq(64, None, 0).expect("a CQ");
            while runs() {
                a.device.poll_cq(other, &mut [Wc::default()]).expect("the CQ");
                std::thread::yield_now();
            }
        });
        for id in 0..2_000 {
            a.send(qa, id, SendOp::Write { va, rkey }, &[from.sge(0, 64)]);
            let completion = sleep_for_one(&a, &channel);
            assert_ok(&[completion]);
            assert_eq!(completion.wr_id, id, "each once, in order");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn threads_of_one_application_share_a_device() {
    let _alone = alone();
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 1), Node::threaded(&fabric, 2));
    let target = b.buffer(8 * 4096);
    let (va, rkey) = (target.addr(), target.mr.rkey);
    std::thread::scope(|scope| {
        for part in 0..4u64 {
            let (a, b) = (&a, &b);
            scope.spawn(move || {
                let cq = a.device.create_cq(64, None, part).expect("a CQ");
                let own = Node { device: a.device.clone(), pd: a.pd, cq };
                let (qa, _) = rc_pair(&own, b);
                let from = own.buffer(4096);
                from.write(0, &pattern(4096, part as u8));
                for id in 0..200 {
                    let op = SendOp::Write { va: va + part * 4096, rkey };
                    own.send(qa, id, op, &[from.sge(0, 4096)]);
                    assert_ok(&collect(&[(&own, 1)])[0]);
                }
            });
        }
    });
    for part in 0..4 {
        assert_eq!(target.bytes(part * 4096, 4096), pattern(4096, part as u8));
    }
}
