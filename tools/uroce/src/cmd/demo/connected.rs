//! The operations of a reliable connection.

use uroce_verbs::{Access, QpType, RecvWr, SendWr};

use super::node::{Pair, connect};
use super::{Step, StepResult};

const HELLO: u32 = 0xcafe_f00d;

/// Two-sided: the receiver chose where the bytes go.
pub fn send(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 10_000, 1)?;
    b.clear(0, 10_000)?;
    b.receive(&b.rc, 0, 10_000)?;
    a.run(&a.rc, SendWr::send(1, &[a.sge(0, 10_000)]))?;
    let received = b.completion()?;
    b.expect(0, &sent)?;
    Ok(StepResult::new(
        10_000,
        format!("B's receive completed with {} bytes, all equal", received.byte_len),
    ))
}

/// A SEND with 4 bytes in its completion.
pub fn send_imm(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 100, 2)?;
    b.receive(&b.rc, 0, 100)?;
    a.run(&a.rc, SendWr::send(1, &[a.sge(0, 100)]).imm(HELLO))?;
    let received = b.completion()?;
    b.expect(0, &sent)?;
    match received.imm {
        Some(HELLO) => Ok(StepResult::new(104, format!("B's completion carries {HELLO:#x}"))),
        other => Err(format!("the immediate data is {other:x?}, not {HELLO:x}")),
    }
}

/// The bytes are copied when the request is posted.
pub fn send_inline(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let mut bytes = *b"from a stack variable, with no lkey at all";
    b.receive(&b.rc, 0, 64)?;
    let sent = bytes;
    let posted = a.rc.post_send(&[SendWr::send(1, &[]).inline(&bytes).signaled()]);
    bytes.fill(0);
    posted.map_err(|error| error.to_string())?;
    a.completion()?;
    b.completion()?;
    b.expect(0, &sent)?;
    Ok(StepResult::new(bytes.len(), "the source was overwritten right after the post"))
}

/// One-sided: B's program takes no part.
pub fn write(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 100_000, 3)?;
    b.clear(4096, 100_000)?;
    let remote = b.mr.remote().part(4096..104_096);
    a.run(&a.rc, SendWr::write(1, &[a.sge(0, 100_000)], remote))?;
    b.expect(4096, &sent)?;
    Ok(StepResult::new(100_000, "B's memory changed, B's program did nothing"))
}

/// A WRITE that tells B that it is complete.
pub fn write_imm(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 5000, 4)?;
    b.clear(0, 5000)?;
    b.receive(&b.rc, 0, 0)?;
    let remote = b.mr.remote().part(..5000);
    a.run(&a.rc, SendWr::write(1, &[a.sge(0, 5000)], remote).imm(HELLO))?;
    let told = b.completion()?;
    b.expect(0, &sent)?;
    match told.imm {
        Some(HELLO) => Ok(StepResult::new(5004, "B was told, through a receive without a buffer")),
        other => Err(format!("the immediate data is {other:x?}, not {HELLO:x}")),
    }
}

/// One-sided, the other way.
pub fn read(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let there = b.fill(0, 50_000, 5)?;
    a.clear(0, 50_000)?;
    let remote = b.mr.remote().part(..50_000);
    a.run(&a.rc, SendWr::read(1, &[a.sge(0, 50_000)], remote))?;
    a.expect(0, &there)?;
    Ok(StepResult::new(50_000, "one request, many responses"))
}

fn word(pair: &Pair, value: u64) -> Result<(), String> {
    pair.a.mr.store_u64(0, u64::MAX).map_err(|error| error.to_string())?;
    pair.b.mr.store_u64(0, value).map_err(|error| error.to_string())
}

fn words(pair: &Pair) -> Result<(u64, u64), String> {
    let returned = pair.a.mr.load_u64(0).map_err(|error| error.to_string())?;
    let there = pair.b.mr.load_u64(0).map_err(|error| error.to_string())?;
    Ok((returned, there))
}

/// Replaces a word if it has the expected value.
pub fn compare_swap(pair: &Pair) -> Step {
    let a = &pair.a;
    let remote = pair.b.mr.remote().part(..8);
    let here = [a.sge(0, 8)];
    word(pair, 7)?;
    a.run(&a.rc, SendWr::compare_swap(1, &here, remote, 7, 99))?;
    let hit = words(pair)?;
    a.run(&a.rc, SendWr::compare_swap(1, &here, remote, 7, 1))?;
    match (hit, words(pair)?) {
        ((7, 99), (99, 99)) => {
            Ok(StepResult::new(16, "7 became 99; a second try saw 99 and changed nothing"))
        }
        wrong => Err(format!("returned and stored words are {wrong:?}")),
    }
}

/// Adds to a word and returns what it was.
pub fn fetch_add(pair: &Pair) -> Step {
    let a = &pair.a;
    let remote = pair.b.mr.remote().part(..8);
    word(pair, 40)?;
    a.run(&a.rc, SendWr::fetch_add(1, &[a.sge(0, 8)], remote, 2))?;
    match words(pair)? {
        (40, 42) => Ok(StepResult::new(8, "40 + 2 = 42 in B's memory, A got the 40")),
        wrong => Err(format!("returned and stored words are {wrong:?}")),
    }
}

/// Eight bytes that a reader sees whole or not at all.
pub fn atomic_write(pair: &Pair) -> Step {
    let a = &pair.a;
    word(pair, 0)?;
    a.mr.store_u64(0, 0x0123_4567_89ab_cdef).map_err(|error| error.to_string())?;
    let remote = pair.b.mr.remote().part(..8);
    a.run(&a.rc, SendWr::atomic_write(1, &[a.sge(0, 8)], remote))?;
    match words(pair)?.1 {
        0x0123_4567_89ab_cdef => {
            Ok(StepResult::new(8, "one 8-byte store; never half of it is seen"))
        }
        wrong => Err(format!("the word is {wrong:#x}")),
    }
}

/// Answered only when earlier writes are visible.
pub fn flush(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 9000, 6)?;
    let remote = b.mr.remote().part(..9000);
    let here = [a.sge(0, 9000)];
    let posted = a.rc.post_send(&[SendWr::write(1, &here, remote)]);
    posted.map_err(|error| error.to_string())?;
    a.run(&a.rc, SendWr::flush(2, remote, Access::FLUSH_GLOBAL))?;
    b.expect(0, &sent)?;
    Ok(StepResult::new(9000, "an unsignalled WRITE was visible when the FLUSH completed"))
}

/// Two connections take their receives from one queue.
pub fn shared_receive(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let srq = b.pd.create_srq(4, 1).map_err(|error| text(&error))?;
    let mut lanes = Vec::new();
    for _ in 0..2 {
        let here = a.pd.qp_builder(QpType::Rc, &a.cq, &a.cq).build();
        let there = b.pd.qp_builder(QpType::Rc, &b.cq, &b.cq).srq(&srq).build();
        let lane = (here.map_err(|error| text(&error))?, there.map_err(|error| text(&error))?);
        connect(&lane.0, &lane.1).map_err(|error| text(&error))?;
        lanes.push(lane);
    }
    let sges = [[b.sge(0, 500)], [b.sge(500, 500)]];
    let wrs = [RecvWr::new(1, &sges[0]), RecvWr::new(2, &sges[1])];
    srq.post_recv(&wrs).map_err(|error| text(&error))?;
    let sent = a.fill(0, 1000, 7)?;
    for (nth, (here, there)) in lanes.iter().enumerate() {
        a.run(here, SendWr::send(1, &[a.sge(nth * 500, 500)]))?;
        let received = b.completion()?;
        if received.qpn != there.qpn().get() {
            return Err(format!("the message came on queue pair {:#x}", received.qpn));
        }
    }
    b.expect(0, &sent)?;
    Ok(StepResult::new(1000, "two connections, one queue of receives, in order"))
}
