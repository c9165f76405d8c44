//! When answers come, and what they say about receives.

use std::time::Duration;

use uroce_wire::{NakCode, SyndromeKind, credit_count};

use super::{check, unexpected};
use crate::case::cases;
use crate::{Bench, Operation, Outcome, pattern, status};

cases! {
    Should "rc.responder.late-not-lost", "R54", [42], "A packet that comes just behind its successor draws one sequence NAK at most, and is acknowledged.", late_not_lost;
    Must "rc.responder.duplicate-read-in-train", "R62", [58], "A READ that comes again during its response draws one train of responses at a time.", duplicate_read_in_train;
    Free "rc.responder.rnr-too-early", "R37", [121], "A SEND that comes again before the RNR time draws an RNR NAK, or nothing.", rnr_too_early;
    Should "rc.responder.credits-follow", "R52", [138], "The credits of an ACK are no more than the receives that are posted, or unlimited.", credits_follow;
    Free "rc.responder.read-longest", "R25 R28", [143], "A READ of 2^31 bytes that leaves the region is a remote access error, or an invalid request.", read_longest;
    Should "rc.responder.ack-delay", "R44", [146], "99 of 100 ACKs come within the ACK delay that the device states.", ack_delay;
    Should "rc.requester.retry-reset", "R75", [159], "Progress gives it all its repetitions again.", retry_reset;
}

fn late_not_lost(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx_all(&[q.write(16).psn(1), q.write(16).psn(0)])?;
    let (mut naks, mut newest) = (0, -1);
    while let Some(came) = q.within(b.patience().silence)? {
        match came.kind() {
            Some(SyndromeKind::Nak(NakCode::PsnSequence)) if came.psn == 0 => naks += 1,
            Some(SyndromeKind::Ack { .. }) if came.psn > newest => newest = came.psn,
            _ => return unexpected("one sequence NAK at most, and ACKs", &came),
        }
    }
    check(naks <= 1, || format!("{naks} sequence NAKs for one gap"))?;
    match newest {
        0 => b.tolerate("it forgets what came too early: go-back-N"),
        1 => {}
        _ => return super::fail("the late packet is not acknowledged"),
    }
    q.alive(newest + 1).map(drop)
}

/// Packets of the response that is asked for twice.
const TRAIN: i32 = 256;

fn duplicate_read_in_train(b: &Bench<'_>) -> Outcome {
    let q = b.rc().region_bytes(1 << 20).open()?;
    let request = q.read(TRAIN as usize * q.mtu()).psn(0);
    q.tx_all(&[request.clone(), request])?;
    let (mut due, mut trains, mut ended) = (0, 1, false);
    while let Some(came) = q.within(b.patience().silence)? {
        check(came.aeth().is_none() || !came.is_ack(), || format!("{came} in a response"))?;
        if came.psn != due && came.psn == 0 {
            trains += 1;
            due = 0;
        }
        check(came.psn == due, || format!("expected the response at PSN {due:+}, got {came}"))?;
        due += 1;
        ended |= due == TRAIN;
    }
    check(ended && trains <= 2, || format!("{trains} trains, the last ends at PSN {due:+}"))?;
    check(due == TRAIN, || format!("the last train ends before PSN {due:+}"))?;
    q.alive(TRAIN).map(drop)
}

fn rnr_too_early(b: &Bench<'_>) -> Outcome {
    // Code 0 is the longest time, 655.36 ms.
    let q = b.rc().receives(0).rnr_timer(0).open()?;
    q.tx(&q.send(16).psn(0))?;
    q.rnr(0)?;
    q.tx(&q.send(16).psn(0))?;
    match q.within(b.patience().silence)? {
        None => b.tolerate("silent until the RNR time is over"),
        Some(came) if matches!(came.kind(), Some(SyndromeKind::Rnr { .. })) && came.psn == 0 => {
            b.tolerate("another RNR NAK");
        }
        Some(came) => return unexpected("an RNR NAK, or nothing", &came),
    }
    q.alive(0).map(drop)
}

fn credits_follow(b: &Bench<'_>) -> Outcome {
    let mut codes = Vec::new();
    for receives in [0, 1, 5, 32] {
        let q = b.rc().receives(receives).open()?;
        let SyndromeKind::Ack { credits } = q.alive(0)?.syndrome.kind() else {
            return super::fail("expected an ACK");
        };
        let count = credit_count(credits);
        check(count.is_none_or(|count| count <= receives), || {
            format!("credit code {credits} with {receives} receives")
        })?;
        codes.push(credits);
    }
    b.record(format!("credit codes {codes:?} with 0, 1, 5 and 32 receives"));
    Ok(())
}

fn read_longest(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.read(1 << 31).psn(0))?;
    let came = q.next("a remote access or invalid request NAK")?;
    match [NakCode::RemoteAccess, NakCode::InvalidRequest].map(|code| came.is_nak(code)) {
        [true, _] => b.tolerate("remote access error"),
        [_, true] => b.tolerate("invalid request: it takes no READ of this length"),
        _ => return unexpected("a remote access or invalid request NAK", &came),
    }
    q.dead(0)
}

/// ACKs that are timed.
const TIMED: usize = 500;

fn ack_delay(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let mut times = Vec::with_capacity(TIMED);
    for psn in 0..TIMED as i32 {
        let sent = q.now();
        q.tx(&q.write(16).psn(psn))?;
        q.ack(psn)?;
        times.push(q.now().saturating_sub(sent));
    }
    times.sort_unstable();
    let (least, middle, most) = (times[0], times[TIMED / 2], times[TIMED * 99 / 100]);
    let code = b.card().ack_delay.min(31);
    let stated = Duration::from_nanos(4096 << code);
    b.record(format!(
        "ACK after {least:.1?} at least, {middle:.1?} in the middle, {most:.1?} in 99 of 100; stated {stated:.1?}"
    ));
    if q.app.unseen("the delay that the device states") {
        return Ok(());
    }
    let own = most.saturating_sub(least);
    check(own <= stated, || format!("{own:.1?} beyond the least time, stated {stated:.1?}"))
}

/// Repetitions that the connection has, and messages of which each takes two of them.
const RETRIES: u8 = 3;
const MESSAGES: i32 = 4;

fn retry_reset(b: &Bench<'_>) -> Outcome {
    let q = b.rc().timeout(14, RETRIES).open()?;
    let works =
        (0..MESSAGES).map(|_| q.app.post(Operation::Write, 16)).collect::<Result<Vec<_>, _>>()?;
    for psn in 0..MESSAGES {
        let mut sendings = 0;
        while sendings < 3 {
            let came = q.next("the oldest request again")?;
            let known = (0..MESSAGES).contains(&came.psn) && came.payload() == pattern(0, 16);
            check(known, || format!("expected one of the requests again, got {came}"))?;
            sendings += i32::from(came.psn == psn);
        }
        q.tx(&q.acks(psn, psn as u32 + 1))?;
    }
    works.into_iter().try_for_each(|work| q.app.completes(work, status::SUCCESS).map(drop))
}
