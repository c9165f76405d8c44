//! `uroce rping`: the exchange of `rping` over a connection by address and port, in either role,
//! against the stock program or ourselves.

mod advert;
mod args;
mod client;
mod end;
mod events;
mod server;
mod text;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

pub use args::RpingArgs;
use serde_json::json;
use uroce_verbs::{Context, device_list};

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic::{Nics, address_towards};
use crate::report::json;

/// How long the device still answers after a run, for a peer whose last message was lost.
const STAY: Duration = Duration::from_millis(300);

/// Runs one end.
///
/// # Errors
/// See the exit codes.
pub fn run(args: &RpingArgs, global: &Global) -> Result<(), Failure> {
    let args = &RpingArgs { json: global.json, ..args.clone() };
    let interrupt = Interrupt::install();
    let nics = Nics::towards_peers(global)?;
    let host = args.host.as_deref().map(|host| lookup(host, args.port)).transpose()?;
    let context = open(args, &nics, host)?;
    let channel = context.create_event_channel().map_err(Failure::environment)?;
    let pings = match host {
        Some(server) if args.client => client::run(args, server, &channel, &interrupt),
        _ => server::run(args, &channel, &interrupt),
    };
    std::thread::sleep(STAY);
    let pings = pings?;
    if global.json {
        json::print(&json!({
            "version": json::VERSION,
            "test": "rping",
            "role": if args.client { "client" } else { "server" },
            "pings": pings,
        }));
    }
    Ok(())
}

fn lookup(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let found = (host, port).to_socket_addrs().map(|mut all| all.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Failure::usage(format!("{host} has no address"))),
        Err(error) => Err(crate::channel::unknown_host(host, &error)),
    }
}

fn open(args: &RpingArgs, nics: &Nics, host: Option<SocketAddr>) -> Result<Context, Failure> {
    if let Some(source) = args.source {
        return nics.open_on(source);
    }
    match host {
        Some(server) if args.client => nics.open(address_towards(server.ip())?),
        Some(own) if !own.ip().is_unspecified() => nics.open_on(own.ip()),
        _ => nics.open(first_address()?),
    }
}

/// A server that is not told where to listen takes the first device that is up.
fn first_address() -> Result<IpAddr, Failure> {
    let first = device_list().into_iter().find(|device| device.up);
    first.map(|device| device.address).ok_or_else(|| {
        Failure::environment("no network interface is up").help("name an address with -a")
    })
}
