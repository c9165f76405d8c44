//! Which charts are drawn from a record.

use crate::placement::Place;
use crate::plot::{Chart, Line};
use crate::record::{Record, Series};
use crate::summary::bytes;
use crate::{bandwidth, latency, loss};

/// File names and pictures; only charts of what was measured.
pub fn all(record: &Record) -> Vec<(String, String)> {
    let mut charts: Vec<(String, Chart)> = Vec::new();
    for (mtu, _) in bandwidth::WIRES {
        charts.push((format!("bandwidth-{mtu}.svg"), by_size(record, mtu)));
    }
    charts.push(("latency.svg".to_owned(), latencies(record)));
    charts.push(("loss.svg".to_owned(), losses(record)));
    let drawn = charts.into_iter().filter(|(_, chart)| !chart.lines.is_empty());
    drawn.map(|(name, chart)| (name, chart.svg())).collect()
}

/// The median of the placement with most runs.
fn median(series: &Series) -> Option<f64> {
    let summaries = [Place::Close, Place::Far, Place::Mixed].into_iter().rev();
    let most = summaries.filter_map(|place| series.summary(place)).max_by_key(|one| one.count)?;
    Some(most.median)
}

/// A line through the series that `name` gives for each x; `None` with fewer than two points.
fn line(
    record: &Record,
    group: &str,
    title: String,
    xs: impl Iterator<Item = f64>,
    name: impl Fn(f64) -> String,
) -> Option<Line> {
    let point = |x| Some((x, median(record.find(group, &name(x))?)?));
    let points: Vec<_> = xs.filter_map(point).collect();
    (points.len() > 1).then_some(Line { name: title, points })
}

/// The first words of the names of a group's series that are no baselines: the datapaths.
fn datapaths(record: &Record, group: &str) -> Vec<String> {
    let ours = record.series.iter().filter(|series| series.group == group);
    let ours =
        ours.filter(|series| !series.baselines.is_empty() && !series.name.starts_with("TCP"));
    let mut names: Vec<String> =
        ours.filter_map(|series| series.name.split(' ').next().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}

fn by_size(record: &Record, mtu: u32) -> Chart {
    let group = bandwidth::GROUP;
    let sizes = || bandwidth::SIZES.iter().map(|&size| size as f64);
    let mut lines = Vec::new();
    for datapath in datapaths(record, group) {
        for verb in ["write", "read", "send"] {
            let name = |x| bandwidth::name(&datapath, verb, x as u64, mtu);
            lines.extend(line(record, group, format!("{datapath} {verb}"), sizes(), name));
        }
    }
    if !lines.is_empty() {
        let baseline = bandwidth::baseline(mtu);
        lines.extend(line(record, group, baseline.clone(), sizes(), |_| baseline.clone()));
    }
    let marks = bandwidth::SIZES.iter().map(|&size| (size as f64, bytes(size))).collect();
    Chart { title: format!("bandwidth by message size, MTU {mtu}"), unit: "Gb/s", marks, lines }
}

fn latencies(record: &Record) -> Chart {
    let group = latency::GROUP;
    let sizes = || latency::SIZES.iter().map(|&size| size as f64);
    let mut lines = Vec::new();
    for datapath in datapaths(record, group) {
        for verb in ["write", "send", "read"] {
            let name = |x| latency::name(&datapath, verb, x as u64);
            lines.extend(line(record, group, format!("{datapath} {verb}"), sizes(), name));
        }
    }
    let spinning = |x| latency::spinning(x as u64);
    lines.extend(line(record, group, "TCP spinning".to_owned(), sizes(), spinning));
    let marks = latency::SIZES.iter().map(|&size| (size as f64, bytes(size))).collect();
    let title = "latency: half a round trip, READ all of it".to_owned();
    Chart { title, unit: "us", marks, lines }
}

fn losses(record: &Record) -> Chart {
    let group = loss::GROUP;
    // 0 has no place on a logarithmic axis.
    let percents =
        || loss::PERCENTS.iter().filter_map(|text| text.parse().ok()).filter(|p| *p > 0.0);
    let mut lines = Vec::new();
    for datapath in datapaths(record, group) {
        let name = |x: f64| loss::name(&datapath, &x.to_string());
        lines.extend(line(record, group, format!("{datapath} write 1 MiB"), percents(), name));
    }
    for congestion in loss::CONGESTION {
        let name = |x: f64| loss::baseline(congestion, &x.to_string());
        lines.extend(line(record, group, format!("TCP {congestion}, no TSO"), percents(), name));
    }
    let marks = percents().map(|percent: f64| (percent, format!("{percent} %"))).collect();
    let title = "bandwidth while single packets are lost".to_owned();
    Chart { title, unit: "Gb/s", marks, lines }
}
