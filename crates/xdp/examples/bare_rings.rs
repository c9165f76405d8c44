//! What AF_XDP carries at best between two ends: a yardstick for `uroce perf --datapath xdp`.
//!
//! ```text
//! bare_rings recv ADDRESS PEER [BYTES [SECONDS]]    counts what arrives
//! bare_rings send ADDRESS PEER [BYTES [SECONDS]]    sends as fast as the ring takes packets
//! bare_rings pong ADDRESS PEER [BYTES [SECONDS]]    answers each packet
//! bare_rings ping ADDRESS PEER [BYTES [SECONDS]]    measures half the round trip
//! ```
//!
//! ADDRESS is this end's, PEER the other's; BYTES (default 1024) is the payload of each UDP packet.
//! Start `recv` or `pong` first, in another network namespace or on another host; both ends run for
//! SECONDS (default 2). One line of JSON says what was measured.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use uroce_xdp::{BareEnd, XdpConfig};

/// The UDP port of RoCEv2.
const PORT: u16 = 4791;

/// Packets between two looks at the clock.
const BURST: usize = 64;

struct Arguments {
    role: String,
    local: SocketAddr,
    peer: SocketAddr,
    bytes: usize,
    time: Duration,
}

fn arguments() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let role = words.next()?;
    let mut address = || Some(SocketAddr::new(words.next()?.parse::<IpAddr>().ok()?, PORT));
    let (local, peer) = (address()?, address()?);
    let bytes = words.next().map_or(Some(1024), |word| word.parse().ok())?;
    let seconds = words.next().map_or(Some(2), |word| word.parse().ok())?;
    Some(Arguments { role, local, peer, bytes, time: Duration::from_secs(seconds) })
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        println!("usage: bare_rings recv|send|pong|ping ADDRESS PEER [BYTES [SECONDS]]");
        return ExitCode::SUCCESS;
    };
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bare_rings: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<String, Box<dyn std::error::Error>> {
    let Arguments { role, local, peer, bytes, time } = arguments;
    let mut end = BareEnd::open(&XdpConfig::new(*local), *peer, *bytes)?;
    match role.as_str() {
        "recv" => {
            let counted = count(&mut end, *time);
            Ok(rate(&end, counted))
        }
        "send" => {
            let sent = flood(&mut end, *time)?;
            Ok(rate(&end, sent))
        }
        "pong" => {
            answer(&mut end, *time)?;
            Ok(r#"{"role":"pong"}"#.to_owned())
        }
        "ping" => half_round_trips(&mut end, *time),
        other => Err(format!("there is no role {other}: choose recv, send, pong or ping").into()),
    }
}

/// Packets that arrive from the first on, and how long that took.
fn count(end: &mut BareEnd, time: Duration) -> (usize, Duration) {
    let give_up = Instant::now() + time + Duration::from_secs(2);
    while end.receive(1) == 0 && Instant::now() < give_up {
        std::hint::spin_loop();
    }
    let (start, mut last, mut packets) = (Instant::now(), Instant::now(), 0);
    while start.elapsed() < time {
        let got = end.receive(BURST);
        if got > 0 {
            packets += got;
            last = Instant::now();
        }
    }
    (packets, last - start)
}

/// Packets that the ring took.
fn flood(end: &mut BareEnd, time: Duration) -> std::io::Result<(usize, Duration)> {
    let (start, mut packets) = (Instant::now(), 0);
    while start.elapsed() < time {
        packets += end.send(BURST)?;
    }
    Ok((packets, start.elapsed()))
}

fn answer(end: &mut BareEnd, time: Duration) -> std::io::Result<()> {
    let until = Instant::now() + time + Duration::from_secs(2);
    while Instant::now() < until {
        let got = end.receive(BURST);
        if got > 0 {
            end.send(got)?;
        }
    }
    Ok(())
}

/// The median and the 99th percentile of half a round trip, in microseconds.
fn half_round_trips(
    end: &mut BareEnd,
    time: Duration,
) -> Result<String, Box<dyn std::error::Error>> {
    let (start, mut trips) = (Instant::now(), Vec::with_capacity(1 << 20));
    while start.elapsed() < time {
        let sent = Instant::now();
        end.send(1)?;
        while end.receive(1) == 0 {
            if sent.elapsed() > Duration::from_secs(1) {
                return Err("the peer does not answer: start `pong` there first".into());
            }
            std::hint::spin_loop();
        }
        trips.push(sent.elapsed().as_nanos() as f64 / 2000.0);
    }
    trips.sort_by(f64::total_cmp);
    let at = |share: f64| trips[((trips.len() - 1) as f64 * share) as usize];
    let (median, p99, count) = (at(0.5), at(0.99), trips.len());
    Ok(format!(r#"{{"role":"ping","count":{count},"median_us":{median:.2},"p99_us":{p99:.2}}}"#))
}

fn rate(end: &BareEnd, (packets, time): (usize, Duration)) -> String {
    let seconds = time.as_secs_f64().max(1e-9);
    let bytes = end.frame_bytes();
    let gbps = (packets * bytes * 8) as f64 / seconds / 1e9;
    let mpps = packets as f64 / seconds / 1e6;
    format!(
        r#"{{"packets":{packets},"frame_bytes":{bytes},"seconds":{seconds:.3},"gbps":{gbps:.3},"mpps":{mpps:.4}}}"#
    )
}
