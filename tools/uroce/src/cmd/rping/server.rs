//! The server: it reads what a client offers, and writes it back.

use uroce_verbs::{EventChannel, PortSpace};

use super::args::RpingArgs;
use super::end::RpingEnd;
use super::events::{Caller, Events};
use super::text;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::stop::Stop;

/// Callers that may wait for their turn.
const BACKLOG: usize = 16;
/// Room for the largest ping.
const ROOM: usize = 65_536;

/// Serves one client, or one after the other. Returns how many pings there were.
///
/// # Errors
/// See the exit codes.
pub fn run(
    args: &RpingArgs,
    channel: &EventChannel,
    interrupt: &Interrupt,
) -> Result<u64, Failure> {
    let events = Events::new(channel, interrupt, if args.persistent { BACKLOG } else { 0 });
    let listener = channel.create_id(PortSpace::Tcp);
    let address = listener.listen(args.port, BACKLOG).map_err(Failure::environment)?;
    eprintln!("waiting for a client on {address}");
    let mut pings = 0;
    loop {
        match serve(args, &events, &mut pings) {
            Ok(()) | Err(Stop::PeerDone) if args.persistent => {}
            Ok(()) | Err(Stop::PeerDone) => return Ok(pings),
            Err(Stop::Interrupted) if pings > 0 => return Ok(pings),
            Err(Stop::Interrupted) => return Err(Failure::interrupted()),
            Err(Stop::Failed(failure)) if args.persistent && !interrupt.is_set() => failure.print(),
            Err(Stop::Failed(failure)) if pings == 0 || !interrupt.is_set() => return Err(failure),
            Err(Stop::Failed(_)) => return Ok(pings),
        }
    }
}

/// One connection, until the client ends it.
fn serve(args: &RpingArgs, events: &Events<'_>, pings: &mut u64) -> Result<(), Stop> {
    let Caller { id, name } = events.next_caller()?;
    let end = RpingEnd::new(events, id, ROOM)?;
    end.accept()?;
    end.established(&name)?;
    loop {
        pong(args, &end)?;
        *pings += 1;
    }
}

fn pong(args: &RpingArgs, end: &RpingEnd<'_>) -> Result<(), Stop> {
    let source = end.hear()?;
    let length = end.fetch(source)?;
    let mut data = vec![0; length];
    end.data.read(0, &mut data).map_err(Failure::test)?;
    if args.verbose {
        args.say(&format!("server ping data: {}\n", text::shown(&data)));
    }
    end.advertise(&end.data)?;
    let target = end.hear()?;
    // The text with its zero, as rping does.
    let text = data.iter().position(|byte| *byte == 0).map_or(length, |zero| zero + 1);
    end.give(target, text)?;
    Ok(end.advertise(&end.data)?)
}
