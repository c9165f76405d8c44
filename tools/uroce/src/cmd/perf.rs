//! `uroce perf`: the tests of perftest, in either role, against perftest or ourselves.

mod args;
mod buffers;
mod local;
mod output;
mod pingpong;
mod plan;
mod receiver;
mod requester;
mod script;
mod session;
mod side_by_side;
mod verify;

pub use args::PerfArgs;
use output::{Form, Output};
use plan::Plan;
use session::PerfSession;
use uroce_verbs::Context;

use crate::channel::{Channel, resolve};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic::{self, Nics};
use crate::stop::Stop;

/// Runs one end, or with `--local` both.
///
/// # Errors
/// See the exit codes.
pub fn run(args: &PerfArgs, global: &Global) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    let interrupt = Interrupt::install();
    let form = if global.json || args.out_json { Form::Json } else { Form::Table };
    if let Some(how) = args.local {
        let nics = Nics::new(global, local::datapath(how, global)?)?;
        return local::run(&plan, &nics, form, &interrupt);
    }
    let nics = Nics::towards_peers(global)?;
    match &args.host {
        Some(host) => {
            // A named device is opened first, so that one that is missing is told at once.
            let named = nics.open_named_now()?;
            fits_link(&plan, named.as_ref(), host)?;
            let channel = Channel::connect(host, args.port, &interrupt)?;
            let context = nics.or_towards(named, channel.peer())?;
            one_end(context, channel, plan, form, &interrupt)
        }
        None => serve(plan, &nics, form, &interrupt),
    }
}

/// A datagram that is too long for the link is refused before the server hears of it.
fn fits_link(plan: &Plan, named: Option<&Context>, host: &str) -> Result<(), Failure> {
    if !plan.is_ud() || plan.args.size.is_none() {
        return Ok(());
    }
    let mtu = match named {
        Some(context) => Some(context.query_port().active_mtu),
        // Which of the addresses will answer is not known yet.
        None => {
            let all = resolve(host, plan.args.port)?;
            all.iter().filter_map(|address| nic::mtu_towards(address.ip())).max()
        }
    };
    mtu.map_or(Ok(()), |mtu| plan.clone().limit_to(mtu))
}

fn serve(plan: Plan, nics: &Nics, form: Form, interrupt: &Interrupt) -> Result<(), Failure> {
    // A named device is opened first, so that a busy port is told at once; else the client decides.
    let named = nics.open_named_now()?;
    let server = Channel::listen(plan.args.port)?;
    Output::new(form).waiting();
    let channel = server.accept(interrupt)?;
    let context = match named {
        Some(context) => context,
        None => nics.open_on(channel.local()?)?,
    };
    one_end(context, channel, plan, form, interrupt)
}

/// Runs the test on an open device and a connected channel.
fn one_end(
    context: Context,
    channel: Channel,
    plan: Plan,
    form: Form,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let session = PerfSession::open(context, channel, plan, interrupt)?;
    let mut output = Output::new(form);
    output.start(&session);
    let ended = script::run(&session, &mut output);
    let measured = output.has_results();
    let (verified, partial) = (*ended.as_ref().unwrap_or(&None), ended.is_err());
    let done = conclude(ended, measured, interrupt, &session);
    output.finish(&session, verified, partial, done.as_ref().err());
    log_counters(&session.context);
    if verified == Some(true) {
        eprintln!("{}", verify::sentence(session.plan.args.verb));
    }
    session.channel.linger();
    done
}

fn conclude(
    ended: Result<Option<bool>, Stop>,
    measured: bool,
    interrupt: &Interrupt,
    session: &PerfSession,
) -> Result<(), Failure> {
    match ended {
        Ok(Some(false)) => {
            Err(Failure::test("the bytes that arrived are not those that were sent")
                .help("record the traffic with --pcap and look at the packets in Wireshark"))
        }
        Ok(Some(true) | None) => Ok(()),
        Err(_) if interrupt.is_set() && measured => Ok(()),
        Err(_) if interrupt.is_set() => Err(Failure::interrupted()),
        Err(Stop::Interrupted) => Err(Failure::interrupted()),
        Err(Stop::PeerDone) => {
            Err(Failure::peer("the peer ended its part of the run before ours was over")
                .help("give both ends the same test, -n, -s, -a and -D"))
        }
        Err(Stop::Failed(failure)) => Err(explain(failure, session)),
    }
}

/// Adds what the datapath knows, such as an MTU that is too small.
fn explain(failure: Failure, session: &PerfSession) -> Failure {
    match session.context.datapath_problem() {
        Some(problem) if failure.help.is_none() => failure.help(problem),
        _ => failure,
    }
}

fn log_counters(context: &Context) {
    for (name, value) in context.counters() {
        if value != 0 {
            tracing::debug!("{} {name} {value}", context.name());
        }
    }
}
