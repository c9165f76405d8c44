//! Both ends in one process.

use std::net::{IpAddr, Ipv4Addr};

use uroce_verbs::{DatapathChoice, LoopbackFabric};

use super::args::Local;
use super::one_end;
use super::output::Form;
use super::plan::Plan;
use crate::channel::Channel;
use crate::failure::{Exit, Failure};
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::nic::Nics;

/// Addresses of the two devices; on the in-process switch they need not exist.
pub const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))];

/// Runs the client here and the server in a thread; the client prints.
///
/// # Errors
/// As for two processes.
pub fn run(plan: &Plan, nics: &Nics, form: Form, interrupt: &Interrupt) -> Result<(), Failure> {
    let (here, there) = (nics.open_on(ADDRESSES[0])?, nics.open_on(ADDRESSES[1])?);
    let (client, server) = Channel::pair(interrupt)?;
    let server_plan = plan.clone();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| one_end(there, server, server_plan, Form::Silent, interrupt));
        let done = one_end(here, client, plan.clone(), form, interrupt);
        let served = server.join().unwrap_or_else(|_| Err(Failure::test("the server thread died")));
        if interrupt.is_set() { done } else { first_cause(done, served) }
    })
}

/// An end that fails closes its channel, and the other one then says that its peer is gone: the first is the cause.
fn first_cause(client: Result<(), Failure>, server: Result<(), Failure>) -> Result<(), Failure> {
    match (client, server) {
        (Err(client), Err(server)) if client.exit == Exit::Peer => Err(server),
        (client, server) => client.and(server),
    }
}

/// A datapath that the user names is taken; without one the two meet on a switch in the process, or
/// with `--local=udp` on the kernel's loopback interface.
///
/// # Errors
/// Exit 2 for two that contradict each other.
pub fn datapath(how: Option<Local>, global: &Global) -> Result<DatapathChoice, Failure> {
    let wanted = match how {
        Some(Local::Udp) => Some(DatapathChoice::Udp),
        Some(Local::Fabric) => Some(switch(global)),
        None => None,
    };
    match (global.datapath.clone(), wanted) {
        (Some(named), Some(wanted)) if named.name() != wanted.name() => {
            let (named, wanted) = (named.name(), wanted.name());
            Err(Failure::usage(format!(
                "--datapath {named} and --local={wanted} are two answers to one question"
            ))
            .help("give one of them: `--local` alone takes what --datapath names"))
        }
        (Some(named), _) => Ok(named),
        (None, wanted) => Ok(wanted.unwrap_or_else(|| switch(global))),
    }
}

/// ICRCs cost time, and only captures and faults need them.
fn switch(global: &Global) -> DatapathChoice {
    DatapathChoice::Loopback(match (&global.pcap, &global.faults) {
        (None, None) => LoopbackFabric::without_icrc(),
        _ => LoopbackFabric::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v124_the_end_that_failed_first_tells_why() {
        let (gone, broken) = (Failure::peer("gone"), Failure::test("broken"));
        let shown = |client: &Failure, server: &Failure| {
            first_cause(Err(client.clone()), Err(server.clone())).expect_err("both failed").what
        };
        assert_eq!(shown(&gone, &broken), "broken");
        assert_eq!(shown(&broken, &gone), "broken");
        assert_eq!(first_cause(Ok(()), Err(gone.clone())), Err(gone));
    }
}
