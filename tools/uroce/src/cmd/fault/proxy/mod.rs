//! `uroce fault proxy`: rules between two hosts that know nothing of it.

mod envelope;
mod relay;

use crate::cli::Global;
use crate::failure::Failure;
use crate::faults;
use crate::interrupt::Interrupt;
use crate::report::json;
use clap::Args;
use relay::{Relay, Side, Wire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uroce_device::datapath::{
    Direction, FaultCounters, FaultTally, FramePort, FramePortError, FrameReceiver, FrameSender,
    Offload, PcapWriter,
};
use uroce_device::fault::Plan;
use uroce_verbs::PcapFile;

/// How long it sleeps before it looks whether the user wants to stop.
const NAP: Duration = Duration::from_millis(200);

const EXAMPLE: &str = "\
Example, on a third machine with one cable to each of the two hosts (docs/faults.md):
  sudo uroce fault proxy --bridge eth1 eth2 --fault 'tx op=write -> drop skip=2 count=1' --pcap proxy.pcapng";

/// Arguments of `uroce fault proxy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ProxyArgs {
    /// The two interfaces between which all frames pass; to the rules, tx is from IF1 to IF2
    #[arg(long, num_args = 2, value_names = ["IF1", "IF2"], required = true)]
    bridge: Vec<String>,
}

/// Carries frames between two interfaces until the user stops it.
///
/// # Errors
/// Exit 2 for one interface twice; exit 3 without CAP_NET_RAW, without the interface, or when a socket
/// becomes unusable.
pub fn run(args: &ProxyArgs, global: &Global) -> Result<(), Failure> {
    let [first, second] = &args.bridge[..] else {
        return Err(Failure::usage("--bridge takes two interfaces"));
    };
    if first == second {
        return Err(Failure::usage("the two sides are one interface").help("name two"));
    }
    let none = Plan::default();
    let (plan, seed) = match &global.faults {
        Some(rules) => (rules.plan(), rules.seed()),
        None => (&none, 0),
    };
    let ports = [open(first)?, open(second)?];
    let counters = Arc::new(FaultCounters::new(plan));
    if let Some(rules) = &global.faults {
        faults::watch_counters(rules, Arc::clone(&counters));
    }
    let recorders =
        global.pcap.as_ref().map(|path| recorders(path, [first, second])).transpose()?;
    let relay = Relay::new(plan, seed, global.roce_port, recorders.is_some());
    eprintln!("{first} and {second} are joined; Ctrl-C ends it");
    let [near, far] = ports;
    let mut proxy = Proxy {
        receivers: [near.receiver, far.receiver],
        ends: Ends { senders: [near.sender, far.sender], recorders, failure: None },
        relay,
        tally: FaultTally::new(counters),
        start: Instant::now(),
    };
    let done = proxy.serve(&Interrupt::install());
    proxy.tell();
    if global.json {
        json::print(&proxy.result());
    }
    done.map_err(|error| Failure::environment(format!("the proxy cannot go on: {error}")))
}

fn open(name: &str) -> Result<FramePort, Failure> {
    FramePort::open(name).map_err(|error| match error {
        FramePortError::NoInterface(_) => Failure::environment(error)
            .help("it must be an interface of this machine or network namespace"),
        other => Failure::environment(other),
    })
}

/// Two interfaces of one capture, each called by its name.
fn recorders(path: &std::path::Path, names: [&String; 2]) -> Result<[PcapWriter; 2], Failure> {
    let file = PcapFile::create(path).map_err(Failure::environment)?;
    let [first, second] = names.map(|name| file.interface(name).map_err(Failure::environment));
    Ok([first?, second?])
}

struct Proxy {
    receivers: [FrameReceiver; 2],
    ends: Ends,
    relay: Relay,
    tally: FaultTally,
    start: Instant,
}

impl Proxy {
    fn serve(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        while !interrupt.is_set() {
            self.wait()?;
            for side in [Side::First, Side::Second] {
                self.receive(side)?;
            }
            self.relay.release(self.start.elapsed(), &mut self.ends);
            self.tally.update(self.relay.injector());
            if let Some(error) = self.ends.failure.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn receive(&mut self, side: Side) -> io::Result<()> {
        let Self { receivers, ends, relay, start, .. } = self;
        receivers[side as usize].recv(&mut |frame| {
            let frame = (&frame.offload, &*frame.bytes);
            relay.handle_frame(start.elapsed(), side, frame, ends);
        })?;
        Ok(())
    }

    /// Sleeps until a frame has arrived or one is due.
    fn wait(&self) -> io::Result<()> {
        let due = self.relay.poll_timeout().map(|at| at.saturating_sub(self.start.elapsed()));
        let time = due.map_or(NAP, |due| due.min(NAP));
        let [first, second] = &self.receivers;
        let fds = [first.waiter(), second.waiter()];
        let mut set = [0, 1].map(|side| PollFd::new(&fds[side], PollFlags::IN));
        match poll(&mut set, Timespec::try_from(time).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Frames of each side, for programs.
    fn result(&self) -> serde_json::Value {
        let sides = self.receivers.iter().zip(&self.ends.senders).map(|(receiver, sender)| {
            serde_json::json!({
                "interface": sender.name(),
                "received": receiver.received(),
                "sent": sender.sent(),
                "lost": receiver.lost() + sender.lost(),
            })
        });
        let sides: Vec<_> = sides.collect();
        serde_json::json!({ "version": json::VERSION, "interfaces": sides })
    }

    /// Says what passed, and what was lost for other reasons than a rule.
    fn tell(&self) {
        for (receiver, sender) in self.receivers.iter().zip(&self.ends.senders) {
            eprintln!(
                "{}: {} frames in, {} out",
                sender.name(),
                receiver.received(),
                sender.sent()
            );
            let lost = receiver.lost() + sender.lost();
            if lost > 0 {
                let why = sender.last_problem();
                let why =
                    why.as_deref().unwrap_or("they came faster than this machine carries them");
                eprintln!("warning: {lost} frames of {} were lost: {why}", sender.name());
            }
        }
        if self.relay.unwatched > 0 {
            eprintln!(
                "warning: {} packets passed without a look: there are more than 4096 pairs of hosts",
                self.relay.unwatched
            );
        }
    }
}

/// The way out of both sides, and the capture.
struct Ends {
    senders: [FrameSender; 2],
    recorders: Option<[PcapWriter; 2]>,
    failure: Option<io::Error>,
}

impl Wire for Ends {
    fn send(&mut self, side: Side, offload: &Offload, frame: &[u8], comment: &str) {
        if let Err(error) = self.senders[side as usize].send(offload, frame) {
            self.failure = Some(error);
        }
        self.record(side, Direction::Outbound, frame, comment);
    }

    fn seen(&mut self, side: Side, frame: &[u8], comment: &str) {
        self.record(side, Direction::Inbound, frame, comment);
    }
}

impl Ends {
    fn record(&self, side: Side, direction: Direction, frame: &[u8], comment: &str) {
        if let Some(recorders) = &self.recorders {
            let comments: &[&str] = if comment.is_empty() { &[] } else { &[comment] };
            recorders[side as usize].frame(direction, frame, comments);
        }
    }
}
