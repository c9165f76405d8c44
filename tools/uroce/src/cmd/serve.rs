//! `uroce serve`: holds the RoCE port of addresses for processes of all users.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::io::Errno;
use serde_json::json;
use socket2::SockRef;
use uroce_datapath::Datapath;
use uroce_device::{DatapathChoice, OpenError, datapath_for_service, gsi_redirect};
use uroce_service::{
    AddressStatus, ClientStatus, PortService, ServiceOptions, inherited_listener, socket_path,
    status,
};

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic;
use crate::report::{json, out};

const EXAMPLES: &str = "\
Examples:
  uroce serve 10.0.0.1                          for all users of this machine
  uroce serve 10.0.0.1 fd00::1 --datapath packet
  uroce serve 10.0.0.1 --allow-user 1000 --allow-user 1001
  uroce serve --status                          what the running service has counted
  uroce serve --status --json                   the same for programs";

/// How long a service waits at its start for a port that is taken.
const PORT_WAIT: Duration = Duration::from_secs(2);
/// Pause between two attempts.
const PORT_POLL: Duration = Duration::from_millis(20);

/// Arguments of `uroce serve` (docs/serve.md).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// The addresses whose port to hold
    #[arg(value_name = "IP", required_unless_present = "status")]
    addresses: Vec<IpAddr>,
    /// The socket for clients [default: that of the socket unit, UROCE_SERVE_SOCKET, or /run/uroce/serve.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Permissions of the socket, octal: who may write to it may be a client
    #[arg(long, value_name = "MODE", default_value = "666", value_parser = octal)]
    mode: u32,
    /// Only this user (a number) may be a client, besides others that are named so [default: all]
    #[arg(long = "allow-user", value_name = "UID")]
    users: Vec<u32>,
    /// Most clients of one user on one address; a process has one for each engine of each device
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..=254))]
    per_user: u8,
    /// Most links of one client: other clients of its address that packets reach without the service; 0: none
    #[arg(long, value_name = "N", default_value_t = 32)]
    links: u8,
    /// The file that keeps slots over a restart; one with anything else in it is refused [default:
    /// beside the socket]
    #[arg(long, value_name = "FILE")]
    slots: Option<PathBuf>,
    /// Print addresses, clients and counters of the running service, for those who may be its
    /// clients; with --json for programs
    #[arg(long, conflicts_with = "addresses")]
    status: bool,
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text} is no mode such as 660"))
}

/// Serves until the user ends it.
///
/// # Errors
/// Exit 3 for an address whose port cannot be had, and without a place for the socket.
pub fn run(args: &ServeArgs, global: &Global) -> Result<(), Failure> {
    let socket = args.socket.clone().unwrap_or_else(socket_path);
    if args.status {
        let found = status(&socket).map_err(|error| unanswered(&socket, &error))?;
        if global.json {
            let addresses: Vec<_> = found.iter().map(as_json).collect();
            json::print(&json!({ "version": json::VERSION, "addresses": addresses }));
        } else {
            found.iter().for_each(|address| out(&address.to_string()));
        }
        return Ok(());
    }
    each_once(&args.addresses)?;
    let interrupt = Interrupt::install();
    let mut datapaths = vec![];
    for address in &args.addresses {
        let datapath =
            datapath_of(&global.datapath(), SocketAddr::new(*address, global.roce_port()));
        datapaths
            .push(datapath.map_err(|error| nic::unopened(*address, global.roce_port(), &error))?);
    }
    let inherited = inherited_listener().map_err(Failure::environment)?;
    let socket = inherited.as_ref().and_then(path_of).unwrap_or(socket);
    let slots = args.slots.clone().unwrap_or_else(|| socket.with_extension("slots"));
    let options = ServiceOptions {
        socket: Some(socket.clone()),
        mode: args.mode,
        slots,
        users: args.users.clone(),
        per_user: args.per_user.into(),
        links: args.links.into(),
    };
    let service = PortService::new(datapaths, gsi_redirect, (inherited, options));
    let mut service = service.map_err(|error| unserved(&socket, &error))?;
    let names: Vec<_> = args.addresses.iter().map(ToString::to_string).collect();
    eprintln!("uroce serve: {} for clients at {}", names.join(", "), socket.display());
    service.run(interrupt.flag()).map_err(Failure::environment)
}

/// Nobody can hold the port of one address twice.
fn each_once(addresses: &[IpAddr]) -> Result<(), Failure> {
    let twice =
        addresses.iter().enumerate().find(|(at, address)| addresses[..*at].contains(address));
    twice.map_or(Ok(()), |(_, address)| {
        Err(Failure::usage(format!("the address {address} is given twice")).help("name it once"))
    })
}

/// The datapath that has the port of `local`.
///
/// The kernel frees the port of a killed io_uring or AF_XDP process a moment after it has reaped the process: a service that
/// is started again at once waits for it.
fn datapath_of(choice: &DatapathChoice, local: SocketAddr) -> Result<Box<dyn Datapath>, OpenError> {
    let end = Instant::now() + PORT_WAIT;
    loop {
        match datapath_for_service(choice, local) {
            Err(error) if is_busy(&error) && Instant::now() < end => thread::sleep(PORT_POLL),
            result => return result,
        }
    }
}

fn is_busy(error: &OpenError) -> bool {
    [Errno::ADDRINUSE, Errno::BUSY].contains(&Errno::from_raw_os_error(error.errno()))
}

/// Where the socket that the init system has opened is.
fn path_of(listener: &OwnedFd) -> Option<PathBuf> {
    let name = SockRef::from(listener).local_addr().ok()?;
    name.as_pathname().map(PathBuf::from)
}

fn as_json(address: &AddressStatus) -> serde_json::Value {
    let clients: Vec<_> = address.clients.iter().map(client_as_json).collect();
    json!({
        "address": address.local.ip().to_string(),
        "port": address.local.port(),
        "datapath": address.datapath,
        "packets_sent": address.counts.sent,
        "packets_received": address.counts.received,
        "packets_between_clients": address.counts.between_clients,
        "drops": json::object(address.drops.iter().cloned()),
        "clients": clients,
    })
}

fn client_as_json(client: &ClientStatus) -> serde_json::Value {
    json!({
        "slot": client.slot,
        "user": client.user,
        "process": client.process,
        "packets_sent": client.sent,
        "packets_received": client.received,
        "packets_refused": client.refused,
        "packets_dropped": client.dropped,
        "links": client.links,
    })
}

/// Why there is no status. A service that lets this user not in need not be started.
fn unanswered(socket: &std::path::Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    let what = format!("no service answers at {}: {error}", socket.display());
    match error.kind() {
        NotFound => Failure::environment(what).help("start one: uroce serve 10.0.0.1"),
        ConnectionRefused => Failure::environment(what).help(
            "nobody listens there: start one there, or name its socket in UROCE_SERVE_SOCKET",
        ),
        PermissionDenied => {
            let what = format!("{} does not let this user in: {error}", socket.display());
            Failure::environment(what)
                .help("ask for --mode and --allow-user of the service, or run as a user who may be a client")
        }
        _ => Failure::environment(what),
    }
}

fn unserved(socket: &std::path::Path, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::InvalidData {
        return Failure::environment(error);
    }
    let failure = Failure::environment(format!("cannot listen at {}: {error}", socket.display()));
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            failure.help("name another --socket, or remove what is there")
        }
        std::io::ErrorKind::AddrInUse => failure.help(
            "a service runs there already: `uroce serve --status` shows it; name another --socket",
        ),
        _ => failure.help(
            "its folder must exist, and be writable for the service alone: name another --socket",
        ),
    }
}
