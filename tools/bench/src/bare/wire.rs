//! The loops themselves, over sockets of any kind.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use uroce_testbed::error::{Error, Result};

use crate::link::{Link, LinkEnd};
use crate::placement::{stay_on, two_processors};
use crate::record::Reading;

/// Bytes of a BTH, in front of the payload.
const BTH: usize = 12;
/// Bytes of an ICRC, behind it.
const ICRC: usize = 4;
/// Bytes of payload on their way: more do not make it faster, and fewer do.
const WINDOW: u64 = 256 << 10;
/// A receiver that got nothing for so long has lost what was on its way.
const LOST: Duration = Duration::from_millis(5);
/// Bytes of the memory that is sent, and of the memory that is written to.
const MEMORY: usize = 128 << 10;
/// What the kernel takes as one.
const LARGEST_TRAIN: usize = 65_000;
/// Packets that the kernel takes as one: UDP_MAX_SEGMENTS of older kernels.
const MOST_PACKETS: usize = 60;
/// Round trips that are not counted.
const WARM_UP: u32 = 500;
/// A peer that is silent for so long has failed.
const SILENCE: Duration = Duration::from_secs(2);

/// One end of a wire for datagrams of equal length, several in one system call.
pub trait BareSocket: Sized {
    /// Opens it, in a thread that is in the namespace of `end`; each datagram will have `segment` bytes.
    ///
    /// # Errors
    /// The kernel refuses.
    fn open(link: &Link, end: LinkEnd, segment: usize) -> Result<Self>;

    /// Where to build datagrams of `bytes` bytes in all, one behind the other.
    ///
    /// # Errors
    /// They are too long for one system call.
    fn room(&mut self, bytes: usize) -> Result<&mut [u8]>;

    /// Sends what was built there; false when the kernel had no room for it.
    ///
    /// # Errors
    /// The kernel refuses.
    fn send(&mut self) -> Result<bool>;

    /// Hands what is there to `sink`, datagram by datagram.
    ///
    /// # Errors
    /// The socket is unusable.
    fn receive(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// What is sent with one system call.
#[derive(Debug, Clone, Copy)]
pub struct PacketTrain {
    /// Bytes of payload in a packet.
    pub payload: usize,
    /// Packets.
    pub packets: usize,
}

impl PacketTrain {
    /// As many packets as the kernel takes.
    pub fn largest(payload: usize) -> Self {
        Self { payload, packets: (LARGEST_TRAIN / (payload + BTH + ICRC)).min(MOST_PACKETS) }
    }

    fn segment(&self) -> usize {
        self.payload + BTH + ICRC
    }
}

/// What the two ends tell each other past the wire.
struct LoopState {
    ready: Barrier,
    arrived: AtomicU64,
    over: AtomicBool,
}

impl LoopState {
    fn new() -> Self {
        Self { ready: Barrier::new(2), arrived: AtomicU64::new(0), over: AtomicBool::new(false) }
    }

    /// Opens a socket; neither end goes on if the other one has none.
    fn open<S: BareSocket>(&self, link: &Link, end: LinkEnd, segment: usize) -> Result<S> {
        let socket = link.enter(end).and_then(|()| S::open(link, end, segment));
        if socket.is_err() {
            self.over.store(true, Ordering::Release);
        }
        self.ready.wait();
        match self.over.load(Ordering::Acquire) && socket.is_ok() {
            true => Err(Error::new("the other end of the bare loop has no socket")),
            false => socket,
        }
    }
}

/// Gigabits of payload a second from the near end to the far one, with the processor time of both.
///
/// # Errors
/// The kernel refuses the sockets, or nothing arrives.
pub fn stream<S: BareSocket>(link: &Link, batch: &PacketTrain, seconds: f64) -> Result<Reading> {
    let state = LoopState::new();
    let (sent, received) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send::<S>(link, batch, &state));
        let receiver = scope.spawn(|| receive::<S>(link, batch, &state, seconds));
        (sender.join(), receiver.join())
    });
    let failed = |_| Error::new("an end of the bare loop failed");
    let sender_cpu = sent.map_err(failed)??;
    let StreamOutcome { bytes, time, cpu } = received.map_err(failed)??;
    let (seconds, cpu) = (time.as_secs_f64(), (sender_cpu + cpu).as_secs_f64());
    Ok(Reading::new(bytes as f64 * 8.0 / seconds / 1e9)
        .with("cpu_s_per_gb", cpu / (bytes as f64 / 1e9))
        .with("cpu_s_per_s", cpu / seconds))
}

/// Copies payloads out of memory, adds their ICRC and sends, until the receiver has enough; its processor time.
fn send<S: BareSocket>(link: &Link, batch: &PacketTrain, state: &LoopState) -> Result<Duration> {
    let mut socket: S = state.open(link, LinkEnd::Near, batch.segment())?;
    let memory = vec![7; MEMORY];
    let (mut sent, mut seen, mut since) = (0_u64, 0, Instant::now());
    let (mut from, mut psn) = (0, 0_u32);
    let begun = thread_time();
    while !state.over.load(Ordering::Acquire) {
        let arrived = state.arrived.load(Ordering::Acquire);
        if arrived != seen {
            (seen, since) = (arrived, Instant::now());
        }
        // What was given up as lost may arrive all the same.
        if sent.saturating_sub(arrived) >= WINDOW {
            if since.elapsed() > LOST {
                sent = arrived;
            }
            std::hint::spin_loop();
            continue;
        }
        let train = socket.room(batch.segment() * batch.packets)?;
        for packet in train.chunks_exact_mut(batch.segment()) {
            from = if from + batch.payload > MEMORY { 0 } else { from };
            build(packet, psn, &memory[from..from + batch.payload]);
            (from, psn) = (from + batch.payload, psn.wrapping_add(1));
        }
        while !socket.send()? && !state.over.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        sent += (batch.payload * batch.packets) as u64;
    }
    Ok(thread_time().saturating_sub(begun))
}

/// A packet with everything that costs time: a PSN, the payload and a CRC of all.
fn build(packet: &mut [u8], psn: u32, payload: &[u8]) {
    let (covered, icrc) = packet.split_at_mut(BTH + payload.len());
    covered[8..BTH].copy_from_slice(&psn.to_be_bytes());
    covered[BTH..].copy_from_slice(payload);
    icrc.copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
}

/// The payload of a packet whose CRC is right.
fn check(packet: &[u8]) -> Option<&[u8]> {
    let (covered, icrc) = packet.split_last_chunk::<ICRC>()?;
    let right = crc32fast::hash(covered).to_le_bytes() == *icrc;
    right.then(|| covered.get(BTH..)).flatten()
}

/// What has arrived, from the first packet to the last.
struct StreamOutcome {
    bytes: u64,
    time: Duration,
    cpu: Duration,
}

/// Checks packets and copies their payloads into memory, for so many seconds from the first one on.
fn receive<S: BareSocket>(
    link: &Link,
    batch: &PacketTrain,
    state: &LoopState,
    seconds: f64,
) -> Result<StreamOutcome> {
    let socket: Result<S> = state.open(link, LinkEnd::Far, batch.segment());
    let outcome = socket.and_then(|mut socket| collect(&mut socket, state, seconds));
    // Also after an error: the sender waits for this.
    state.over.store(true, Ordering::Release);
    outcome
}

fn collect<S: BareSocket>(
    socket: &mut S,
    state: &LoopState,
    seconds: f64,
) -> Result<StreamOutcome> {
    let (mut memory, mut to, mut bytes) = (vec![0_u8; MEMORY], 0, 0_u64);
    let (waiting, begun) = (Instant::now(), thread_time());
    let (mut first, mut last) = (None, waiting);
    while first.is_none_or(|first: Instant| first.elapsed().as_secs_f64() < seconds) {
        let before = bytes;
        socket.receive(&mut |packet| {
            if let Some(payload) = check(packet) {
                to = if to + payload.len() > MEMORY { 0 } else { to };
                memory[to..to + payload.len()].copy_from_slice(payload);
                to += payload.len();
                bytes += payload.len() as u64;
            }
        })?;
        if bytes > before {
            last = Instant::now();
            first.get_or_insert(last);
            state.arrived.store(bytes, Ordering::Release);
        } else if last.elapsed() > SILENCE {
            return Err(Error::new("nothing arrives in the bare loop"));
        }
    }
    std::hint::black_box(&memory);
    let time = last - first.unwrap_or(waiting);
    Ok(StreamOutcome { bytes, time, cpu: thread_time().saturating_sub(begun) })
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Bytes of a WRITE of 8 bytes with all its headers, in UDP.
const SMALL: usize = 8 + 16;

/// Half the median round trip of a packet with 8 bytes, in microseconds.
///
/// # Errors
/// The kernel refuses the sockets, or the other end is silent.
pub fn ping<S: BareSocket>(link: &Link, count: u32) -> Result<Reading> {
    let state = LoopState::new();
    let (asked, answered) = std::thread::scope(|scope| {
        let asker = scope.spawn(|| ask::<S>(link, &state, count));
        let answerer = scope.spawn(|| answer::<S>(link, &state));
        (asker.join(), answerer.join())
    });
    let failed = |_| Error::new("an end of the bare loop failed");
    answered.map_err(failed)??;
    Ok(Reading::new(asked.map_err(failed)??))
}

fn ask<S: BareSocket>(link: &Link, state: &LoopState, count: u32) -> Result<f64> {
    stay_on(two_processors().map(|both| both[0]));
    let socket: Result<S> = state.open(link, LinkEnd::Near, SMALL + BTH + ICRC);
    let outcome = socket.and_then(|mut socket| trips(&mut socket, count));
    state.over.store(true, Ordering::Release);
    outcome
}

fn trips<S: BareSocket>(socket: &mut S, count: u32) -> Result<f64> {
    let mut samples = Vec::with_capacity(count as usize);
    for psn in 0..WARM_UP + count {
        let from = Instant::now();
        build(socket.room(SMALL + BTH + ICRC)?, psn, &[7; SMALL]);
        while !socket.send()? {
            std::hint::spin_loop();
        }
        let mut back = false;
        while !back {
            socket.receive(&mut |packet| back |= check(packet).is_some())?;
            if from.elapsed() > SILENCE {
                return Err(Error::new("the bare loop gets no answer"));
            }
        }
        if psn >= WARM_UP {
            samples.push(from.elapsed());
        }
    }
    samples.sort();
    let median = samples.get(samples.len() / 2).ok_or_else(|| Error::new("nothing to measure"))?;
    Ok(median.as_secs_f64() * 1e6 / 2.0)
}

fn answer<S: BareSocket>(link: &Link, state: &LoopState) -> Result<()> {
    stay_on(two_processors().map(|both| both[1]));
    let mut socket: S = state.open(link, LinkEnd::Far, SMALL + BTH + ICRC)?;
    while !state.over.load(Ordering::Acquire) {
        let mut asked = 0;
        socket.receive(&mut |packet| asked += u32::from(check(packet).is_some()))?;
        for psn in 0..asked {
            build(socket.room(SMALL + BTH + ICRC)?, psn, &[7; SMALL]);
            socket.send()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_packet_has_no_payload() {
        let mut packet = [0; 5 + BTH + ICRC];
        build(&mut packet, 3, b"bytes");
        assert_eq!(check(&packet), Some(&b"bytes"[..]));
        packet[BTH] ^= 1;
        assert_eq!(check(&packet), None);
        assert_eq!(check(&packet[..3]), None);
    }

    #[test]
    fn the_largest_train_fits_into_one_system_call() {
        let shapes = [64, 1024, 4096].map(PacketTrain::largest);
        assert_eq!(shapes.map(|batch| batch.packets), [60, 60, 15]);
        assert!(shapes.iter().all(|batch| batch.segment() * batch.packets <= 65_507));
    }
}
