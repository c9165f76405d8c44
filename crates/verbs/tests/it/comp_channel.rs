//! Completion channels: events come when they should, once, and not when they should not.

use std::time::Duration;

use uroce_verbs::*;

use crate::common;
use crate::common::{COMPLETION_TIMEOUT, MOMENT, Net, Side, connect, on_both};

on_both!(
    an_armed_queue_raises_one_event,
    r42_solicited_events_wait_for_a_solicited_message,
    r42_an_error_wakes_a_solicited_sleeper,
);

/// A sender, and a receiver whose receives complete to a queue with a channel.
fn sender_and_sleeper(net: &Net) -> (Side, Side, CompChannel) {
    let (sender, context) = (Side::new(net, QpType::Rc), net.open());
    let channel = context.create_comp_channel().unwrap();
    let cq = channel.create_cq(64, 0xc00c1e).unwrap();
    let pd = context.alloc_pd().unwrap();
    let mr = pd.alloc_mr(4096, common::all()).unwrap();
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build().unwrap();
    qp.init().unwrap();
    let sleeper = Side { qp, mr, cq, pd, context };
    for id in 0..8 {
        sleeper.recv(id, 0..64);
    }
    connect(&sender.qp, &sleeper.qp, &ConnectOptions::default());
    (sender, sleeper, channel)
}

fn send(side: &Side, solicited: bool) {
    let wr = SendWr::send(1, &[]).inline(b"wake up").signaled();
    side.send(if solicited { wr.solicited() } else { wr });
    side.done();
}

fn an_armed_queue_raises_one_event(net: &Net) {
    let (sender, sleeper, channel) = sender_and_sleeper(net);
    send(&sender, false);
    assert_eq!(channel.next_event(Some(MOMENT)).unwrap(), None, "not armed");
    sleeper.cq.req_notify(Notify::Next);
    assert_eq!(channel.next_event(Some(MOMENT)).unwrap(), None, "it came before");
    sleeper.done();
    send(&sender, false);
    send(&sender, false);
    let event = channel.next_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(CqEvent { cq: sleeper.cq.id(), cookie: 0xc00c1e }));
    assert_eq!(channel.next_event(Some(MOMENT)).unwrap(), None, "armed once");
    assert_eq!((sleeper.done().wr_id, sleeper.done().wr_id), (1, 2));
}

fn r42_solicited_events_wait_for_a_solicited_message(net: &Net) {
    let (sender, sleeper, channel) = sender_and_sleeper(net);
    sleeper.cq.req_notify(Notify::Solicited);
    send(&sender, false);
    assert_eq!(channel.next_event(Some(MOMENT)).unwrap(), None);
    send(&sender, true);
    assert!(channel.next_event(Some(COMPLETION_TIMEOUT)).unwrap().is_some());
}

fn r42_an_error_wakes_a_solicited_sleeper(net: &Net) {
    let (_sender, sleeper, channel) = sender_and_sleeper(net);
    sleeper.cq.req_notify(Notify::Solicited);
    sleeper.qp.fail().unwrap();
    assert!(channel.next_event(Some(COMPLETION_TIMEOUT)).unwrap().is_some());
    assert_eq!(sleeper.next().status, WcStatus::WrFlushErr);
}

#[test]
fn two_queues_share_a_channel() {
    let net = Net::fabric();
    let (sender, sleeper, channel) = sender_and_sleeper(&net);
    let second = channel.create_cq(8, 2).unwrap();
    let qp = sleeper.pd.qp_builder(QpType::Rc, &second, &second).build().unwrap();
    let peer = sender.pd.qp_builder(QpType::Rc, &sender.cq, &sender.cq).build().unwrap();
    connect(&qp, &peer, &ConnectOptions::default());
    second.req_notify(Notify::Next);
    sleeper.cq.req_notify(Notify::Next);
    qp.post_send(&[SendWr::write(1, &[], sender.mr.remote()).inline(b"x").signaled()]).unwrap();
    let event = channel.next_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(CqEvent { cq: second.id(), cookie: 2 }));
    send(&sender, false);
    let event = channel.next_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event.map(|event| event.cq), Some(sleeper.cq.id()));
    assert!(second.channel().is_some() && sender.cq.channel().is_none());
}

#[test]
fn r93_a_dropped_queue_leaves_no_event() {
    let net = Net::fabric();
    let (sender, sleeper, channel) = sender_and_sleeper(&net);
    sleeper.cq.req_notify(Notify::Next);
    send(&sender, false);
    std::thread::sleep(MOMENT);
    drop(sleeper);
    assert_eq!(channel.try_event(), None);
}

#[test]
fn a_channel_without_a_progress_thread_drives_the_device() {
    let net = Net::fabric();
    let sender = Side::new(&net, QpType::Rc);
    let context = net.builder().progress_thread(false).open().unwrap();
    let channel = context.create_comp_channel().unwrap();
    let cq = channel.create_cq(8, 0).unwrap();
    let qp = context.alloc_pd().unwrap().qp_builder(QpType::Rc, &cq, &cq).build().unwrap();
    connect(&sender.qp, &qp, &ConnectOptions::default());
    qp.post_recv(&[RecvWr::new(3, &[])]).unwrap();
    cq.req_notify(Notify::Next);
    assert_eq!(channel.next_event(Some(Duration::from_millis(2))).unwrap(), None);
    sender.send(SendWr::send(1, &[]));
    assert!(channel.next_event(Some(COMPLETION_TIMEOUT)).unwrap().is_some());
    assert_eq!(cq.poll_one().map(|wc| wc.wr_id), Some(3));
}
