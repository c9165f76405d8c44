//! `uroce doctor`: what of this host helps or hinders RoCE, a line each, with the command that
//! repairs it.

mod buffers;
mod finding;
mod firewall;
mod kernel;
mod link;
mod peer;
mod port;
mod privilege;
mod runtime_folder;
mod subject;
mod trains;

use std::net::IpAddr;

use clap::Args;
use finding::{Finding, State};
use privilege::Capabilities;
use serde_json::json;
use subject::Subject;
use uroce_service::{serves, socket_path};
use uroce_verbs::{Context, DatapathChoice};

use crate::failure::Failure;
use crate::global::Global;
use crate::report::{json, out};

/// Arguments of `uroce doctor`. It needs no privilege, and says what it cannot see without one.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also look at the way to this host; a few packets to its discard port find out
    #[arg(long, value_name = "IP")]
    peer: Option<IpAddr>,
    /// Only what is not as it should be
    #[arg(short, long)]
    quiet: bool,
}

/// Examines this host.
///
/// # Errors
/// Exit 1 when there is a problem, exit 3 when there is no such device.
pub fn run(args: &DoctorArgs, global: &Global) -> Result<(), Failure> {
    let subject = Subject::find(global, args.peer)?;
    let mut findings = examine(&subject, &global.datapath());
    findings.push(datapath(&subject, global));
    let problems = findings.iter().filter(|finding| finding.state == State::Problem).count();
    if args.quiet {
        findings.retain(|finding| finding.state != State::Ok);
    }
    if global.json {
        print_json(&subject, &findings, problems);
    } else {
        findings.iter().for_each(|finding| out(&format!("{finding}\n")));
    }
    match problems {
        0 => Ok(()),
        1 => Err(Failure::test("there is 1 problem")
            .help("the command behind -> repairs it, or shows more of it")),
        many => Err(Failure::test(format!("there are {many} problems"))
            .help("the commands behind -> repair them or show more; begin with the first")),
    }
}

/// All checks, the most basic first.
fn examine(subject: &Subject, datapath: &DatapathChoice) -> Vec<Finding> {
    let unlimited = buffers::are_unlimited();
    let mut findings = kernel::examine();
    findings.extend(privilege::examine(Capabilities::here(), unlimited));
    findings.push(runtime_folder::examine());
    findings.extend(link::examine(subject));
    findings.extend(buffers::examine(unlimited));
    findings.extend(port::examine(subject));
    findings.push(firewall::examine(subject));
    findings.push(trains::examine(subject));
    if let Some(peer) = subject.peer {
        findings.extend(peer::examine(subject, peer, datapath));
    }
    findings
}

/// What a device would be opened on now, and why. A service is asked for the datapath itself: it may serve others, and not
/// this user. Else the port is one of its own, so that a running device is not disturbed.
fn datapath(subject: &Subject, global: &Global) -> Finding {
    let local = (subject.address, subject.port).into();
    let auto = matches!(global.datapath(), DatapathChoice::Auto | DatapathChoice::Served);
    let served = serves(&socket_path(), local).filter(|_| auto);
    let (port, choice) = match served {
        Some(_) => (subject.port, DatapathChoice::Served),
        None => (0, global.datapath()),
    };
    let opened = Context::builder()
        .address(subject.address)
        .port(port)
        .datapath(choice)
        .progress_thread(false)
        .open();
    match (opened, served) {
        (Ok(_), Some(inner)) => {
            let text =
                format!("served: the service that serves this address has the datapath {inner}");
            Finding::ok("datapath", text)
        }
        (Ok(context), None) => Finding::ok("datapath", context.datapath_choice_note()),
        (Err(error), Some(_)) => Finding::problem("datapath", error),
        (Err(error), None) => without_it(&global.datapath(), Finding::problem("datapath", error)),
    }
}

/// Where a datapath was named, the default one may do. The default itself fails by what other checks have found.
fn without_it(choice: &DatapathChoice, finding: Finding) -> Finding {
    match choice {
        DatapathChoice::Auto | DatapathChoice::Udp => finding,
        _ => finding.repair("uroce doctor --datapath auto"),
    }
}

fn print_json(subject: &Subject, findings: &[Finding], problems: usize) {
    json::print(&json!({
        "version": json::VERSION,
        "address": subject.address.to_string(),
        "netdev": subject.netdev(),
        "peer": subject.peer.map(|peer| peer.to_string()),
        "checks": findings,
        "problems": problems,
    }));
}
