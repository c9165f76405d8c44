//! What all devices and queue pairs had counted at one moment, and the rates between two such moments.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uroce_device::{DeviceReport, Resource, ResourceKind};

/// Queue pairs of all processes that are looked at; further ones are left out.
const MOST_QPS: usize = 100_000;

/// Which queue pair: process, device of it, number.
type QpKey = (u32, String, String);

/// Counters of a queue pair that rates are made of.
#[derive(Debug, Clone, Copy, Default)]
struct QpCounts {
    messages: u64,
    bytes: u64,
    retransmitted: u64,
    rnr: u64,
}

/// What the reports of one moment said.
#[derive(Debug)]
pub struct Sample {
    at: Instant,
    reports: Vec<DeviceReport>,
    /// The processes of devices that did not tell.
    silent: Vec<String>,
}

/// A device, and what it sends and receives per second.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    /// Name of the device.
    pub device: String,
    /// Its process.
    pub pid: u32,
    /// Name of the program.
    pub process: String,
    /// Packets sent and received per second.
    pub packets: [f64; 2],
    /// Bits sent and received per second, from BTH to ICRC.
    pub bits: [f64; 2],
}

/// A queue pair, and what happened to it per second.
#[derive(Debug, Clone, PartialEq)]
pub struct QpRow {
    /// Name of the program.
    pub process: String,
    /// Its process.
    pub pid: u32,
    /// Name of the device.
    pub device: String,
    /// Its number.
    pub qpn: String,
    /// Address and number at the other end; `-` if there is none.
    pub peer: String,
    /// RC, UC, UD, ...
    pub service: String,
    /// RTS, ERR, ...
    pub state: String,
    /// Messages completed per second, sent and received.
    pub messages: f64,
    /// Bits sent and received per second, from BTH to ICRC.
    pub bits: f64,
    /// Request packets sent again per second.
    pub retransmitted: f64,
    /// RNR NAKs received per second.
    pub rnr: f64,
    /// What ended it; `-` if nothing did.
    pub error: String,
}

/// A counter of all devices together that moved.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterRow {
    /// Its name in docs/counters.md.
    pub name: String,
    /// How much it rose per second.
    pub rate: f64,
}

/// What happened between two moments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// The devices.
    pub devices: Vec<DeviceRow>,
    /// The queue pairs.
    pub qps: Vec<QpRow>,
    /// The counters that moved, the fastest first.
    pub counters: Vec<CounterRow>,
    /// Devices that did not tell.
    pub silent: usize,
    /// Time between the two moments.
    pub time: Duration,
}

impl Sample {
    /// What `reports` said at that moment; a device of each of the processes `silent` said nothing.
    pub fn new(at: Instant, reports: Vec<DeviceReport>, silent: Vec<String>) -> Self {
        Sample { at, reports, silent }
    }

    /// What happened since `before`. What was not there then counts from its beginning; what was there and did not tell
    /// has no rate yet.
    pub fn rates_since(&self, before: &Sample) -> Rates {
        let time = self.at.saturating_duration_since(before.at);
        let seconds = time.as_secs_f64().max(1e-3);
        let devices = before.devices();
        let qps = before.qp_counts();
        let mut rates = Rates { silent: self.silent.len(), time, ..Rates::default() };
        let mut totals: HashMap<&str, u64> = HashMap::new();
        for report in &self.reports {
            let old = devices.get(&device_key(report)).copied();
            let first = old.is_none() && before.is_silent(report.pid);
            // What it counted while it was silent belongs to no interval.
            let old = if first { Some(report) } else { old };
            rates.devices.push(device_row(report, old, seconds));
            add_moved(report, old, &mut totals);
            let room = MOST_QPS.saturating_sub(rates.qps.len());
            let found = of_kind(report, ResourceKind::Qp).take(room);
            rates.qps.extend(found.map(|qp| {
                let old =
                    if first { Some(qp_counts(qp)) } else { qps.get(&qp_key(report, qp)).copied() };
                qp_row(report, qp, old.unwrap_or_default(), seconds)
            }));
        }
        rates.counters = counter_rows(&totals, seconds);
        rates
    }

    /// A device of this process did not tell.
    fn is_silent(&self, pid: u32) -> bool {
        self.silent.contains(&pid.to_string())
    }

    fn devices(&self) -> HashMap<(u32, &str), &DeviceReport> {
        self.reports.iter().map(|report| (device_key(report), report)).collect()
    }

    fn qp_counts(&self) -> HashMap<QpKey, QpCounts> {
        let all = self.reports.iter().flat_map(|report| {
            of_kind(report, ResourceKind::Qp).map(|qp| (qp_key(report, qp), qp_counts(qp)))
        });
        all.take(MOST_QPS).collect()
    }
}

fn of_kind(report: &DeviceReport, kind: ResourceKind) -> impl Iterator<Item = &Resource> {
    report.resources.iter().filter(move |resource| resource.kind() == kind)
}

/// A value of a device, which is the first of its resources.
fn about<'a>(report: &'a DeviceReport, name: &str) -> &'a str {
    report.resources.first().and_then(|device| device.get(name)).unwrap_or("-")
}

fn device_key(report: &DeviceReport) -> (u32, &str) {
    (report.pid, about(report, "name"))
}

fn qp_key(report: &DeviceReport, qp: &Resource) -> QpKey {
    let (pid, device) = device_key(report);
    (pid, device.to_owned(), qp.get("lqpn").unwrap_or("-").to_owned())
}

/// A number of another process: 0 if it is none.
fn number(resource: &Resource, name: &str) -> u64 {
    resource.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn qp_counts(qp: &Resource) -> QpCounts {
    QpCounts {
        messages: number(qp, "sent-msgs").saturating_add(number(qp, "rcvd-msgs")),
        bytes: number(qp, "sent-bytes").saturating_add(number(qp, "rcvd-bytes")),
        retransmitted: number(qp, "retransmitted-pkts"),
        rnr: number(qp, "rcvd-rnr"),
    }
}

/// How much a counter rose; nothing if it went back, as of another process with the number of one that ended.
fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

fn counter(report: &DeviceReport, name: &str) -> u64 {
    of_kind(report, ResourceKind::Counters).next().map_or(0, |counters| number(counters, name))
}

fn device_row(report: &DeviceReport, old: Option<&DeviceReport>, seconds: f64) -> DeviceRow {
    let of = |name| {
        let before = old.map_or(0, |old| counter(old, name));
        rate(counter(report, name), before, seconds)
    };
    DeviceRow {
        device: about(report, "name").to_owned(),
        pid: report.pid,
        process: report.comm.clone(),
        packets: ["sent_pkts", "rcvd_pkts"].map(of),
        bits: ["sent_bytes", "rcvd_bytes"].map(|name| 8.0 * of(name)),
    }
}

fn qp_row(report: &DeviceReport, qp: &Resource, old: QpCounts, seconds: f64) -> QpRow {
    let value = |name| qp.get(name).unwrap_or("-").to_owned();
    let now = qp_counts(qp);
    let peer = match (qp.get("peer"), qp.get("rqpn")) {
        (Some(peer), Some(qpn)) => format!("{peer} {qpn}"),
        (peer, _) => peer.unwrap_or("-").to_owned(),
    };
    QpRow {
        process: report.comm.clone(),
        pid: report.pid,
        device: about(report, "name").to_owned(),
        qpn: value("lqpn"),
        peer,
        service: value("type"),
        state: value("state"),
        messages: rate(now.messages, old.messages, seconds),
        bits: 8.0 * rate(now.bytes, old.bytes, seconds),
        retransmitted: rate(now.retransmitted, old.retransmitted, seconds),
        rnr: rate(now.rnr, old.rnr, seconds),
        error: value("error"),
    }
}

/// Adds how much each counter of a device rose.
fn add_moved<'a>(
    report: &'a DeviceReport,
    old: Option<&DeviceReport>,
    totals: &mut HashMap<&'a str, u64>,
) {
    let old: HashMap<&str, &str> = old
        .and_then(|old| of_kind(old, ResourceKind::Counters).next())
        .map(|counters| counters.values().collect())
        .unwrap_or_default();
    let now = of_kind(report, ResourceKind::Counters).next();
    for (name, value) in now.iter().flat_map(|counters| counters.values()) {
        let parse = |text: &str| text.parse::<u64>().unwrap_or(0);
        let moved = parse(value).saturating_sub(old.get(name).map_or(0, |old| parse(old)));
        if moved > 0 {
            let total = totals.entry(name).or_default();
            *total = total.saturating_add(moved);
        }
    }
}

fn counter_rows(totals: &HashMap<&str, u64>, seconds: f64) -> Vec<CounterRow> {
    let row = |(name, moved): (&&str, &u64)| CounterRow {
        name: (*name).to_owned(),
        rate: *moved as f64 / seconds,
    };
    let mut rows: Vec<CounterRow> = totals.iter().map(row).collect();
    rows.sort_by(|one, other| other.rate.total_cmp(&one.rate).then(one.name.cmp(&other.name)));
    rows
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A report of process 42, made of lines.
    pub fn report(lines: &str) -> DeviceReport {
        let resources = lines.lines().filter_map(|line| line.trim().parse().ok()).collect();
        DeviceReport { pid: 42, user: 0, comm: "ib_write_bw".to_owned(), resources }
    }

    pub const BEFORE: &str = "dev name uroce0\n\
        counters sent_pkts 100 rcvd_pkts 50 sent_bytes 1000 rcvd_bytes 0 drop_bad_icrc 0\n\
        qp lqpn 17 rqpn 18 peer 10.0.0.2 type RC state RTS sent-msgs 5 sent-bytes 1000";
    pub const AFTER: &str = "dev name uroce0\n\
        counters sent_pkts 300 rcvd_pkts 50 sent_bytes 251000 rcvd_bytes 0 drop_bad_icrc 6\n\
        qp lqpn 17 rqpn 18 peer 10.0.0.2 type RC state RTS sent-msgs 25 rcvd-msgs 2 \
        sent-bytes 251000 retransmitted-pkts 4 rcvd-rnr 2\n\
        qp lqpn 19 type UD state RTS";

    /// What happened between the two, in 2 s.
    pub fn rates(before: &str, after: &str) -> Rates {
        let start = Instant::now();
        let before = Sample::new(start, vec![report(before)], Vec::new());
        let silent = vec!["99".to_owned()];
        Sample::new(start + Duration::from_secs(2), vec![report(after)], silent)
            .rates_since(&before)
    }

    #[test]
    fn what_tells_again_after_a_silence_has_no_rate_yet() {
        let start = Instant::now();
        let later = start + Duration::from_secs(2);
        let silent = Sample::new(start, Vec::new(), vec!["42".to_owned()]);
        let rates = Sample::new(later, vec![report(AFTER)], Vec::new()).rates_since(&silent);
        assert_eq!((rates.devices[0].packets, rates.devices[0].bits), ([0.0; 2], [0.0; 2]));
        assert!(rates.qps.iter().all(|qp| qp.bits == 0.0 && qp.messages == 0.0), "{rates:?}");
        assert_eq!(rates.counters, []);
        let empty = Sample::new(start, Vec::new(), vec!["7".to_owned()]);
        let rates = Sample::new(later, vec![report(AFTER)], Vec::new()).rates_since(&empty);
        assert_eq!(
            rates.devices[0].packets,
            [150.0, 25.0],
            "a process that is new has all its life"
        );
    }

    #[test]
    fn rates_are_differences_over_time() {
        let rates = rates(BEFORE, AFTER);
        let device = &rates.devices[0];
        assert_eq!((device.packets, device.bits), ([100.0, 0.0], [1_000_000.0, 0.0]));
        let qp = &rates.qps[0];
        assert_eq!((qp.messages, qp.bits), (11.0, 1_000_000.0));
        assert_eq!((qp.retransmitted, qp.rnr), (2.0, 1.0));
        assert_eq!((qp.peer.as_str(), qp.service.as_str()), ("10.0.0.2 18", "RC"));
        assert_eq!((rates.qps[1].peer.as_str(), rates.qps[1].error.as_str()), ("-", "-"));
        let moved: Vec<_> = rates.counters.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(moved, ["sent_bytes", "sent_pkts", "drop_bad_icrc"]);
        assert_eq!((rates.silent, rates.time), (1, Duration::from_secs(2)));
    }

    #[test]
    fn counters_that_go_back_are_no_rates() {
        let rates = rates(AFTER, BEFORE);
        assert_eq!(rates.devices[0].packets, [0.0, 0.0]);
        assert_eq!((rates.qps[0].messages, rates.counters.len()), (0.0, 0));
    }

    proptest! {
        #[test]
        fn nonsense_of_other_processes_is_only_shown(
            words in proptest::collection::vec("(dev|counters|qp|lqpn|sent-msgs|sent_pkts|[0-9]{1,22}|-1|x)", 0..60),
            breaks in proptest::collection::vec(any::<bool>(), 60),
        ) {
            let text: String = words.iter().zip(&breaks)
                .map(|(word, line)| format!("{word}{}", if *line { "\n" } else { " " }))
                .collect();
            for (before, after) in [(BEFORE, text.as_str()), (text.as_str(), AFTER), (&text, &text)] {
                let rates = rates(before, after);
                prop_assert!(rates.qps.iter().all(|qp| qp.messages.is_finite() && qp.bits >= 0.0));
            }
        }
    }
}
