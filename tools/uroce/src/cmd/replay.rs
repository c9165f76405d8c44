//! `uroce replay`: recorded requests, answered again.

mod args;
mod peer;

pub use args::ReplayArgs;
use peer::{Peer, PlayStop};
use serde::Serialize;
use uroce_analyze::DissectorConfig;
use uroce_replay::{Device, Recorder, Recording, ReplayError, Report, Side, Verdict, play};

use crate::failure::{Exit, Failure};
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::report::{json, out};
use crate::source;

/// A conversation that could not be played.
#[derive(Debug, Serialize)]
struct NotPlayed {
    responder: String,
    reason: String,
}

/// What all conversations gave.
#[derive(Debug, Serialize)]
struct Outcome {
    version: u32,
    /// Seed of the faults between the recording and the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault_seed: Option<u64>,
    verdict: Option<Verdict>,
    replays: Vec<Report>,
    not_played: Vec<NotPlayed>,
}

/// Plays the conversations of a capture to queue pairs of this process.
///
/// # Errors
/// Exit 1 if an answer differs; exit 2 if a conversation cannot be played, or the capture is damaged, after what
/// could be played was told; exit 3 if the file cannot be read; exit 4
/// if the agent of `--to` is missing or gone.
pub fn run(args: &ReplayArgs, global: &Global) -> Result<(), Failure> {
    if global.pcap.as_ref().is_some_and(|pcap| source::is_same(&args.source, pcap)) {
        let what = format!("the recording would replace {}", args.source);
        return Err(Failure::usage(what).help("name another file with --pcap"));
    }
    let (recordings, end) = read(args, global)?;
    let chosen = choose(recordings, args)?;
    let mut player = player(args, global)?;
    let fault_seed = global.faults.as_ref().map(|faults| faults.seed());
    let (version, verdict) = (json::VERSION, None);
    let mut outcome = Outcome { version, fault_seed, verdict, replays: vec![], not_played: vec![] };
    global.faults.iter().for_each(crate::faults::tell_seed);
    for recording in chosen {
        let responder = name(&recording.responder);
        match player.play(recording, args)? {
            Ok(report) => outcome.replays.push(report),
            Err(reason) => outcome.not_played.push(NotPlayed { responder, reason }),
        }
    }
    let differs = outcome.replays.iter().any(|report| report.verdict == Verdict::Differs);
    outcome.verdict = match (differs, outcome.replays.is_empty()) {
        (true, _) => Some(Verdict::Differs),
        (false, false) => Some(Verdict::Same),
        (false, true) => None,
    };
    show(&outcome, args, global);
    judge(&outcome, end)
}

/// The conversations of the capture, and what ended it early.
fn read(
    args: &ReplayArgs,
    global: &Global,
) -> Result<(Vec<Recording>, Result<(), Failure>), Failure> {
    let mut capture = source::open(&args.source, &Interrupt::install())?;
    let mut recorder = Recorder::new(DissectorConfig { port: global.roce_port() }, args.limits());
    let end = loop {
        match capture.next_frame() {
            Ok(Some(frame)) => recorder.handle_frame(&frame),
            Ok(None) => break Ok(()),
            Err(broken) => break Err(broken.failure),
        }
    };
    let packets = recorder.packets();
    let recordings = recorder.finish();
    if recordings.is_empty() {
        end.map_err(not_a_difference)?;
        let what = format!("{}: no reliable connection in {packets} packets", args.source);
        return Err(Failure::usage(what)
            .help("requests of RC are played; `uroce analyze` tells what the capture has"));
    }
    Ok((recordings, end))
}

fn choose(recordings: Vec<Recording>, args: &ReplayArgs) -> Result<Vec<Recording>, Failure> {
    let is_chosen = |recording: &Recording| {
        (args.qp.is_empty() || args.qp.iter().any(|qpn| recording.has_qpn(*qpn)))
            && (args.host.is_empty() || args.host.iter().any(|host| recording.has_host(*host)))
    };
    let names: Vec<_> = recordings.iter().map(|recording| name(&recording.responder)).collect();
    let chosen: Vec<_> = recordings.into_iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(Failure::usage("no conversation is chosen")
            .help(format!("the capture has requests to {}", names.join(", "))));
    }
    Ok(chosen)
}

/// What answers the requests of now.
enum Player {
    Device(Device),
    Peer(Box<Peer>),
}

impl Player {
    /// Plays one conversation; the inner error says why it cannot be played.
    fn play(
        &mut self,
        recording: Recording,
        args: &ReplayArgs,
    ) -> Result<Result<Report, String>, Failure> {
        let played = match self {
            Self::Device(device) => play(recording, device, &args.limits(), &args.options()),
            Self::Peer(peer) => match peer.play(recording, args) {
                Err(PlayStop::Lost(failure)) => return Err(failure),
                Err(PlayStop::Refused(reason)) => return Ok(Err(reason)),
                Err(PlayStop::NotPlayable(error)) => Err(error),
                Ok(report) => Ok(report),
            },
        };
        Ok(played.map_err(|error| reason(&error)))
    }
}

fn player(args: &ReplayArgs, global: &Global) -> Result<Player, Failure> {
    let Some(to) = &args.to else { return Ok(Player::Device(device(args, global))) };
    if global.faults.is_some() {
        return Err(Failure::usage("--fault acts on the device of this process, not on --to")
            .help("`uroce fault proxy` puts rules between two machines"));
    }
    Peer::open(to, args, global).map(|peer| Player::Peer(Box::new(peer)))
}

fn device(args: &ReplayArgs, global: &Global) -> Device {
    Device {
        drops_behind_gap: args.drop_behind_gap,
        skips_lost: args.skip_lost,
        faults: global.faults.as_ref().map(|faults| (faults.plan().clone(), faults.seed())),
    }
}

fn name(side: &Side) -> String {
    match side.qpn {
        Some(qpn) => format!("{} QP {:#x}", side.address, qpn.get()),
        None => side.address.to_string(),
    }
}

fn reason(error: &ReplayError) -> String {
    let help = match error {
        ReplayError::TooMuchMemory { .. } => "; --memory raises it",
        ReplayError::TooManyAnswers { .. } => "; --packets raises it",
        _ => "",
    };
    format!("{error}{help}")
}

fn show(outcome: &Outcome, args: &ReplayArgs, global: &Global) {
    if global.json {
        json::print(outcome);
        return;
    }
    for report in &outcome.replays {
        out(&report.to_text(args.only_differences));
    }
    for not_played in &outcome.not_played {
        eprintln!("not played: {}: {}", not_played.responder, not_played.reason);
    }
}

/// Exit 1 says that an answer differs: damage of the file has another status.
fn not_a_difference(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Failed => Failure { exit: Exit::Usage, ..failure },
        _ => failure,
    }
}

fn judge(outcome: &Outcome, end: Result<(), Failure>) -> Result<(), Failure> {
    let end = end.map_err(not_a_difference);
    if outcome.verdict == Some(Verdict::Differs) {
        if let Err(damage) = end {
            damage.print();
        }
        return Err(Failure::test("the answers of now differ from those in the capture")
            .help("docs/replay.md says what a capture cannot tell; --skip-lost if packets were lost behind it"));
    }
    end?;
    let (failed, played) = (outcome.not_played.len(), outcome.replays.len());
    match failed {
        0 => Ok(()),
        _ => {
            Err(Failure::usage(format!("{failed} of {} conversations not played", failed + played)))
        }
    }
}
