//! The NIC under test as requester of READs and atomics.

use std::time::Duration;

use uroce_wire::{NakCode, Opcode};

use super::check;
use super::sequence::needs_atomics;
use crate::case::cases;
use crate::memory::REMOTE_VA;
use crate::{Bench, Came, Icrc, Operation, Outcome, Packet, Qp, State, Stop, pattern, status};

cases! {
    Must "rc.requester.read-good", "R69 R48", [174], "A READ asks once for the whole range, and completes with its bytes.", read_good;
    Must "rc.requester.read-middle-lost", "R69 R77", [175], "When a response is missing, it asks again for what is missing, or for all.", read_middle_lost;
    Must "rc.requester.read-tail-lost", "R75 R77", [176], "When the last response is missing, it asks again after its timeout.", read_tail_lost;
    Must "rc.requester.read-reordered", "R69", [177], "Responses out of order end in the right bytes.", read_reordered;
    Must "rc.requester.read-response-twice", "R69", [178], "Responses that come twice do no harm.", read_response_twice;
    Must "rc.requester.read-too-long", "R69 A15", [179], "A response with more bytes than asked for writes none of them behind the range.", read_too_long;
    Must "rc.requester.read-too-short", "R69", [180], "A response with fewer bytes than asked for is no success.", read_too_short;
    Must "rc.requester.read-wrong-kind", "R69", [181], "A response of another kind than the READ needs is no success.", read_wrong_kind;
    Must "rc.requester.read-bad-icrc", "R9", [182], "A response with a wrong ICRC counts as lost.", read_bad_icrc;
    Must "rc.requester.read-acked", "R68", [183], "An ACK does not complete a READ.", read_acked;
    Must "rc.requester.implied-nak", "R68", [184], "An ACK of a later request while a READ is open makes it ask again.", implied_nak;
    Must "rc.requester.read-nak", "B12", [185], "A NAK in the middle of a response completes the READ once, with its status.", read_nak;
    Must "rc.requester.read-depth", "R79", [186], "No more READs are open than were agreed.", read_depth;
    Must "rc.requester.fence", "R80", [188], "A fenced SEND waits for the READ before it.", fence;
    Must "rc.requester.read-before-send", "R67", [187], "A SEND behind a READ completes behind it.", read_before_send;
    Must "rc.requester.atomic-lost", "R59", [189], "An atomic without an answer comes again as it was.", atomic_lost;
    Must "rc.requester.atomic-result", "R34", [190], "The original value arrives in host order.", atomic_result;
}

/// It posts a READ of `length` bytes and asks for them at PSN 0.
fn asked(q: &Qp<'_, '_>, length: usize) -> Result<u64, Stop> {
    let work = q.app.post(Operation::Read, length)?;
    let came = q.request(0, Opcode::RC_READ_REQUEST)?;
    let reth = came.reth();
    let whole = reth.is_some_and(|reth| reth.length as usize == length && reth.va == REMOTE_VA);
    check(whole, || format!("expected a READ of {length} bytes, got {came}"))?;
    Ok(work)
}

/// Answers a READ request of any part of the range.
fn answer(q: &Qp<'_, '_>, came: &Came, whole: &[u8]) -> Outcome {
    let part = came.reth().and_then(|reth| {
        let start = usize::try_from(reth.va.checked_sub(REMOTE_VA)?).ok()?;
        whole.get(start..start.checked_add(reth.length as usize)?)
    });
    match part {
        Some(part) => q.tx_all(&q.responses(came.psn, part, 1)),
        None => super::fail(format!("expected a READ of a part of the range, got {came}")),
    }
}

/// Sends these packets, of the responses to a READ of four packets, and then answers what it asks for: the READ must
/// complete with the right bytes.
fn repaired(
    b: &Bench<'_>,
    responses: impl FnOnce(&Qp<'_, '_>, Vec<Packet>) -> Vec<Packet>,
) -> Outcome {
    let q = b.rc().timeout(14, 7).open()?;
    let bytes = pattern(1, 4 * q.mtu());
    let work = asked(&q, bytes.len())?;
    let all = q.responses(0, &bytes, 1);
    q.tx_all(&responses(&q, all))?;
    let end = q.now() + b.patience().answer;
    while q.now() < end {
        match q.within(b.patience().silence)? {
            Some(came) => answer(&q, &came, &bytes)?,
            None if q.app.done(work, status::SUCCESS)? => return q.app.written(&bytes),
            None => {}
        }
    }
    super::fail("the READ does not complete")
}

fn read_good(b: &Bench<'_>) -> Outcome {
    for packets in [1, 3] {
        let q = b.rc().open()?;
        let bytes = pattern(1, packets * q.mtu() - 5);
        let work = asked(&q, bytes.len())?;
        q.tx_all(&q.responses(0, &bytes, 1))?;
        q.app.completes(work, status::SUCCESS)?;
        q.app.written(&bytes)?;
    }
    Ok(())
}

fn read_middle_lost(b: &Bench<'_>) -> Outcome {
    repaired(b, |_, mut all| {
        all.remove(2);
        all
    })
}

fn read_tail_lost(b: &Bench<'_>) -> Outcome {
    repaired(b, |_, mut all| {
        all.pop();
        all
    })
}

fn read_reordered(b: &Bench<'_>) -> Outcome {
    repaired(b, |_, mut all| {
        all.swap(1, 3);
        all
    })
}

fn read_response_twice(b: &Bench<'_>) -> Outcome {
    repaired(b, |_, all| all.into_iter().flat_map(|packet| [packet.clone(), packet]).collect())
}

fn read_bad_icrc(b: &Bench<'_>) -> Outcome {
    repaired(b, |_, mut all| {
        all[1] = all[1].clone().data(&[0x99; 16]).icrc(Icrc::BitFlipped);
        all
    })
}

/// After a wrong answer to a READ: no success, and no byte changed from `length` on.
fn no_success(b: &Bench<'_>, q: &Qp<'_, '_>, length: usize) -> Outcome {
    while q.within(b.patience().silence)?.is_some() {}
    // A slow NIC may fail between two looks at it: an error that has completed by the second is judged with the state behind it.
    let due = if q.app.state()? == State::Err {
        Some(q.app.completion()?)
    } else {
        q.app.polled(1, Duration::ZERO)?.pop()
    };
    if let Some(completion) = due {
        check(completion.status != status::SUCCESS, || "the READ succeeded".to_owned())?;
        let state = q.app.state()?;
        check(state == State::Err, || {
            format!("the READ failed, and its queue pair is in {state:?}")
        })?;
    }
    let behind = q.app.memory(length, 4096)?;
    check(behind == pattern(0, length + 4096)[length..], || "it wrote behind the range".to_owned())
}

fn read_too_long(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    asked(&q, 16)?;
    q.tx(&q.response(Opcode::RC_READ_RESPONSE_ONLY, 0, &[0x99; 32], 1))?;
    no_success(b, &q, 16)?;
    let q = b.rc().open()?;
    let (mtu, length) = (q.mtu(), 2 * q.mtu());
    asked(&q, length)?;
    q.tx(&q.response(Opcode::RC_READ_RESPONSE_FIRST, 0, &vec![1; mtu], 1))?;
    q.tx(&q.response(Opcode::RC_READ_RESPONSE_MIDDLE, 1, &vec![2; mtu], 1))?;
    q.tx(&q.response(Opcode::RC_READ_RESPONSE_LAST, 2, &vec![3; mtu], 1))?;
    no_success(b, &q, length)
}

fn read_too_short(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    asked(&q, 16)?;
    q.tx(&q.response(Opcode::RC_READ_RESPONSE_ONLY, 0, &[0x99; 8], 1))?;
    no_success(b, &q, 16)
}

fn read_wrong_kind(b: &Bench<'_>) -> Outcome {
    let wrong = |answer: &dyn Fn(&Qp<'_, '_>) -> Packet| {
        let q = b.rc().open()?;
        let length = 3 * q.mtu();
        asked(&q, length)?;
        q.tx(&answer(&q))?;
        no_success(b, &q, length)
    };
    wrong(&|q| q.response(Opcode::RC_READ_RESPONSE_ONLY, 0, &vec![1; q.mtu()], 1))?;
    wrong(&|q| q.response(Opcode::RC_READ_RESPONSE_MIDDLE, 0, &vec![1; q.mtu()], 1))?;
    wrong(&|q| q.originals(0, 7, 1))
}

fn read_acked(b: &Bench<'_>) -> Outcome {
    repaired(b, |q, _| vec![q.acks(3, 1)])
}

fn implied_nak(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let bytes = pattern(1, 16);
    let read = asked(&q, bytes.len())?;
    let send = q.app.post(Operation::Send, 16)?;
    q.request(1, Opcode::RC_SEND_ONLY)?;
    q.tx(&q.acks(1, 2))?;
    let came = q.request(0, Opcode::RC_READ_REQUEST)?;
    answer(&q, &came, &bytes)?;
    q.app.completes(read, status::SUCCESS)?;
    q.tx(&q.acks(1, 2))?;
    q.app.completes(send, status::SUCCESS).map(drop)
}

fn read_nak(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let bytes = pattern(1, 3 * q.mtu());
    let work = asked(&q, bytes.len())?;
    q.tx(&q.responses(0, &bytes, 1)[0])?;
    q.tx(&q.naks(1, NakCode::RemoteAccess, 0))?;
    q.app.completes(work, status::REM_ACCESS)?;
    q.silence()
}

fn read_depth(b: &Bench<'_>) -> Outcome {
    let q = b.rc().depth(2).open()?;
    let works = (0..4).map(|_| q.app.post(Operation::Read, 16)).collect::<Result<Vec<_>, _>>()?;
    q.request(0, Opcode::RC_READ_REQUEST)?;
    q.request(1, Opcode::RC_READ_REQUEST)?;
    q.nothing_new()?;
    q.tx_all(&q.responses(0, &pattern(1, 16), 1))?;
    q.request(2, Opcode::RC_READ_REQUEST)?;
    q.nothing_new()?;
    q.app.completes(works[0], status::SUCCESS).map(drop)
}

fn fence(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    asked(&q, 16)?;
    q.app.post_with(Operation::Send, 16, |work| work.fence = true)?;
    q.nothing_new()?;
    q.tx_all(&q.responses(0, &pattern(1, 16), 1))?;
    q.request(1, Opcode::RC_SEND_ONLY).map(drop)
}

fn read_before_send(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let read = asked(&q, 16)?;
    let send = q.app.post(Operation::Send, 16)?;
    q.request(1, Opcode::RC_SEND_ONLY)?;
    q.app.no_completion()?;
    q.tx_all(&q.responses(0, &pattern(1, 16), 1))?;
    q.tx(&q.acks(1, 2))?;
    q.app.completes(read, status::SUCCESS)?;
    q.app.completes(send, status::SUCCESS).map(drop)
}

fn atomic_lost(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().timeout(14, 7).open()?;
    let work = q.app.post_with(Operation::FetchAdd, 8, |work| work.compare_add = 3)?;
    let before = q.request(0, Opcode::RC_FETCH_ADD)?;
    let came = q.request(0, Opcode::RC_FETCH_ADD)?;
    check(came.atomic() == before.atomic(), || format!("{came} is not {before} again"))?;
    q.tx(&q.originals(0, 7, 1))?;
    q.app.completes(work, status::SUCCESS).map(drop)
}

fn atomic_result(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().open()?;
    let (swap, compare) = (0x1112_1314_1516_1718, 0x2122_2324_2526_2728);
    let work = q.app.post_with(Operation::CompareSwap, 8, |work| {
        (work.compare_add, work.swap) = (compare, swap);
    })?;
    let came = q.request(0, Opcode::RC_COMPARE_SWAP)?;
    let as_posted =
        came.atomic().is_some_and(|atomic| (atomic.swap_add, atomic.compare) == (swap, compare));
    check(as_posted, || format!("not what was posted: {came}"))?;
    q.tx(&q.originals(0, 0x0102_0304_0506_0708, 1))?;
    q.app.completes(work, status::SUCCESS)?;
    q.app.written(&0x0102_0304_0506_0708u64.to_ne_bytes())
}
