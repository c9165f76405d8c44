//! Bare loops: the system calls of a datapath with ICRC and the two copies of a payload, and no protocol.
//!
//! They are the ceiling of that datapath on this machine. Both ends are threads of this process, each in
//! the network namespace of its end, so that the receiver can tell the sender what has arrived without a
//! packet: by a counter that both see.

mod packet;
mod rings;
mod udp;
mod wire;

use uroce_testbed::error::{Error, Result};

use self::packet::PacketSocket;
use self::udp::UdpSocket;
use self::wire::PacketTrain;
use crate::interleave::Benchmark;
use crate::link::Link;
use crate::record::{Reading, Unit};

/// The datapaths that have a loop of sockets; AF_XDP has one of rings ([`rings`]).
const SOCKETS: [&str; 2] = ["udp", "packet"];
/// Packets that Linux has taken as one since 6.9 (UDP_MAX_SEGMENTS is 128), but for a few: 64 before.
const MOST_SEGMENTS: usize = 120;
/// Seconds of one run.
const SECONDS: f64 = 0.7;

/// The bare loop that a datapath is held against: `uring` has no better one than `udp`.
fn kind(datapath: &str) -> &str {
    if datapath == "uring" { "udp" } else { datapath }
}

/// The name of the series of 1 MiB and 64 KiB transfers for a datapath.
pub fn bulk_name(datapath: &str, mtu: u32) -> String {
    format!("bare {} MTU {mtu}", kind(datapath))
}

/// The name of the series of 64-byte messages, `list` in a system call.
pub fn rate_name(datapath: &str, list: usize) -> String {
    format!("bare {} x {list}", kind(datapath))
}

/// The name of the series of half round trips.
pub fn latency_name(datapath: &str) -> String {
    format!("bare {} 8 B", kind(datapath))
}

/// The loops that `datapaths` are held against, each once.
fn kinds(datapaths: &[String]) -> Vec<&str> {
    let mut kinds: Vec<_> = datapaths.iter().map(|datapath| kind(datapath)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Streams of packets with `path_mtu` bytes of payload.
///
/// # Errors
/// A program does not compile.
pub fn bulk<'a>(
    datapaths: &[String],
    link: &'a Link,
    (mtu, path_mtu): (u32, u32),
) -> Result<Vec<Benchmark<'a>>> {
    let mut all = Vec::new();
    for kind in kinds(datapaths) {
        let name = bulk_name(kind, mtu);
        if SOCKETS.contains(&kind) {
            let kind = kind.to_owned();
            all.push(Benchmark::new(name, Unit::Gbps, &[], move || {
                stream(&kind, link, &PacketTrain::largest(path_mtu as usize))
            }));
        } else {
            let program = rings::build()?.display().to_string();
            all.push(Benchmark::new(name, Unit::Gbps, &[], move || {
                rings::bandwidth(link, &program, path_mtu)
            }));
        }
    }
    Ok(all)
}

/// Streams of small messages, `list` in a system call, or as many as the kernel takes: million messages a second.
pub fn rate<'a>(
    datapaths: &[String],
    link: &'a Link,
    size: usize,
    list: usize,
) -> Vec<Benchmark<'a>> {
    let kinds = kinds(datapaths).into_iter().filter(|kind| SOCKETS.contains(kind));
    kinds
        .map(|kind| {
            let (name, kind) = (rate_name(kind, list), kind.to_owned());
            Benchmark::new(name, Unit::Mmps, &[], move || {
                let batch = PacketTrain { payload: size, packets: list.min(MOST_SEGMENTS) };
                let gbps = stream(&kind, link, &batch)?;
                let value = gbps.value * 1000.0 / 8.0 / size as f64;
                Ok(Reading { value, ..gbps })
            })
        })
        .collect()
}

/// Half round trips of 8-byte messages in microseconds.
///
/// # Errors
/// A program does not compile.
pub fn latency<'a>(datapaths: &[String], link: &'a Link, count: u32) -> Result<Vec<Benchmark<'a>>> {
    let mut all = Vec::new();
    for kind in kinds(datapaths) {
        let name = latency_name(kind);
        if SOCKETS.contains(&kind) {
            let kind = kind.to_owned();
            all.push(Benchmark::new(name, Unit::Us, &[], move || ping(&kind, link, count)));
        } else {
            let program = rings::build()?.display().to_string();
            all.push(Benchmark::new(name, Unit::Us, &[], move || rings::latency(link, &program)));
        }
    }
    Ok(all)
}

fn stream(kind: &str, link: &Link, batch: &PacketTrain) -> Result<Reading> {
    match kind {
        "udp" => wire::stream::<UdpSocket>(link, batch, SECONDS),
        "packet" => wire::stream::<PacketSocket>(link, batch, SECONDS),
        other => Err(Error::new(format!("no bare loop for {other}"))),
    }
}

fn ping(kind: &str, link: &Link, count: u32) -> Result<Reading> {
    match kind {
        "udp" => wire::ping::<UdpSocket>(link, count),
        "packet" => wire::ping::<PacketSocket>(link, count),
        other => Err(Error::new(format!("no bare loop for {other}"))),
    }
}
