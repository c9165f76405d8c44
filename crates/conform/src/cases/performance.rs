//! Message rates and latencies. These cases run only if they are asked for; what they measure is told in a section of the
//! report.

use uroce_wire::Opcode;

use super::needs;
use super::sequence::needs_atomics;
use crate::case::cases;
use crate::performance::{Load, ROUND, Stream, measure};
use crate::{Bench, Outcome, Qp, Setup};

cases! {
    Must "rc.performance.send", "R43 R67", [], "Streams of small SENDs are acknowledged, and each completes its receive.", send;
    Must "rc.performance.write", "R43", [], "Streams of small WRITEs are acknowledged.", write;
    Must "rc.performance.read", "R47 R49", [], "Streams of small READs are answered.", read;
    Must "rc.performance.fetch-add", "R49", [], "Streams of fetch and adds are answered.", fetch_add;
    Must "rc.performance.write-32k", "R43", [], "Streams of WRITEs of 32 KiB are acknowledged.", write_long;
    Must "rc.performance.read-32k", "R47 R49", [], "Streams of READs of 32 KiB are answered.", read_long;
}

/// Bytes of a small message.
const SMALL: u32 = 16;
/// Bytes of a long message.
const LONG: u32 = 32 << 10;
/// Small SENDs and WRITEs on the way at a time.
const WINDOW: u32 = 16;
/// Long messages on the way at a time: more packets would not fit into the socket of a peer in userspace.
const LONG_WINDOW: u32 = 2;
/// Bytes of a receive.
const RECEIVE_BYTES: u32 = 64;

fn send(b: &Bench<'_>) -> Outcome {
    let q = b.rc().receives(ROUND).receive_bytes(RECEIVE_BYTES).open()?;
    let load = Load { operation: "SEND", bytes: SMALL, window: WINDOW, takes_receives: true };
    measure(b, load, Stream::of_messages(&q, vec![q.send(SMALL as usize)]))
}

fn write(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let load = Load { operation: "WRITE", bytes: SMALL, window: WINDOW, takes_receives: false };
    measure(b, load, Stream::of_messages(&q, vec![q.write(SMALL as usize)]))
}

fn write_long(b: &Bench<'_>) -> Outcome {
    let q = b.rc().open()?;
    let packets = q.message(Opcode::RC_WRITE_ONLY, LONG as usize, 0);
    let load = Load { operation: "WRITE", bytes: LONG, window: LONG_WINDOW, takes_receives: false };
    measure(b, load, Stream::of_messages(&q, packets))
}

/// A queue pair, and how many READs and atomics it answers at a time.
fn answering<'b, 'r>(b: &'b Bench<'r>) -> Result<(Setup<'b, 'r>, u32), crate::Stop> {
    let depth = b.card().max_dest_rd_atomic.min(b.card().max_rd_atomic).min(WINDOW as u8);
    needs(depth > 0, "it answers no READs and atomics")?;
    Ok((b.rc().depth(depth), depth.into()))
}

fn read(b: &Bench<'_>) -> Outcome {
    let (setup, window) = answering(b)?;
    reads(b, &setup.open()?, SMALL, window)
}

fn read_long(b: &Bench<'_>) -> Outcome {
    let (setup, window) = answering(b)?;
    reads(b, &setup.open()?, LONG, window.min(LONG_WINDOW))
}

fn reads(b: &Bench<'_>, q: &Qp<'_, '_>, bytes: u32, window: u32) -> Outcome {
    let responses = bytes.div_ceil(q.mtu() as u32);
    let load = Load { operation: "READ", bytes, window, takes_receives: false };
    measure(b, load, Stream::of_requests(q, q.read(bytes as usize), responses))
}

fn fetch_add(b: &Bench<'_>) -> Outcome {
    needs_atomics(b)?;
    let (setup, window) = answering(b)?;
    let q = setup.open()?;
    let load = Load { operation: "FETCH_ADD", bytes: 8, window, takes_receives: false };
    measure(b, load, Stream::of_requests(&q, q.fetch_add(1), 1))
}
