//! `uroce pingpong`: the exchange of `ibv_{rc,uc,ud,srq}_pingpong`, in either role, against the
//! stock programs or ourselves.

mod args;
mod end;
mod play;

use std::time::Duration;

pub use args::PingpongArgs;
use args::PingpongKind;
use end::PingpongEnd;
use play::Played;
use serde_json::json;
use uroce_exchange::pingpong::Destination;
use uroce_verbs::Context;

use crate::channel::Channel;
use crate::failure::{Exit, Failure};
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic::Nics;
use crate::report::{json, out};
use crate::stop::Stop;

/// How long the device still answers after a run, for a peer whose last acknowledgement was lost:
/// some local ACK timeouts of 67 ms.
const STAY: Duration = Duration::from_millis(300);

/// Runs one end.
///
/// # Errors
/// See the exit codes.
pub fn run(args: &PingpongArgs, global: &Global) -> Result<(), Failure> {
    args.check()?;
    let interrupt = Interrupt::install();
    let nics = Nics::towards_peers(global)?;
    let (context, channel) = meet(args, &nics, &interrupt)?;
    let mut end = PingpongEnd::new(&context, args)?;
    show_local(&end, args, global);
    end.exchange(&channel)?;
    show_remote(&end, global);
    let (ended, played) = play::run(&end, &channel, &interrupt);
    let ended = ended.map_err(|stop| other_kind(stop, &context));
    let partial = ended.is_err();
    let done = conclude(ended, &played, &interrupt);
    if played.completions() > 0 {
        show_result(args, &played, &end, global, (partial, done.as_ref().err()));
    }
    channel.linger();
    std::thread::sleep(STAY);
    done
}

fn meet(
    args: &PingpongArgs,
    nics: &Nics,
    interrupt: &Interrupt,
) -> Result<(Context, Channel), Failure> {
    // A named device is opened first, so that one that is missing is told at once.
    let named = nics.open_named_now()?;
    if let Some(host) = &args.host {
        let channel = Channel::connect(host, args.port, interrupt)?;
        let context = nics.or_towards(named, channel.peer())?;
        return Ok((context, channel));
    }
    let server = Channel::listen(args.port)?;
    eprintln!("waiting for a client on TCP port {}", args.port);
    let channel = server.accept(interrupt)?;
    let context = match named {
        Some(context) => context,
        None => nics.open_on(channel.local()?)?,
    };
    Ok((context, channel))
}

fn line(which: &str, to: &Destination, separator: char) -> String {
    let which = format!("{which} address:");
    format!(
        "  {which:<15} LID {:#06x}, QPN {:#08x}, PSN {:#08x}{separator} GID {}\n",
        to.lid, to.qpn, to.psn, to.gid
    )
}

fn show_local(end: &PingpongEnd, args: &PingpongArgs, global: &Global) {
    // One character of the stock program for datagrams differs, and scripts may know it.
    let separator = if args.kind == PingpongKind::Ud { ':' } else { ',' };
    if !global.json {
        end.local.iter().for_each(|to| out(&line("local", to, separator)));
    }
}

fn show_remote(end: &PingpongEnd, global: &Global) {
    if !global.json {
        end.remote.iter().for_each(|to| out(&line("remote", to, ',')));
    }
}

fn show_result(
    args: &PingpongArgs,
    played: &Played,
    end: &PingpongEnd,
    global: &Global,
    (partial, failure): (bool, Option<&Failure>),
) {
    let seconds = played.elapsed.as_secs_f64().max(1e-9);
    // Several queue pairs may have gone beyond what was asked for.
    let done = played.completions();
    let iters = if partial { done / 2 } else { args.iters };
    let bytes = if partial { done } else { iters * 2 } * args.message() as u64;
    let rate = bytes as f64 * 8.0 / seconds / 1e6;
    let each = (iters > 0).then(|| seconds * 1e6 / iters as f64);
    let times = &played.times;
    let figures = (times.min(), times.percentile(50.0), times.percentile(99.0), times.max());
    let (min, median, p99, max) = figures;
    if global.json {
        let mut report = json!({
            "version": json::VERSION,
            "test": "pingpong",
            "local": end.local.iter().map(|to| to.gid.to_string()).next(),
            "remote": end.remote.iter().map(|to| to.gid.to_string()).next(),
            "bytes": bytes,
            "iterations": iters,
            "seconds": seconds,
            "mbit_per_second": rate,
            "usec_per_iteration": each,
            "partial": partial,
        });
        if args.ts {
            // The keys of `perf`.
            report["t_min"] = min.into();
            report["t_typical"] = median.into();
            report["t_99"] = p99.into();
            report["t_max"] = max.into();
        }
        json::print_with(&report, failure);
        return;
    }
    out(&format!("{bytes} bytes in {seconds:.2} seconds = {rate:.2} Mbit/sec\n"));
    let each = each.map_or_else(String::new, |each| format!(" = {each:.2} usec/iter"));
    out(&format!("{iters} iters in {seconds:.2} seconds{each}\n"));
    if args.ts {
        out(&format!("usec/iter: min {min:.2}, median {median:.2}, 99% {p99:.2}, max {max:.2}\n"));
    }
}

/// A peer of another kind is silent, but what it sent was dropped here for that very reason.
fn other_kind(stop: Stop, context: &Context) -> Stop {
    match context.counter("drop_service_mismatch") {
        Some(1..) if !matches!(stop, Stop::Interrupted) => {
            let failure = Failure::peer("the peer runs another kind of pingpong than this end");
            failure.help("give both ends the same one: rc, uc, ud or srq").into()
        }
        _ => stop,
    }
}

/// A peer of another kind also drops what comes from here, and then nothing comes back.
fn nothing_came(failure: Failure, played: &Played) -> Failure {
    if failure.exit != Exit::Peer || failure.help.is_some() || played.received > 0 {
        return failure;
    }
    failure.help(
        "does the other end run the same kind of pingpong, rc, uc, ud or srq? \
         If so, `uroce doctor --peer ADDRESS` looks at the way to it",
    )
}

fn conclude(
    ended: Result<(), Stop>,
    played: &Played,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    match ended {
        Ok(()) => Ok(()),
        Err(_) if interrupt.is_set() && played.completions() > 0 => Ok(()),
        Err(_) if interrupt.is_set() => Err(Failure::interrupted()),
        Err(Stop::Interrupted) => Err(Failure::interrupted()),
        Err(Stop::PeerDone) => Err(Failure::peer("the peer sent something after its records")
            .help("run the same kind of pingpong at both ends")),
        Err(Stop::Failed(failure)) => Err(nothing_came(failure, played)),
    }
}

#[cfg(test)]
mod tests {
    use uroce_device::wire::Gid;

    use super::*;

    #[test]
    fn lines_as_the_stock_program_prints_them() {
        let to = Destination {
            lid: 0,
            qpn: 0x11,
            psn: 0xdc826b,
            gid: Gid::from_ip([10, 77, 0, 2].into()),
        };
        assert_eq!(
            line("local", &to, ','),
            "  local address:  LID 0x0000, QPN 0x000011, PSN 0xdc826b, GID ::ffff:10.77.0.2\n"
        );
        assert_eq!(
            line("remote", &to, ','),
            "  remote address: LID 0x0000, QPN 0x000011, PSN 0xdc826b, GID ::ffff:10.77.0.2\n"
        );
    }
}
