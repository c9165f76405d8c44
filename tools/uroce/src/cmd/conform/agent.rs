//! `uroce conform agent`.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use clap::Args;
use uroce_conform_agent::{Agent, Choice, random_token};

use super::{PORT, say};
use crate::failure::Failure;
use crate::global::Global;

/// How long it waits after a connection that failed.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

const AFTER: &str = "\
It listens for one tester at a time and refuses who does not name the token. -d names the RDMA device, --address the \
address that its queue pairs use. The connection is not encrypted: use a network that you trust.

Examples:
  uroce conform agent
  uroce run --address 127.0.0.2 -- uroce conform agent";

/// Options of `uroce conform agent`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct AgentArgs {
    /// Listen on this TCP port
    #[arg(short, long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// Listen on this address only [default: all]
    #[arg(long, value_name = "IP")]
    listen: Option<IpAddr>,
    /// What the tester must name [default: UROCE_CONFORM_TOKEN, else made up and printed]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Use this entry of the GID table
    #[arg(short, long, value_name = "N")]
    gid_index: Option<u8>,
    /// End after one session; who is refused has none
    #[arg(long)]
    once: bool,
}

/// Serves testers, one after the other.
///
/// # Errors
/// Exit 3: no libibverbs, no device, no port.
pub fn run(args: &AgentArgs, global: &Global) -> Result<(), Failure> {
    let token = match super::token(args.token.as_ref()) {
        Some(token) => token,
        None => random_token().map_err(Failure::environment)?,
    };
    let agent = Agent::open(&choice(args, global), token.clone()).map_err(|error| {
        Failure::environment(error)
            .help("`ibv_devices` lists what libibverbs knows; `uroce run -- uroce conform agent` tests uroce itself")
    })?;
    let address = SocketAddr::new(args.listen.unwrap_or([0u16; 8].into()), args.port);
    let listener = listen(address)?;
    let port = listener.local_addr().map_err(Failure::environment)?.port();
    let card = agent.card();
    say(&format!("{} at {}, {}", card.device, card.address, card.system));
    say(&format!(
        "on the other machine: uroce conform {} --token {token}",
        shown(card.address, port)
    ));
    loop {
        let served = match listener.accept() {
            Ok((stream, from)) => serve(&agent, &stream, from),
            Err(error) => {
                eprintln!("note: a connection failed: {error}");
                // An error that lasts, such as too many open files, shall not fill the processor.
                std::thread::sleep(PAUSE);
                false
            }
        };
        if args.once && served {
            return Ok(());
        }
    }
}

/// A device by its name, an address by `--address`; `-d` takes both.
fn choice(args: &AgentArgs, global: &Global) -> Choice {
    let named = global.ib_dev.as_ref();
    let address = global.address.or_else(|| named.and_then(|name| name.parse().ok()));
    let device = named.filter(|name| name.parse::<IpAddr>().is_err()).cloned();
    Choice { device, address, gid_index: args.gid_index }
}

/// On all addresses of both families; where there is no IPv6, on those of IPv4.
fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let v4 = SocketAddr::from(([0, 0, 0, 0], address.port()));
    let listener =
        TcpListener::bind(address).or_else(|error| match address.ip().is_unspecified() {
            true => TcpListener::bind(v4),
            false => Err(error),
        });
    listener.map_err(|error| {
        Failure::environment(format!("cannot listen on {address}: {error}"))
            .help("--port chooses another port")
    })
}

/// The address, and the port where it is not the usual one.
fn shown(address: IpAddr, port: u16) -> String {
    match port {
        PORT => address.to_string(),
        _ => SocketAddr::new(address, port).to_string(),
    }
}

/// True if there was a session.
fn serve(agent: &Agent, stream: &TcpStream, from: SocketAddr) -> bool {
    eprintln!("note: {from} connected");
    let served = agent.serve(stream);
    match &served {
        Ok(()) => eprintln!("note: {from} is done"),
        Err(failure) => eprintln!("note: {from}: {failure}"),
    }
    served.map_or_else(|failure| failure.was_session(), |()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_can_be_told_from_an_address_of_ipv6() {
        let shown = |ip: &str, port| shown(ip.parse().expect("an address"), port);
        assert_eq!(shown("2001:db8::1", 99), "[2001:db8::1]:99");
        assert_eq!(shown("2001:db8::1", PORT), "2001:db8::1");
        assert_eq!(shown("192.0.2.1", 99), "192.0.2.1:99");
    }
}
