//! `uroce fault proxy`: rules between two hosts that know nothing of it.

mod carrier;
mod envelope;
mod gateway;
mod relay;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use carrier::{Carrier, NAP, Proxy};
use clap::Args;
use gateway::Gateway;
use relay::Relay;
use uroce_device::datapath::{FaultCounters, FaultTally, PcapWriter};
use uroce_device::fault::Plan;
use uroce_packet::{FramePort, FramePortError};
use uroce_verbs::PcapFile;

use crate::failure::Failure;
use crate::faults;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::report::json;

/// How long the hosts behind a gateway are looked for.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// What is sent to a host so that the kernel asks for its hardware address goes to the port "discard".
const DISCARD: u16 = 9;

const EXAMPLE: &str = "\
Examples, on a third machine (docs/faults.md):
  sudo uroce fault proxy --bridge eth1 eth2 --fault 'tx op=write -> drop skip=2 count=1' --pcap proxy.pcapng
      with one cable to each of the two hosts
  sudo uroce fault proxy --gateway eth0 192.0.2.1 192.0.2.2 --fault 'drop 1%'
      in one network with both, whose routes to each other lead through this machine's address:
      ip route add 192.0.2.2/32 via 192.0.2.3   (on 192.0.2.1, and the reverse on 192.0.2.2)";

/// Arguments of `uroce fault proxy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
#[group(required = true, multiple = false)]
pub struct ProxyArgs {
    /// The two interfaces between which all frames pass; to the rules, tx is from IF1 to IF2
    #[arg(long, num_args = 2, value_names = ["IF1", "IF2"])]
    bridge: Vec<String>,
    /// The interface and the addresses of two hosts that have each other behind this machine as their gateway; to the
    /// rules, tx is from HOST1 to HOST2
    #[arg(long, num_args = 3, value_names = ["IF", "HOST1", "HOST2"])]
    gateway: Vec<String>,
}

/// Carries frames between two interfaces, or between two hosts, until the user stops it.
///
/// # Errors
/// Exit 2 for one interface or host twice; exit 3 without CAP_NET_RAW, without the interface, where the kernel
/// forwards itself, or when a socket becomes unusable; exit 4 if a host behind a gateway does not answer.
pub fn run(args: &ProxyArgs, global: &Global) -> Result<(), Failure> {
    let none = Plan::default();
    let (plan, seed) = match &global.faults {
        Some(rules) => (rules.plan(), rules.seed()),
        None => (&none, 0),
    };
    let interrupt = Interrupt::install();
    let (link, names) = match (&args.bridge[..], &args.gateway[..]) {
        ([first, second], _) => (bridge(first, second)?, [first.clone(), second.clone()]),
        (_, [interface, first, second]) => (
            behind(interface, [first, second], &interrupt)?,
            [first, second].map(|host| format!("{interface} {host}")),
        ),
        _ => return Err(Failure::usage("name two interfaces, or one and two hosts")),
    };
    let counters = Arc::new(FaultCounters::new(plan));
    if let Some(rules) = &global.faults {
        faults::watch_counters(rules, Arc::clone(&counters));
    }
    let recorders = global.pcap.as_ref().map(|path| recorders(path, &names)).transpose()?;
    let relay = Relay::new(plan, seed, global.roce_port(), recorders.is_some());
    eprintln!("{} and {} are joined; Ctrl-C ends it", names[0], names[1]);
    let mut proxy = Proxy::new(link, relay, FaultTally::new(counters), recorders);
    let done = proxy.serve(&interrupt);
    proxy.tell();
    if global.json {
        json::print(&proxy.result());
    }
    done.map_err(|error| Failure::environment(format!("the proxy cannot go on: {error}")))
}

fn bridge(first: &str, second: &str) -> Result<Carrier, Failure> {
    if first == second {
        return Err(Failure::usage("the two sides are one interface").help("name two"));
    }
    Ok(Carrier::bridge([open(first)?, open(second)?]))
}

/// Finds both hosts, so that everything that comes afterwards can go on at once.
fn behind(interface: &str, hosts: [&String; 2], interrupt: &Interrupt) -> Result<Carrier, Failure> {
    let [first, second] = hosts.map(|host| {
        host.parse::<IpAddr>().map_err(|_| Failure::usage(format!("{host} is no IP address")))
    });
    let hosts = [first?, second?];
    if hosts[0] == hosts[1] {
        return Err(Failure::usage("the two sides are one host").help("name two"));
    }
    if hosts[0].is_ipv4() != hosts[1].is_ipv4() {
        return Err(Failure::usage("one host has an IPv4 address, and the other one IPv6"));
    }
    must_not_forward(interface, hosts[0])?;
    let port = open(interface)?;
    let gateway = Gateway::new(port.sender.hardware_address(), hosts);
    let mut link = Carrier::gateway(port, gateway);
    find(&mut link, interface, interrupt)?;
    Ok(link)
}

/// A kernel that forwards would carry every packet a second time, without the rules.
fn must_not_forward(interface: &str, host: IpAddr) -> Result<(), Failure> {
    let version = if host.is_ipv4() { "ipv4" } else { "ipv6" };
    let setting = format!("/proc/sys/net/{version}/conf/{interface}/forwarding");
    let forwards = std::fs::read_to_string(setting).is_ok_and(|value| value.trim() == "1");
    if !forwards {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "the kernel forwards what arrives at {interface}, without any rule"
    ))
    .help(format!("sudo sysctl -w net/{version}/conf/{interface}/forwarding=0")))
}

/// Has the kernel ask for the hosts until something was heard of both.
fn find(link: &mut Carrier, interface: &str, interrupt: &Interrupt) -> Result<(), Failure> {
    let unusable = |error| Failure::environment(format!("the proxy cannot begin: {error}"));
    let deadline = Instant::now() + DISCOVERY_TIMEOUT;
    let mut question = Pace::default();
    while let Some(host) = link.gateway.as_ref().and_then(Gateway::missing) {
        if Instant::now() >= deadline || interrupt.is_set() {
            return Err(unfound(host, interface, interrupt));
        }
        if question.is_due(Instant::now()) {
            wake(host);
        }
        link.wait(NAP).map_err(unusable)?;
        let Carrier { receivers, gateway: Some(gateway), .. } = link else { return Ok(()) };
        let taken = receivers[0].recv(&mut |frame| {
            gateway.handle_frame(frame.bytes);
        });
        taken.map_err(unusable)?;
    }
    Ok(())
}

fn unfound(host: IpAddr, interface: &str, interrupt: &Interrupt) -> Failure {
    if interrupt.is_set() {
        return Failure::test(format!("interrupted before {host} was found at {interface}"));
    }
    Failure::peer(format!("{host} does not answer at {interface}"))
        .help(format!("it must be a neighbour there: `ping -I {interface} {host}`"))
}

/// Once each [`NAP`], however often frames of others end the wait.
#[derive(Debug, Default)]
struct Pace(Option<Instant>);

impl Pace {
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.saturating_duration_since(last) >= NAP);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Sends a datagram without a purpose of its own; what is heard is the answer to the question for the hardware address.
fn wake(host: IpAddr) {
    let any: IpAddr = match host {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Whether it worked shows by what arrives.
    drop(UdpSocket::bind((any, 0)).and_then(|socket| socket.send_to(b"uroce", (host, DISCARD))));
}

fn open(name: &str) -> Result<FramePort, Failure> {
    FramePort::open(name).map_err(|error| match error {
        FramePortError::NoInterface(_) => Failure::environment(error)
            .help("it must be an interface of this machine or network namespace"),
        other => Failure::environment(other),
    })
}

/// Two interfaces of one capture, each called by its name.
fn recorders(path: &std::path::Path, names: &[String; 2]) -> Result<[PcapWriter; 2], Failure> {
    let file = PcapFile::create(path).map_err(Failure::environment)?;
    let [first, second] =
        names.each_ref().map(|name| file.interface(name).map_err(Failure::environment));
    Ok([first?, second?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_host_is_not_asked_for_each_frame_of_others() {
        let (mut question, start) = (Pace::default(), Instant::now());
        let asked = (0..1000).filter(|ms| question.is_due(start + Duration::from_millis(*ms)));
        assert_eq!(asked.count(), 5);
    }

    #[test]
    fn whoever_stops_the_search_did_not_find_a_silent_host() {
        let (host, interrupt) = (Ipv4Addr::LOCALHOST.into(), Interrupt::default());
        assert_eq!(unfound(host, "eth0", &interrupt).exit, Exit::Peer);
        interrupt.set();
        let stopped = unfound(host, "eth0", &interrupt);
        assert!(stopped.exit == Exit::Failed && stopped.help.is_none(), "{stopped}");
    }
}
