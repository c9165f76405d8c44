//! What has to be reached, and whether it is.

use crate::counted::counted;
use crate::perftest::Test;
use crate::placement::Place;
use crate::record::{Record, Series};
use crate::summary::{Summary, bytes, shown};
use crate::{
    analyze, bandwidth, bare, connections, idle, latency, loopback, loss, programs, qps, rate, rxe,
};

/// A figure of the record.
#[derive(Debug)]
enum Figure {
    /// The ratio of two series of a group.
    Ratio { group: &'static str, ours: String, baseline: String },
    /// A series in its unit.
    Value { group: &'static str, name: String },
    /// Something else that the runs of a series told.
    Extra { group: &'static str, name: String, extra: &'static str },
}

/// Which side of the bound is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
}

/// One line of the table.
#[derive(Debug)]
struct Target {
    what: String,
    figure: Figure,
    bound: Bound,
    must: f64,
    aim: f64,
}

/// What the record says about a figure.
#[derive(Debug)]
struct Found {
    /// Our figure, that of the baseline and the baseline's best, as cells.
    measured: String,
    value: f64,
    place: Place,
    /// Whether the baseline was near its best meanwhile.
    counts: bool,
}

/// The table as Markdown: what nothing was measured for is shown as such, and so is what was measured beside a
/// slow baseline only.
pub fn table(record: &Record) -> String {
    let mut text = String::from(
        "| | measured | baseline | its best | ratio or figure | must | aim | | placement |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let counted = counted(record);
    for target in all() {
        let all = || Some(Found { counts: false, ..find(record, &target.figure)? });
        text += &line(&target, find(&counted, &target.figure).or_else(all));
    }
    text
}

fn line(target: &Target, found: Option<Found>) -> String {
    let sign = if target.bound == Bound::AtLeast { ">=" } else { "<=" };
    let bounds = format!("{sign} {} | {sign} {}", shown(target.must), shown(target.aim));
    match found {
        None => format!("| {} | not measured | | | | {bounds} | | |\n", target.what),
        Some(Found { measured, value, place, counts }) => format!(
            "| {} | {measured} | {} | {bounds} | {} | {} |\n",
            target.what,
            shown(value),
            if counts { verdict(target, value) } else { "does not count: slow baseline" },
            place.name()
        ),
    }
}

fn verdict(target: &Target, value: f64) -> &'static str {
    let reaches = |limit| match target.bound {
        Bound::AtLeast => value >= limit,
        Bound::AtMost => value <= limit,
    };
    match (reaches(target.must), reaches(target.aim)) {
        (_, true) => "aim reached",
        (true, false) => "met",
        (false, false) => "**not met**",
    }
}

/// The close placement if anything was measured there, else the next one.
fn find(record: &Record, figure: &Figure) -> Option<Found> {
    let places = [Place::Close, Place::Far, Place::Mixed];
    places.into_iter().find_map(|place| find_at(record, figure, place))
}

fn find_at(record: &Record, figure: &Figure, place: Place) -> Option<Found> {
    let with_unit = |series: &Series, summary: &Summary| {
        format!("{} {}", shown(summary.median), series.unit.name())
    };
    match figure {
        Figure::Ratio { group, ours, baseline } => {
            let (ours, baseline) = (record.find(group, ours)?, record.find(group, baseline)?);
            let value = ours.ratio(baseline, place)?.median;
            let (mine, theirs) = (ours.summary(place)?, baseline.summary(place)?);
            let best = record.best.of(&baseline.place_key(place)).map(shown).unwrap_or_default();
            let measured =
                format!("{} | {} | {best}", with_unit(ours, &mine), with_unit(baseline, &theirs));
            Some(Found { measured, value, place, counts: true })
        }
        Figure::Value { group, name } => {
            let series = record.find(group, name)?;
            let summary = series.summary(place)?;
            let measured = format!("{} | | ", with_unit(series, &summary));
            Some(Found { measured, value: summary.median, place, counts: true })
        }
        Figure::Extra { group, name, extra } => {
            let series = record.find(group, name)?;
            series.summary(place)?;
            let value = series.extra(extra)?;
            let measured = format!("{} | | ", shown(value));
            Some(Found { measured, value, place, counts: true })
        }
    }
}

fn at_least(what: impl Into<String>, figure: Figure, must: f64, aim: f64) -> Target {
    Target { what: what.into(), figure, bound: Bound::AtLeast, must, aim }
}

fn at_most(what: impl Into<String>, figure: Figure, must: f64, aim: f64) -> Target {
    Target { what: what.into(), figure, bound: Bound::AtMost, must, aim }
}

fn all() -> Vec<Target> {
    let mut all = bandwidths();
    all.extend(small_messages());
    all.extend(in_process());
    all.extend(losses());
    all.extend(against_rxe());
    all.extend(connection_rates());
    all.extend(c_interface());
    all.extend(costs());
    all.extend(captures());
    all
}

const KIB_64: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

fn bandwidths() -> Vec<Target> {
    let mut all = Vec::new();
    for (datapath, large) in [("udp", [0.95, 1.0]), ("packet", [1.1, 1.15])] {
        let aim = if datapath == "udp" { 1.1 } else { 1.25 };
        for ((mtu, path_mtu), must) in bandwidth::WIRES.into_iter().zip(large) {
            let of = |verb, size| bandwidth::name(datapath, verb, size, mtu);
            let ratio = |ours, baseline| Figure::Ratio { group: bandwidth::GROUP, ours, baseline };
            let wire = format!("{datapath}, path MTU {path_mtu}");
            let tcp = || bandwidth::baseline(mtu);
            let large = ratio(of("write", MIB), tcp());
            all.push(at_least(format!("WRITE 1 MiB, {wire} / TCP"), large, must, aim));
            let small = ratio(of("write", KIB_64), tcp());
            all.push(at_least(format!("WRITE 64 KiB, {wire} / TCP"), small, 0.85, 1.0));
            for (verb, shown) in [("read", "READ"), ("send", "SEND")] {
                let what = format!("{shown} 1 MiB, {wire} / WRITE");
                all.push(at_least(what, ratio(of(verb, MIB), of("write", MIB)), 0.95, 1.0));
            }
        }
    }
    all.extend(shares());
    all
}

/// The main figures: how much of the bare loop each datapath reaches.
fn shares() -> Vec<Target> {
    let mut all = Vec::new();
    for datapath in ["udp", "packet", "xdp", "uring"] {
        let wires = if datapath == "xdp" { &bandwidth::WIRES[..1] } else { &bandwidth::WIRES[..] };
        for &(mtu, path_mtu) in wires {
            for size in [KIB_64, MIB] {
                let share = Figure::Ratio {
                    group: bandwidth::GROUP,
                    ours: bandwidth::name(datapath, "write", size, mtu),
                    baseline: bare::bulk_name(datapath, mtu),
                };
                let what =
                    format!("WRITE {}, {datapath}, path MTU {path_mtu} / bare loop", bytes(size));
                all.push(at_least(what, share, 0.85, 0.95));
            }
        }
    }
    all
}

fn small_messages() -> Vec<Target> {
    let half = |datapath: &str, baseline| Figure::Ratio {
        group: latency::GROUP,
        ours: latency::name(datapath, "write", 8),
        baseline,
    };
    let list = rate::LISTS[0];
    let name = || rate::name("udp", "send", list, 1);
    let ratio = |baseline| Figure::Ratio { group: rate::GROUP, ours: name(), baseline };
    let million = Figure::Value { group: rate::GROUP, name: name() };
    let bare = |datapath| half(datapath, bare::latency_name(datapath));
    vec![
        at_most("WRITE 8 B half round trip, udp / bare loop", bare("udp"), 1.15, 1.05),
        at_most("WRITE 8 B half round trip, xdp / bare rings", bare("xdp"), 1.25, 1.1),
        at_most(
            "WRITE 8 B half round trip, udp / TCP spinning",
            half("udp", latency::spinning(8)),
            1.0,
            0.8,
        ),
        at_most(
            "WRITE 8 B half round trip, xdp / TCP spinning",
            half("xdp", latency::spinning(8)),
            0.5,
            0.4,
        ),
        at_least("SEND 64 B in lists of 32, udp, million/s", million, 5.5, 8.0),
        at_least(
            "SEND 64 B in lists of 32, udp / bare loop",
            ratio(bare::rate_name("udp", list)),
            0.85,
            0.95,
        ),
        at_least(
            "SEND 64 B in lists of 32, udp / plain UDP",
            ratio(rate::BASELINE.to_owned()),
            8.0,
            8.0,
        ),
    ]
}

fn in_process() -> Vec<Target> {
    let ratio = Figure::Ratio {
        group: loopback::GROUP,
        ours: loopback::bandwidth_name(MIB),
        baseline: loopback::BASELINE.to_owned(),
    };
    let half = Figure::Value { group: loopback::GROUP, name: loopback::LATENCY.to_owned() };
    vec![
        at_least("WRITE 1 MiB in one process / TCP over lo", ratio, 2.0, 4.0),
        at_most("WRITE 8 B half round trip in one process, us", half, 1.0, 1.0),
    ]
}

fn losses() -> Vec<Target> {
    let share = |percent| Figure::Ratio {
        group: loss::GROUP,
        ours: loss::name("udp", percent),
        baseline: loss::name("udp", "0"),
    };
    vec![
        at_least("WRITE 1 MiB with 0.1 % lost / without", share("0.1"), 0.9, 0.98),
        at_least("WRITE 1 MiB with 1 % lost / without", share("1"), 0.85, 0.95),
        at_least("WRITE 1 MiB with 3 % lost / without", share("3"), 0.6, 0.8),
    ]
}

fn against_rxe() -> [Target; 2] {
    let ratio = |test: &Test| Figure::Ratio {
        group: rxe::GROUP,
        ours: rxe::our_name(test),
        baseline: rxe::baseline(test),
    };
    let (bandwidth, latency) = (ratio(&rxe::BANDWIDTH), ratio(&rxe::LATENCY));
    [
        at_least("WRITE 64 KiB / rxe in the same guest", bandwidth, 3.0, 6.0),
        at_most("SEND 64 B half round trip / rxe in the same guest", latency, 0.5, 0.3),
    ]
}

fn connection_rates() -> [Target; 2] {
    let group = connections::GROUP;
    let ratio = Figure::Ratio {
        group,
        ours: connections::IN_GUEST.to_owned(),
        baseline: connections::BASELINE.to_owned(),
    };
    let rate = Figure::Value { group, name: connections::OVER_VETH.to_owned() };
    [
        at_least("connections of rdma_cm a second", rate, 1000.0, 5000.0),
        at_least("connections of rdma_cm / rxe in the same guest", ratio, 1.0, 2.0),
    ]
}

fn c_interface() -> [Target; 3] {
    let ratio = |test: &Test| Figure::Ratio {
        group: programs::GROUP,
        ours: programs::program(test),
        baseline: programs::baseline(test),
    };
    let start = Figure::Value { group: programs::GROUP, name: programs::START.to_owned() };
    let title = |test: &Test| format!("{} / the same with uroce perf", programs::program(test));
    [
        at_least(title(&programs::WRITE), ratio(&programs::WRITE), 0.95, 1.0),
        at_least(title(&programs::SEND), ratio(&programs::SEND), 0.95, 1.0),
        at_most("ibv_devinfo on our library, from start to end, us", start, 20_000.0, 10_000.0),
    ]
}

/// The most queue pairs that are measured.
const MANY: u32 = 10_000;

fn costs() -> Vec<Target> {
    let idle = Figure::Value { group: idle::GROUP, name: idle::name("udp") };
    let calls = Figure::Extra {
        group: bandwidth::GROUP,
        name: bandwidth::name("udp", "write", MIB, 1500),
        extra: "syscalls_per_packet",
    };
    let throughput = Figure::Ratio {
        group: qps::GROUP,
        ours: qps::name("udp", MANY),
        baseline: qps::name("udp", 1),
    };
    let memory = Figure::Value { group: qps::GROUP, name: qps::memory(MANY) };
    vec![
        at_least("throughput on 10,000 queue pairs / on one, udp", throughput, 0.8, 0.95),
        at_most("memory for each of 10,000 idle queue pairs, KiB", memory, 8.0, 4.0),
        at_most("open device without traffic, % of a processor", idle, 1.0, 1.0),
        at_most("system calls per packet, both ends, WRITE 1 MiB, udp", calls, 0.5, 0.1),
    ]
}

fn captures() -> [Target; 2] {
    let rate = Figure::Value { group: analyze::GROUP, name: analyze::OURS.to_owned() };
    let ratio = Figure::Ratio {
        group: analyze::GROUP,
        ours: analyze::OURS.to_owned(),
        baseline: analyze::BASELINE.to_owned(),
    };
    [
        at_least("uroce analyze, million packets a second of one processor", rate, 1.5, 2.0),
        at_least("uroce analyze / tshark -T fields", ratio, 20.0, 50.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Reading, Run, Unit};

    #[test]
    fn a_bound_may_be_an_upper_one() {
        let figure = || Figure::Value { group: "g", name: String::new() };
        let low = at_most("x", figure(), 1.0, 0.5);
        assert_eq!(
            [0.4, 0.9, 1.1].map(|value| verdict(&low, value)),
            ["aim reached", "met", "**not met**"]
        );
        let high = at_least("x", figure(), 1.0, 2.0);
        assert_eq!(
            [0.4, 1.1, 2.0].map(|value| verdict(&high, value)),
            ["**not met**", "met", "aim reached"]
        );
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let text = table(&Record::new());
        assert!(text.lines().skip(2).all(|line| line.contains("not measured")), "{text}");
        let columns = |line: &str| line.matches('|').count();
        assert!(text.lines().all(|line| columns(line) == 10), "{text}");
    }

    #[test]
    fn a_figure_beside_a_slow_baseline_does_not_count() {
        let named = |name: String, baselines: &[String], value| Series {
            group: bandwidth::GROUP.to_owned(),
            name,
            unit: Unit::Gbps,
            baselines: baselines.to_vec(),
            runs: vec![Run {
                round: 0,
                before_ns: 90.0,
                after_ns: 90.0,
                reading: Reading::new(value),
            }],
        };
        let (ours, tcp) = (bandwidth::name("udp", "write", MIB, 1500), bandwidth::baseline(1500));
        let mut record = Record::new();
        record.series = vec![
            named(ours.clone(), std::slice::from_ref(&tcp), 1.0),
            named(tcp.clone(), &[], 40.0),
        ];
        record.learn();
        let verdict = |record: &Record| {
            let table = table(record);
            let line = table
                .lines()
                .find(|line| line.starts_with("| WRITE 1 MiB, udp, path MTU 1024 / TCP"));
            line.expect("a line").to_owned()
        };
        record.series = vec![
            named(ours.clone(), std::slice::from_ref(&tcp), 39.0),
            named(tcp.clone(), &[], 10.0),
        ];
        assert!(verdict(&record).contains("does not count"), "{}", verdict(&record));
        record.series[1] = named(tcp, &[], 39.0);
        assert!(
            verdict(&record).contains("| 40.0 | 1.00 |") && verdict(&record).contains("| met |")
        );
    }
}
