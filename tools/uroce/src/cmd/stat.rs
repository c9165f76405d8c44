//! `uroce stat`: the counters of all devices of all processes, as `rdma statistic show` has them.

use clap::Args;
use uroce_device::{DeviceReport, ResourceKind};

use crate::cmd::survey::Survey;
use crate::failure::Failure;
use crate::global::Global;
use crate::report::out;

/// What gives the counters to a program that cannot read them in sysfs.
const EXPORTER: &str = "\
Prometheus' node_exporter makes its system calls itself, so that it sees no counters of these devices in /sys, under `uroce run` \
neither. It reads files of its textfile collector; write one from time to time:

  uroce stat --prometheus > uroce.prom.new && mv uroce.prom.new /var/lib/prometheus/node-exporter/uroce.prom

Examples:
  uroce stat
  uroce stat --prometheus";

/// Options of `uroce stat`.
#[derive(Debug, Args)]
#[command(after_help = EXPORTER)]
pub struct StatArgs {
    /// Also the counters that are 0
    #[arg(short, long)]
    all: bool,
    /// Only the devices of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// All counters in the text format of Prometheus, one series for each device of each process
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

/// Lists the counters.
///
/// # Errors
/// Exit 3 when the system does not tell who is there, or the process that `--pid` names is of another user.
pub fn run(args: &StatArgs, global: &Global) -> Result<(), Failure> {
    let survey = Survey::take(global, args.pid)?;
    if args.prometheus {
        out(&metrics(&survey.reports));
    } else if global.json {
        survey.print_json("counters", ResourceKind::Counters);
    } else {
        survey.print_lines(ResourceKind::Counters, |value| args.all || value != "0");
    }
    survey.finish()
}

/// Samples of one name stand together, as the format asks.
fn metrics(reports: &[DeviceReport]) -> String {
    let mut metrics: Vec<(String, String)> = Vec::new();
    for report in reports {
        let device = report.resources.first().and_then(|about| about.get("name")).unwrap_or("-");
        let series = format!(
            "{{device=\"{}\",pid=\"{}\",comm=\"{}\"}}",
            label(device),
            report.pid,
            label(&report.comm)
        );
        let lists = report.resources.iter().filter(|list| list.kind() == ResourceKind::Counters);
        for (name, value) in lists.flat_map(|list| list.values()) {
            let Ok(value) = value.parse::<u64>() else { continue };
            let name = metric(name);
            let sample = format!("{name}{series} {value}\n");
            match metrics.iter_mut().find(|(known, _)| *known == name) {
                Some((_, samples)) => *samples += &sample,
                None => metrics.push((name, sample)),
            }
        }
    }
    let text = |(name, samples)| format!("# TYPE {name} counter\n{samples}");
    metrics.into_iter().map(text).collect()
}

/// A name has letters, digits and `_`.
fn metric(name: &str) -> String {
    let is_odd = |c: char| !c.is_ascii_alphanumeric();
    format!("uroce_{}_total", name.replace(is_odd, "_"))
}

/// A label is text, in which two signs mean something.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_name_stand_together() {
        let report = |pid, comm: &str| DeviceReport {
            pid,
            user: 0,
            comm: comm.to_owned(),
            resources: ["dev name uroce0", "counters sent_pkts 5 fault_a-b_matched 2 odd x"]
                .map(|line| line.parse().expect("an object"))
                .into(),
        };
        let wanted = r#"# TYPE uroce_sent_pkts_total counter
uroce_sent_pkts_total{device="uroce0",pid="7",comm="a"} 5
uroce_sent_pkts_total{device="uroce0",pid="8",comm="\"\\"} 5
# TYPE uroce_fault_a_b_matched_total counter
uroce_fault_a_b_matched_total{device="uroce0",pid="7",comm="a"} 2
uroce_fault_a_b_matched_total{device="uroce0",pid="8",comm="\"\\"} 2
"#;
        assert_eq!(metrics(&[report(7, "a"), report(8, "\"\\")]), wanted);
        assert_eq!(metrics(&[]), "");
    }
}
