//! Memory windows and invalidation, and memory that changes hands while it is in use.

use uroce_wire::{NakCode, Opcode};

use super::sequence::needs_atomics;
use super::{check, fail, needs, needs_extension};
use crate::case::cases;
use crate::windows::Window;
use crate::{Access, Bench, Operation, Outcome, Packet, Qp, Stop, pattern, status};

cases! {
    Must "rc.responder.window", "R96", [], "A window of type 2 gives access to its part of the region, and to no byte outside.", window;
    Must "rc.responder.window-right-missing", "R96", [], "A window gives no right that it was bound without.", window_right_missing;
    Must "rc.responder.window-other-qp", "R96", [113], "A window of type 2 gives no access through another queue pair.", window_other_qp;
    Must "rc.responder.window-invalidated", "R95 C10-68", [114], "A window gives no access once its own side has invalidated it.", window_invalidated;
    Must "rc.responder.window-rebound", "R95 C10-68", [114], "The old key of a window that is bound anew gives no access.", window_rebound;
    Must "rc.responder.send-invalidate", "R41", [115, 114], "A SEND that invalidates a window is delivered with its key, which gives no access from then on.", send_invalidate;
    Must "rc.responder.send-invalidate-duplicate", "R57", [], "A SEND that invalidates and comes again invalidates nothing again.", send_invalidate_duplicate;
    Must "rc.requester.send-invalidate", "R41 R82", [], "A SEND that invalidates names the posted key in its last packet.", requester_send_invalidate;
    Must "rc.responder.deregister-in-read", "B12", [112], "When a region goes during a READ, its response ends right or with a NAK, and shows no byte from later.", deregister_in_read;
    Must "rc.responder.atomic-two-queue-pairs", "R34", [110], "Atomics of two queue pairs on one word all count.", atomic_two_queue_pairs;
    Must "rc.responder.atomic-beside-cpu", "R34", [110], "Atomics of the NIC and of the CPU on one word all count, where the device says so.", atomic_beside_cpu;
}

/// Everything, and windows may be bound to it.
const BINDABLE: Access = Access { bind: true, ..Access::ALL };

fn needs_windows(b: &Bench<'_>) -> Outcome {
    needs_extension(b, b.card().extensions.windows, "memory windows of type 2")
}

fn needs_invalidate(b: &Bench<'_>) -> Outcome {
    needs_extension(b, b.card().extensions.invalidate, "SEND that invalidates")
}

/// A connection to whose region windows may be bound.
fn bindable<'b, 'r>(b: &'b Bench<'r>) -> Result<Qp<'b, 'r>, Stop> {
    needs_windows(b)?;
    b.rc().region_access(BINDABLE).open()
}

/// The part of the region that windows are bound to.
const START: u32 = 4096;
const LENGTH: u32 = 1000;

fn bound(q: &Qp<'_, '_>) -> Result<Window, Stop> {
    q.app.window(START, LENGTH, Access::ALL)
}

/// WRITE through a window to its part.
fn through(q: &Qp<'_, '_>, window: &Window) -> Packet {
    q.write(16).va(q.at(START as usize)).rkey(window.rkey)
}

fn no_access(q: &Qp<'_, '_>, packet: Packet, psn: i32) -> Outcome {
    q.tx(&packet.psn(psn))?;
    q.fatal(psn, NakCode::RemoteAccess)
}

fn window(b: &Bench<'_>) -> Outcome {
    let q = bindable(b)?;
    let bound = bound(&q)?;
    let last = q.at((START + LENGTH - 16) as usize);
    q.tx(&through(&q, &bound).va(last).psn(0))?;
    q.ack(0)?;
    q.app.holds((START + LENGTH - 16) as usize, &pattern(1, 16))?;
    q.tx(&q.read(16).va(last).rkey(bound.rkey).psn(1))?;
    q.read_response(1, 16)?;
    no_access(&q, through(&q, &bound).va(last + 1), 2)?;
    let q = bindable(b)?;
    let bound = self::bound(&q)?;
    no_access(&q, through(&q, &bound).va(q.at(START as usize) - 1), 0)?;
    q.app.untouched()
}

fn window_right_missing(b: &Bench<'_>) -> Outcome {
    let q = bindable(b)?;
    let bound = q.app.window(START, LENGTH, Access::READ)?;
    q.tx(&q.read(16).va(q.at(START as usize)).rkey(bound.rkey).psn(0))?;
    q.read_response(0, 16)?;
    no_access(&q, through(&q, &bound), 1)?;
    q.app.untouched()
}

fn window_other_qp(b: &Bench<'_>) -> Outcome {
    let (q, other) = (bindable(b)?, b.rc().open()?);
    let bound = bound(&q)?;
    no_access(&other, through(&other, &bound).va(q.at(START as usize)), 0)?;
    q.app.untouched()?;
    q.tx(&through(&q, &bound).psn(0))?;
    q.ack(0).map(drop)
}

fn window_invalidated(b: &Bench<'_>) -> Outcome {
    needs_invalidate(b)?;
    let q = bindable(b)?;
    let bound = bound(&q)?;
    let work = q.app.post_with(Operation::LocalInvalidate, 0, |work| work.rkey = bound.rkey)?;
    q.app.completes(work, status::SUCCESS)?;
    no_access(&q, through(&q, &bound), 0)?;
    q.app.untouched()
}

fn window_rebound(b: &Bench<'_>) -> Outcome {
    needs_invalidate(b)?;
    let q = bindable(b)?;
    let old = bound(&q)?;
    let work = q.app.post_with(Operation::LocalInvalidate, 0, |work| work.rkey = old.rkey)?;
    q.app.completes(work, status::SUCCESS)?;
    let new = q.app.bind(old, START, LENGTH, Access::ALL)?;
    check(new.rkey != old.rkey, || "the key of the window has not changed".to_owned())?;
    q.tx(&through(&q, &new).psn(0))?;
    q.ack(0)?;
    no_access(&q, through(&q, &old), 1)
}

/// The SEND with PSN 0 invalidates the window.
fn invalidating<'b, 'r>(b: &'b Bench<'r>) -> Result<(Qp<'b, 'r>, Window), Stop> {
    needs_invalidate(b)?;
    let q = bindable(b)?;
    let bound = bound(&q)?;
    q.tx(&q.send_invalidate(16, bound.rkey).psn(0))?;
    q.ack(0)?;
    Ok((q, bound))
}

fn send_invalidate(b: &Bench<'_>) -> Outcome {
    let (q, bound) = invalidating(b)?;
    let completion = q.app.receives(0, 16)?;
    let named = completion.invalidated == Some(bound.rkey);
    check(named, || format!("the completion does not name key {:#x}: {completion:?}", bound.rkey))?;
    no_access(&q, through(&q, &bound), 1)?;
    q.app.untouched()
}

fn send_invalidate_duplicate(b: &Bench<'_>) -> Outcome {
    let (q, old) = invalidating(b)?;
    q.app.received(0, 16)?;
    let new = q.app.bind(old, START, LENGTH, Access::ALL)?;
    q.tx(&q.send_invalidate(16, new.rkey).psn(0))?;
    q.ack(0)?;
    q.app.no_completion()?;
    q.tx(&through(&q, &new).psn(1))?;
    q.ack(1).map(drop)
}

fn requester_send_invalidate(b: &Bench<'_>) -> Outcome {
    needs_invalidate(b)?;
    let q = b.rc().open()?;
    let key = 0x0bad_cafe;
    let work = q.app.post_with(Operation::SendInvalidate, 16, |work| work.rkey = key)?;
    let came = q.request(0, Opcode::RC_SEND_ONLY_INV)?;
    check(came.invalidates() == Some(key), || format!("not the key that was posted: {came}"))?;
    super::requester::acked(&q, 0, work)?;
    let length = 2 * q.mtu() + 1;
    let work = q.app.post_with(Operation::SendInvalidate, length, |work| work.rkey = key)?;
    q.request(1, Opcode::RC_SEND_FIRST)?;
    q.request(2, Opcode::RC_SEND_MIDDLE)?;
    let came = q.request(3, Opcode::RC_SEND_LAST_INV)?;
    check(came.invalidates() == Some(key), || format!("not the key that was posted: {came}"))?;
    super::requester::acked(&q, 3, work)
}

/// Bytes of a READ that goes on for a while.
const LONG: usize = 1 << 20;
/// Bytes at its end that change when the region is gone.
const TAIL: usize = 128 << 10;

fn deregister_in_read(b: &Bench<'_>) -> Outcome {
    let q = b.rc().region_bytes(LONG as u32).open()?;
    q.tx(&q.read(LONG).psn(0))?;
    q.app.deregister()?;
    q.app.fill(LONG - TAIL, &vec![0; TAIL])?;
    let (before, mut due) = (pattern(0, LONG), 0);
    while let Some(came) = q.within(b.patience().silence)? {
        if came.is_nak(NakCode::RemoteAccess) || came.is_nak(NakCode::RemoteOperational) {
            b.record(format!("a NAK after {due} responses"));
            return q.dead(due);
        }
        check(came.psn == due, || format!("expected the response at PSN {due:+}, got {came}"))?;
        let at = due as usize * q.mtu();
        let right = before.get(at..at + q.mtu()) == Some(&came.payload());
        check(right, || format!("{came} shows bytes from after the deregistration"))?;
        due += 1;
    }
    let whole = due as usize * q.mtu() == LONG;
    check(whole, || format!("the response ends at PSN {due:+} without a NAK"))?;
    no_access(&q, q.read(16), due)
}

/// Atomics of each queue pair.
const ADDS: i32 = 200;

/// Two queue pairs add to the same word, each a few atomics at a time.
fn add_from_two(q: &Qp<'_, '_>, other: &Qp<'_, '_>) -> Outcome {
    for psn in 0..ADDS {
        q.tx(&q.fetch_add(1).psn(psn))?;
        other.tx(&other.fetch_add(1).va(q.at(0)).rkey(q.rkey()).psn(psn))?;
        q.atomic_ack(psn)?;
        other.atomic_ack(psn)?;
    }
    Ok(())
}

fn atomic_two_queue_pairs(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let (q, other) = (b.rc().open()?, b.rc().open()?);
    q.app.fill(0, &[0; 8])?;
    add_from_two(&q, &other)?;
    q.app.written(&(2 * ADDS as u64).to_ne_bytes())
}

fn atomic_beside_cpu(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let with_cpu = b.card().extensions.atomics_with_cpu;
    needs(with_cpu, "the device says that its atomics do not exclude the CPU")?;
    let (q, other) = (b.rc().open()?, b.rc().open()?);
    q.app.fill(0, &[0; 8])?;
    q.app.start_adding()?;
    let added = add_from_two(&q, &other);
    let count = q.app.stop_adding()?;
    added?;
    let sum = count + 2 * ADDS as u64;
    let word = q.app.memory(0, 8)?;
    if word == sum.to_ne_bytes() { Ok(()) } else { fail(format!("{word:?} is not {sum}")) }
}
