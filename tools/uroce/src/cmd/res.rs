//! `uroce res`: what all processes have open, as `rdma resource show` tells it of the kernel's devices.

use clap::{Args, ValueEnum};
use serde_json::json;
use uroce_device::{DeviceReport, ResourceKind};

use crate::cmd::survey::Survey;
use crate::failure::Failure;
use crate::global::Global;
use crate::report::{json, out};

/// Options of `uroce res`.
#[derive(Debug, Args)]
pub struct ResArgs {
    /// Only these objects, one line each [default: a line for each device, with counts]
    #[arg(value_enum)]
    kind: Option<ObjectKind>,
    /// Only the devices of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// The words of `rdma resource show`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum ObjectKind {
    /// Queue pairs
    Qp,
    /// Completion queues
    Cq,
    /// Memory regions
    Mr,
    /// Protection domains
    Pd,
    /// Shared receive queues
    Srq,
    /// Connections and listeners
    CmId,
}

impl ObjectKind {
    fn resource(self) -> ResourceKind {
        match self {
            ObjectKind::Qp => ResourceKind::Qp,
            ObjectKind::Cq => ResourceKind::Cq,
            ObjectKind::Mr => ResourceKind::Mr,
            ObjectKind::Pd => ResourceKind::Pd,
            ObjectKind::Srq => ResourceKind::Srq,
            ObjectKind::CmId => ResourceKind::CmId,
        }
    }
}

/// Lists the objects.
///
/// # Errors
/// Exit 3 when the system does not tell who is there, or the process that `--pid` names is of another user.
pub fn run(args: &ResArgs, global: &Global) -> Result<(), Failure> {
    let survey = Survey::take(global, args.pid)?;
    match args.kind.map(ObjectKind::resource) {
        Some(kind) if global.json => survey.print_json(kind.name(), kind),
        Some(kind) => survey.print_lines(kind, |_| true),
        None if global.json => {
            let devices: Vec<_> = survey.reports.iter().map(counts_as_json).collect();
            json::print(&json!({ "version": json::VERSION, "devices": devices }));
        }
        None => survey.reports.iter().enumerate().for_each(|(index, report)| {
            out(&format!("{index}: {}\n", counts(report)));
        }),
    }
    survey.finish()
}

fn count(report: &DeviceReport, kind: ObjectKind) -> usize {
    report.resources.iter().filter(|found| found.kind() == kind.resource()).count()
}

/// `uroce0: qp 2 cq 1 ...`
fn counts(report: &DeviceReport) -> String {
    let device = &report.resources[0];
    let value = |name| device.get(name).unwrap_or("-");
    let mut line = format!("{}:", value("name"));
    for kind in ObjectKind::value_variants() {
        line += &format!(" {} {}", kind.resource().name(), count(report, *kind));
    }
    for name in ["address", "netdev", "datapath"] {
        line += &format!(" {name} {}", value(name));
    }
    line + &format!(" pid {} comm {}", report.pid, report.comm)
}

fn counts_as_json(report: &DeviceReport) -> serde_json::Value {
    let mut object = super::survey::as_json(report, &report.resources[0]);
    for kind in ObjectKind::value_variants() {
        object[kind.resource().name()] = count(report, *kind).into();
    }
    object
}
