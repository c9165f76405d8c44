//! What a host must bear: scans, floods, packets cut short or too long. These cases run only if they are asked for.

use uroce_wire::{Mtu, NakCode, Opcode, Qpn};

use super::{check, others_live};
use crate::case::cases;
use crate::{Bench, Icrc, Outcome, Stop};

cases! {
    Must "rc.robustness.unknown-qpn", "R4 A8", [22], "Requests to 1000 queue pair numbers that nobody has draw nothing.", unknown_qpn;
    Must "rc.robustness.cut-short", "R10 B2 B3", [], "Requests of every opcode, cut at every length, change no memory and leave other queue pairs alone.", cut_short;
    Must "rc.robustness.too-long", "R24", [], "Packets longer than the path MTU draw an invalid request NAK or nothing, and change no memory.", too_long;
    Must "rc.robustness.damaged-flood", "R9", [], "A flood of packets with a wrong ICRC draws nothing, and the queue pair goes on.", damaged_flood;
    Must "rc.robustness.stranger-flood", "R8 A10", [], "A flood of forged requests and answers from another address draws nothing, and the queue pair goes on.", stranger_flood;
    Should "rc.robustness.duplicate-read-storm", "R62 A18", [59], "Many duplicates of a long READ draw a bounded number of packets, and other queue pairs go on.", duplicate_read_storm;
    Should "rc.robustness.duplicate-storm", "A9", [66], "Of many duplicates in a short time not every one is acknowledged.", duplicate_storm;
}

/// Packets of a flood.
const FLOOD: u32 = 5000;
/// Numbers that a scan asks for.
const SCANNED: u32 = 1000;
/// Duplicates of a READ.
const READS: usize = 2000;
/// Bytes of that READ.
const READ_BYTES: u32 = 256 << 10;

/// A number that follows from `index` and looks like any other.
fn scattered(index: u32) -> u32 {
    index.wrapping_add(1).wrapping_mul(0x9e37_79b1) >> 8
}

fn unknown_qpn(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let others = (0..SCANNED).map(scattered).filter(|qpn| *qpn > 1 && *qpn != q.qpn());
    let packets = others.map(|qpn| q.write(16).psn(0).bth(|bth| bth.dest_qpn = Qpn::new(qpn)));
    let came = q.flood("WRITEs to other queue pair numbers", packets)?;
    check(came == 0, || format!("expected silence, {came} packets came"))?;
    q.alive(0)?;
    q.app.untouched()
}

fn cut_short(b: &Bench<'_>) -> Outcome {
    for opcode in (0x00..=0x17).map(Opcode).filter(|one| !is_response(*one)) {
        let q = b.rc().open()?;
        let whole = q.exactly(opcode, 32).psn(0);
        let packets = (1..=64).map(|cut| whole.clone().cut(cut));
        q.flood(&format!("{opcode} cut short"), packets)?;
        q.app.untouched()?;
    }
    others_live(b)
}

fn is_response(opcode: Opcode) -> bool {
    opcode.info().is_none_or(|info| info.is_response())
}

fn too_long(b: &Bench<'_>) -> Outcome {
    for only in
        [Opcode::RC_SEND_ONLY, Opcode::RC_SEND_FIRST, Opcode::RC_WRITE_ONLY, Opcode::RC_WRITE_FIRST]
    {
        for length in [257, 260, 512, 1024, 1300] {
            let q = b.rc().mtu(Mtu::M256).open()?;
            q.tx(&q.exactly(only, length).psn(0))?;
            match q.within(b.patience().silence)? {
                None => q.app.no_completion()?,
                Some(came) if came.is_nak(NakCode::InvalidRequest) && came.psn == 0 => {}
                Some(came) => {
                    return super::unexpected("an invalid request NAK, or nothing", &came);
                }
            }
            q.app.untouched()?;
        }
    }
    others_live(b)
}

fn damaged_flood(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let packets = (0..FLOOD).map(|_| q.write(64).psn(0).icrc(Icrc::BitFlipped));
    let came = q.flood("WRITEs with a wrong ICRC", packets)?;
    check(came == 0, || format!("expected silence, {came} packets came"))?;
    q.alive(0)?;
    q.app.untouched()?;
    others_live(b)
}

fn stranger_flood(b: &Bench<'_>) -> Outcome {
    let q = super::headers::framed(b)?;
    let from = q.stranger();
    let forged = |index: u32| {
        let psn = 1 + (index / 4) as i32;
        match index % 4 {
            0 => q.write(16).psn(psn),
            1 => q.read(4096).psn(psn),
            2 => q.acks(psn - 1, 1),
            _ => q.naks(psn - 1, NakCode::RemoteAccess, 1),
        }
    };
    let frames = (0..FLOOD / 4).map(|index| q.frame_from(from, &forged(index)));
    let frames = frames.collect::<Result<Vec<_>, Stop>>()?;
    let came = q.flood_frames("forged by a stranger", frames.into_iter())?;
    check(came == 0, || format!("expected silence, {came} packets came"))?;
    q.alive(1)?;
    q.app.untouched()
}

fn duplicate_read_storm(b: &Bench<'_>) -> Outcome {
    let q = b.rc().region_bytes(READ_BYTES).open()?;
    let read = q.read(READ_BYTES as usize).psn(0);
    q.tx(&read)?;
    q.read_response(0, READ_BYTES as usize)?;
    let start = q.now();
    let came = q.flood("duplicates of a READ", (0..READS).map(|_| read.clone()))?;
    let time = q.now() - start;
    b.record(format!("{READS} duplicates of a READ of 256 KiB drew {came} packets in {time:?}"));
    let all = READS * READ_BYTES as usize / q.mtu();
    check(came < all / 10, || format!("{came} packets came of the {all} that were asked for"))?;
    others_live(b)?;
    q.alive((READ_BYTES as usize / q.mtu()) as i32).map(drop)
}

fn duplicate_storm(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    q.tx(&q.write(16).psn(0))?;
    q.ack(0)?;
    let duplicate = q.write(16).psn(0);
    let start = q.now();
    let came = q.flood("duplicates of a WRITE", (0..FLOOD).map(|_| duplicate.clone()))?;
    let time = q.now() - start;
    b.record(format!("{FLOOD} duplicates in {time:?} drew {came} ACKs"));
    check(came < FLOOD as usize * 9 / 10, || format!("{came} ACKs for {FLOOD} duplicates"))?;
    q.alive(1)?;
    others_live(b)
}
