//! The client: it offers its memory to be read, and then to be written.

use std::net::SocketAddr;

use uroce_verbs::{EventChannel, PortSpace};

use super::args::RpingArgs;
use super::end::RpingEnd;
use super::events::Events;
use super::text;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::stop::Stop;

/// Connects to `server` and pings it. Returns how many pings came back.
///
/// # Errors
/// See the exit codes.
pub fn run(
    args: &RpingArgs,
    server: SocketAddr,
    channel: &EventChannel,
    interrupt: &Interrupt,
) -> Result<u64, Failure> {
    let events = Events::new(channel, interrupt, 0);
    let id = channel.create_id(PortSpace::Tcp);
    id.resolve_addr(server).map_err(Failure::usage)?;
    id.resolve_route().map_err(Failure::usage)?;
    let end = RpingEnd::new(&events, id, args.size as usize)?;
    end.connect()?;
    end.established(&server.to_string())?;
    let (pings, ended) = ping(args, &end);
    match ended {
        Ok(()) => Ok(pings),
        Err(Stop::Interrupted) if pings > 0 => Ok(pings),
        Err(Stop::Interrupted) => Err(Failure::interrupted()),
        Err(Stop::PeerDone) => Err(Failure::peer("the server ended the connection")),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

fn ping(args: &RpingArgs, end: &RpingEnd<'_>) -> (u64, Result<(), Stop>) {
    let mut pings = 0;
    let mut ended = Ok(());
    let source = match end.source() {
        Ok(source) => source,
        Err(failure) => return (0, Err(failure.into())),
    };
    while ended.is_ok() && args.count.is_none_or(|count| pings < count) {
        let data = text::of(pings, args.size as usize);
        ended = source
            .write(0, &data)
            .map_err(|error| Failure::test(error).into())
            .and_then(|()| once(args, end, &source, &data));
        pings += u64::from(ended.is_ok());
    }
    if let Err(failure) = end.finish() {
        ended = ended.and(Err(failure.into()));
    }
    (pings, ended)
}

/// The server reads `source`, then writes to our data.
fn once(
    args: &RpingArgs,
    end: &RpingEnd<'_>,
    source: &uroce_verbs::MemoryRegion,
    data: &[u8],
) -> Result<(), Stop> {
    end.advertise(source)?;
    end.hear()?;
    end.advertise(&end.data)?;
    end.hear()?;
    let mut back = vec![0; data.len()];
    end.data.read(0, &mut back).map_err(Failure::test)?;
    if args.validate && back != data {
        let place = back.iter().zip(data).position(|(a, b)| a != b).unwrap_or_default();
        return Err(
            Failure::test(format!("data mismatch at byte {place}: something altered it")).into()
        );
    }
    if args.verbose {
        args.say(&format!("ping data: {}\n", text::shown(&back)));
    }
    Ok(())
}
