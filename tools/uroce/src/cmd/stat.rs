//! `uroce stat`: the counters of all devices of all processes, as `rdma statistic show` has them.

use clap::Args;
use uroce_device::ResourceKind;

use crate::cmd::survey::Survey;
use crate::failure::Failure;
use crate::global::Global;

/// Options of `uroce stat`.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// Also the counters that are 0
    #[arg(short, long)]
    all: bool,
    /// Only the devices of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// Lists the counters.
///
/// # Errors
/// Exit 3 when the system does not tell who is there, or every process is of another user.
pub fn run(args: &StatArgs, global: &Global) -> Result<(), Failure> {
    let survey = Survey::take(global, args.pid)?;
    if global.json {
        survey.print_json("counters", ResourceKind::Counters);
    } else {
        survey.print_lines(ResourceKind::Counters, |value| args.all || value != "0");
    }
    survey.finish()
}
