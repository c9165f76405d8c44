//! Both ends in one process.

use super::args::Local;
use super::one_end;
use super::output::Form;
use super::plan::Plan;
use crate::exchange::channel::Channel;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::nic::Nics;
use std::net::{IpAddr, Ipv4Addr};
use uroce_verbs::{Context, LoopbackFabric};

/// Addresses of the two devices; on the in-process switch they need not exist.
pub const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))];

/// Runs the client here and the server in a thread; the client prints.
///
/// # Errors
/// As for two processes.
pub fn run(
    plan: &Plan,
    how: Local,
    nics: &Nics,
    form: Form,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let [here, there] = open(how, nics)?;
    let (client, server) = Channel::pair(interrupt)?;
    let server_plan = plan.clone();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| one_end(there, server, server_plan, Form::Silent, interrupt));
        let done = one_end(here, client, plan.clone(), form, interrupt);
        let served = server.join().unwrap_or_else(|_| Err(Failure::test("the server thread died")));
        if interrupt.is_set() { done } else { done.and(served) }
    })
}

fn open(how: Local, nics: &Nics) -> Result<[Context; 2], Failure> {
    let fabric = LoopbackFabric::new();
    let open = |address| match how {
        Local::Fabric => nics.open_in(&fabric, address),
        Local::Udp => nics.open_on(address),
    };
    Ok([open(ADDRESSES[0])?, open(ADDRESSES[1])?])
}
