//! Both ends in one process.

use super::args::Local;
use super::one_end;
use super::output::Form;
use super::plan::Plan;
use crate::cli::Global;
use crate::exchange::channel::Channel;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::nic::Nics;
use std::net::{IpAddr, Ipv4Addr};
use uroce_verbs::{DatapathChoice, LoopbackFabric};

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
        if interrupt.is_set() { done } else { done.and(served) }
    })
}

/// A datapath that the user names is taken; without one the two meet on a switch in the process, or
/// with `--local udp` on the kernel's loopback interface.
pub fn datapath(how: Local, global: &Global) -> DatapathChoice {
    match (&global.datapath, how) {
        (Some(named), _) => named.clone(),
        (None, Local::Fabric) if global.pcap.is_some() => {
            DatapathChoice::Loopback(LoopbackFabric::new())
        }
        (None, Local::Fabric) => DatapathChoice::Loopback(LoopbackFabric::without_icrc()),
        (None, Local::Udp) => DatapathChoice::Udp,
    }
}
