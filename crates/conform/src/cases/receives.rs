//! Receives, RNR, acknowledgements and message sequence numbers.

use std::time::Duration;

use uroce_wire::{NakCode, Opcode, SyndromeKind, rnr_timer_us};

use super::sequence::needs_atomics;
use super::{check, others_live, unexpected};
use crate::case::cases;
use crate::{Bench, Outcome, Qp, State, pattern, status};

cases! {
    Must "rc.responder.send-too-long", "R27", [88], "A SEND longer than its receive is an invalid request, completes LOC_LEN_ERR, and writes nothing behind it.", send_too_long;
    Must "rc.responder.send-too-long-late", "R27", [89], "A SEND that becomes longer than its receive is refused at that packet.", send_too_long_late;
    Must "rc.responder.rnr-send", "R37", [118], "A SEND without a receive draws an RNR NAK with the timer of the queue pair.", rnr_send;
    Must "rc.responder.rnr-write-imm", "R37", [119], "A WRITE with immediate data needs a receive at its last packet.", rnr_write_imm;
    Must "rc.responder.rnr-then-ok", "R37", [120], "After an RNR NAK the same request succeeds once a receive is posted, and is delivered once.", rnr_then_ok;
    Free "rc.responder.rnr-next-packet", "R56 B15", [122], "The packet behind one that drew an RNR NAK draws nothing, or a sequence NAK.", rnr_next_packet;
    Must "rc.responder.rnr-shared", "R37", [123], "An empty shared receive queue draws an RNR NAK.", rnr_shared;
    Must "rc.responder.write-needs-no-receive", "R40", [124], "A WRITE needs no receive.", write_needs_no_receive;
    Must "rc.responder.receive-bad-lkey", "R38", [125], "A receive with a wrong local key is a remote operational error.", receive_bad_lkey;
    Must "rc.responder.immediate", "R40", [126], "Immediate data arrive with their bytes in order, and the length of the message.", immediate;
    Must "rc.responder.write-imm-length", "R40", [128], "A WRITE with immediate data reports its whole length and uses one receive.", write_imm_length;
    Must "rc.responder.solicited-last", "R42", [127], "A solicited event comes for the packet that ends a message, not for another.", solicited_last;
    Free "rc.responder.no-ack-request", "R44", [129], "A request that asks for no ACK draws none at once, or one.", no_ack_request;
    Must "rc.responder.ack-coalesced", "R43", [130], "An ACK of the last of many requests acknowledges all.", ack_coalesced;
    Should "rc.responder.ack-mid-message", "R44 R50", [131], "A MIDDLE that asks for an ACK draws one, and the message does not count yet.", ack_mid_message;
    Must "rc.responder.ack-monotonic", "R45", [132], "The PSNs of ACKs never go back while new requests come.", ack_monotonic;
    Must "rc.responder.msn-counts", "R50 C9-148 B19", [133, 134], "The MSN counts each new message once: SEND, WRITE, READ, atomic, and no duplicate.", msn_counts;
    Must "rc.responder.credits", "R51 R52", [136], "The credits of an ACK are a code from 0 to 31.", credits;
    Must "rc.responder.credits-shared", "R52", [137], "A queue pair with a shared receive queue gives unlimited credits.", credits_shared;
    Must "rc.responder.response-order", "R49", [139], "No ACK overtakes the response of an earlier READ.", response_order;
    Must "rc.responder.read-headers", "R47 R48", [140], "READ responses have the opcodes, sizes and AETHs of their positions.", read_headers;
    Must "rc.responder.read-psn-use", "R18", [141], "A READ takes as many PSNs as its response has packets.", read_psn_use;
    Free "rc.responder.read-one-too-many", "R35", [142], "One READ more than agreed is an invalid request, or is served.", read_one_too_many;
    Must "rc.responder.one-fatal-nak", "R63", [147], "A fatal error draws one NAK, whatever follows.", one_fatal_nak;
    Must "rc.responder.isolation", "A12", [148], "The failure of one queue pair does not touch another.", isolation;
    Must "rc.responder.effect-before-ack", "R39", [149], "A READ behind a WRITE sees its bytes.", effect_before_ack;
    Must "rc.responder.flush-on-error", "R87 C9-220", [], "When a queue pair fails, its receives complete with WR_FLUSH_ERR, in order.", flush_on_error;
    Must "rc.responder.state-init", "R5", [], "A queue pair in INIT answers nothing.", state_init;
    Must "rc.responder.state-rtr", "R5", [], "A queue pair in RTR answers requests.", state_rtr;
    Must "rc.responder.state-reset", "R5 R91", [241], "After RESET, packets of the old connection draw nothing.", state_reset;
    Must "rc.responder.state-err", "R5", [], "A queue pair in ERR answers nothing.", state_err;
}

fn send_too_long(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receive_bytes(64).open()?;
    q.tx(&q.send(65).psn(0))?;
    q.fatal(0, NakCode::InvalidRequest)?;
    q.app.completes(0, status::LOC_LEN)?;
    let behind = q.app.inbox(1, 64)?;
    check(behind == pattern(0, 128)[64..], || "it wrote behind the receive".to_owned())
}

fn send_too_long_late(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receive_bytes(2200).open()?;
    q.tx_all(&q.message(Opcode::RC_SEND_ONLY, 3 * q.mtu(), 0))?;
    q.fatal(2, NakCode::InvalidRequest)?;
    q.app.completes(0, status::LOC_LEN).map(drop)
}

fn rnr_send(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(0).rnr_timer(14).open()?;
    q.tx(&q.send(16).psn(0))?;
    let timer = q.rnr(0)?;
    check(timer == 14, || format!("timer code {timer}, not 14"))?;
    q.ignored(0)
}

fn rnr_write_imm(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(0).open()?;
    q.tx(&q.packet(Opcode::RC_WRITE_ONLY_IMM, 16).psn(0))?;
    q.rnr(0)?;
    let q = b.rc().receives(0).open()?;
    q.tx_all(&q.message(Opcode::RC_WRITE_ONLY_IMM, 3 * q.mtu(), 0))?;
    q.rnr(2).map(drop)
}

fn rnr_then_ok(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(0).open()?;
    q.tx(&q.send(16).psn(0))?;
    let wait = Duration::from_micros(rnr_timer_us(q.rnr(0)?).into());
    post_one(&q)?;
    q.silence_for(wait)?;
    q.tx(&q.send(16).psn(0))?;
    q.ack(0)?;
    let completion = q.app.completes(0, status::SUCCESS)?;
    check(completion.byte_len == 16, || format!("{} bytes received", completion.byte_len))?;
    q.app.no_completion()
}

/// Receive 0 of a queue pair that was set up without any.
fn post_one(q: &Qp<'_, '_>) -> Outcome {
    q.app.post_receive(0)
}

fn rnr_next_packet(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(0).open()?;
    q.tx_all(&[q.send(16).psn(0), q.send(16).psn(1)])?;
    q.rnr(0)?;
    match q.within(b.patience().silence)? {
        None => b.tolerate("silent"),
        Some(came) if came.is_nak(NakCode::PsnSequence) && came.psn == 0 => {
            b.tolerate("it answers with a sequence NAK, which a requester must not obey before the RNR time");
        }
        Some(came) => return unexpected("silence, or a sequence NAK", &came),
    }
    q.alive(0).map(drop)
}

fn rnr_shared(b: &Bench<'_>) -> Outcome {
    let q = b.rc().shared().receives(0).open()?;
    q.tx(&q.send(16).psn(0))?;
    q.rnr(0)?;
    q.alive(0).map(drop)
}

fn write_needs_no_receive(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(0).open()?;
    q.tx(&q.write(16).psn(0))?;
    q.ack(0)?;
    q.app.written(&pattern(1, 16))
}

fn receive_bad_lkey(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receive_lkey(0x0bad_0b00).open()?;
    q.tx(&q.send(16).psn(0))?;
    q.fatal(0, NakCode::RemoteOperational)?;
    let completion = q.app.completion()?;
    let local = [status::LOC_PROT, status::LOC_QP_OP].contains(&completion.status);
    check(local && completion.wr_id == 0, || format!("expected a local error, got {completion:?}"))
}

fn immediate(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.packet(Opcode::RC_SEND_ONLY_IMM, 5).imm(0x0102_0304).psn(0))?;
    q.ack(0)?;
    let completion = q.app.receives(0, 5)?;
    check(completion.imm == Some(0x0102_0304), || format!("immediate data {:x?}", completion.imm))
}

fn write_imm_length(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let length = 3 * q.mtu() - 9;
    q.tx_all(&q.message(Opcode::RC_WRITE_ONLY_IMM, length, 0))?;
    q.ack(2)?;
    let completion = q.app.completes(0, status::SUCCESS)?;
    let whole = completion.byte_len as usize == length && completion.imm.is_some();
    check(whole, || format!("expected {length} bytes and immediate data, got {completion:?}"))?;
    q.app.no_completion()?;
    q.app.written(&pattern(1, length))
}

fn solicited_last(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.app.arm(true)?;
    let marked = |index: usize, psn: i32| {
        let mut message = q.message(Opcode::RC_SEND_ONLY, 2 * q.mtu(), psn);
        message[index] = message[index].clone().bth(|bth| bth.solicited = true);
        message
    };
    q.tx_all(&marked(0, 0))?;
    q.ack(1)?;
    let woken = q.app.woken(b.patience().silence)?;
    check(!woken, || "an event came for a FIRST".to_owned())?;
    q.tx_all(&marked(1, 2))?;
    q.ack(3)?;
    let woken = q.app.woken(b.patience().answer)?;
    check(woken, || "no event came for the LAST".to_owned())
}

fn no_ack_request(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(0).quiet())?;
    match q.within(b.patience().silence)? {
        None => b.tolerate("silent"),
        Some(came) if came.is_ack() && came.psn == 0 => b.tolerate("it acknowledges"),
        Some(came) => return unexpected("an ACK of PSN +0, or nothing", &came),
    }
    q.alive(1).map(drop)
}

fn ack_coalesced(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(16).open()?;
    for psn in 0..15 {
        q.tx(&q.send(16).psn(psn).quiet())?;
    }
    q.tx(&q.send(16).psn(15))?;
    let aeth = q.ack(15)?;
    check(aeth.msn == 16, || format!("MSN {} after 16 messages", aeth.msn))?;
    (0..16).try_for_each(|index| q.app.received(index, 16))
}

fn ack_mid_message(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let message = q.message(Opcode::RC_WRITE_ONLY, 3 * q.mtu(), 0);
    q.tx_all(&[message[0].clone(), message[1].clone().ack_req()])?;
    let aeth = q.ack(1)?;
    check(aeth.msn == 0, || format!("MSN {} before the message ends", aeth.msn))?;
    q.tx(&message[2])?;
    let aeth = q.ack(2)?;
    check(aeth.msn == 1, || format!("MSN {} after one message", aeth.msn))
}

fn ack_monotonic(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    for psn in 0..200 {
        q.tx(&q.write(16).psn(psn))?;
    }
    // This checks that they never go back.
    q.ack(199).map(drop)
}

fn msn_counts(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let q = b.rc().open()?;
    let msn = |got: u32, wanted: u32| check(got == wanted, || format!("MSN {got}, not {wanted}"));
    q.tx(&q.send(16).psn(0))?;
    msn(q.ack(0)?.msn, 1)?;
    q.tx_all(&q.message(Opcode::RC_WRITE_ONLY, 3 * q.mtu(), 1))?;
    msn(q.ack(3)?.msn, 2)?;
    q.tx(&q.read(2 * q.mtu()).psn(4))?;
    msn(q.read_response(4, 2 * q.mtu())?.1.msn, 3)?;
    q.tx(&q.fetch_add(1).psn(6))?;
    msn(q.atomic_ack(6)?.1.msn, 4)?;
    q.tx(&q.write(0).psn(7))?;
    msn(q.ack(7)?.msn, 5)?;
    // Right behind the atomic, its ACK might stop before it.
    q.tx(&q.send(16).psn(0))?;
    msn(q.ack(7)?.msn, 5)
}

fn credits(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.send(16).psn(0))?;
    match q.ack(0)?.syndrome.kind() {
        SyndromeKind::Ack { credits } => b.record(format!("credit code {credits} with 7 receives")),
        other => return super::fail(format!("expected an ACK, got {other:?}")),
    }
    Ok(())
}

fn credits_shared(b: &Bench<'_>) -> Outcome {
    let q = b.rc().shared().open()?;
    q.tx(&q.send(16).psn(0))?;
    let kind = q.ack(0)?.syndrome.kind();
    check(kind == SyndromeKind::Ack { credits: 31 }, || format!("expected 31, got {kind:?}"))
}

fn response_order(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let length = 16 * q.mtu();
    q.tx_all(&[
        q.write(16).psn(0).quiet(),
        q.read(length).va(q.at(4096)).psn(1),
        q.write(16).psn(17),
    ])?;
    if let Some(came) = q.within(b.patience().answer)? {
        if came.is_ack() {
            check(came.psn == 0, || format!("{came} came before the response"))?;
            q.read_response(1, length)?;
        } else {
            check(came.psn == 1, || format!("expected the response at PSN +1, got {came}"))?;
            for psn in 2..17 {
                let next = q.next("the rest of the response")?;
                check(next.psn == psn && !next.is_ack(), || format!("{next} came at PSN {psn:+}"))?;
            }
        }
    }
    q.ack(17).map(drop)
}

fn read_headers(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let mtu = q.mtu();
    let mut psn = 0;
    for length in [0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu, 3 * mtu + 5] {
        q.tx(&q.read(length).psn(psn))?;
        let (bytes, _) = q.read_response(psn, length)?;
        q.app.registered(0, &bytes)?;
        psn += length.div_ceil(mtu).max(1) as i32;
    }
    Ok(())
}

fn read_psn_use(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let length = 3 * q.mtu();
    q.tx(&q.read(length).psn(0))?;
    q.read_response(0, length)?;
    q.tx(&q.write(0).psn(4))?;
    q.nak(3, NakCode::PsnSequence)?;
    q.tx(&q.write(0).psn(3))?;
    let came = q.next("ACK of PSN +3, or +4")?;
    check(came.is_ack() && [3, 4].contains(&came.psn), || format!("expected an ACK, got {came}"))
}

fn read_one_too_many(b: &Bench<'_>) -> Outcome {
    let q = b.rc().depth(1).open()?;
    let length = 32 * q.mtu();
    q.tx_all(&[q.read(length).psn(0), q.read(length).psn(32)])?;
    let mut responses = 0;
    while let Some(came) = q.within(b.patience().silence)? {
        if came.is_nak(NakCode::InvalidRequest) {
            b.tolerate("invalid request");
            return Ok(());
        }
        check(!came.is_ack(), || format!("expected responses or a NAK, got {came}"))?;
        responses += 1;
    }
    b.tolerate("it serves both");
    check(responses == 64, || format!("{responses} of 64 responses came"))
}

fn one_fatal_nak(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).rkey(0x0bad_0b00).psn(0))?;
    for psn in 1..50 {
        q.tx(&q.write(16).psn(psn))?;
    }
    q.fatal(0, NakCode::RemoteAccess)?;
    q.app.untouched()
}

fn isolation(b: &Bench<'_>) -> Outcome {
    let (dying, living) = (b.rc().open()?, b.rc().open()?);
    living.alive(0)?;
    dying.tx(&dying.write(16).rkey(0x0bad_0b00).psn(0))?;
    dying.fatal(0, NakCode::RemoteAccess)?;
    for psn in 1..20 {
        living.tx(&living.write(16).psn(psn))?;
    }
    living.ack(19)?;
    living.app.written(&pattern(1, 16))
}

fn effect_before_ack(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx_all(&[q.write(64).psn(0).quiet(), q.read(64).psn(1)])?;
    let came = q.next("a READ response")?;
    let came = if came.is_ack() { q.next("a READ response")? } else { came };
    let bytes = came.payload();
    check(bytes == pattern(1, 64), || format!("the READ does not see the WRITE: {came}"))
}

fn flush_on_error(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(4).open()?;
    q.tx(&q.write(16).rkey(0x0bad_0b00).psn(0))?;
    q.fatal(0, NakCode::RemoteAccess)?;
    (0..4).try_for_each(|index| q.app.completes(index, status::WR_FLUSH).map(drop))?;
    q.app.no_completion()
}

fn state_init(b: &Bench<'_>) -> Outcome {
    let q = b.rc().until(State::Init).open()?;
    q.tx(&q.write(16).psn(0))?;
    q.silence()?;
    others_live(b)?;
    q.app.untouched()
}

fn state_rtr(b: &Bench<'_>) -> Outcome {
    let q = b.rc().until(State::Rtr).open()?;
    q.tx(&q.send(16).psn(0))?;
    q.ack(0)?;
    q.app.received(0, 16)
}

fn state_reset(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.alive(0)?;
    q.app.modify(State::Reset)?;
    q.tx_all(&[q.write(16).psn(1), q.read(16).psn(2), q.write(16).psn(0)])?;
    q.silence()?;
    others_live(b)?;
    q.app.untouched()
}

fn state_err(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.app.modify(State::Err)?;
    q.tx_all(&[q.write(16).psn(0), q.read(16).psn(1)])?;
    q.silence()?;
    others_live(b)?;
    q.app.untouched()
}
