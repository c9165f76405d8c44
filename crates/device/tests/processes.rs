//! Many processes with devices on one address: each gets its packets, whoever dies.

mod common;
#[path = "processes/life.rs"]
mod life;
#[path = "processes/member.rs"]
mod member;

use std::net::{IpAddr, Ipv4Addr};

use life::Life;
use member::{Member, ROLE, await_exchange, program, tell_exchange};

/// Each test has an address of its own.
fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 91, 15, last).into()
}

/// No test by itself: what the processes of the others run.
#[test]
fn a_member_does_what_it_is_told() {
    if let Ok(address) = std::env::var(ROLE) {
        Life::live(address.parse().expect("an address"));
    }
}

fn members(count: usize, address: IpAddr) -> Vec<Member> {
    (0..count).map(|_| Member::start(address, &mut program())).collect()
}

/// Connects neighbours with each other.
fn pair(members: &mut [Member], address: IpAddr) {
    for pair in members.chunks_exact_mut(2) {
        let names: Vec<_> = pair.iter_mut().map(|member| member.ask("names")).collect();
        for (member, peer) in pair.iter_mut().zip(names.iter().rev()) {
            member.tell(&format!("connect {} {}", peer[0], peer[1]));
        }
        pair.iter_mut().for_each(|member| assert_eq!(member.answer(), ["connected"], "{address}"));
    }
}

/// Nothing was missing at any time; returns how many packets were handed over between processes.
fn nothing_was_lost(members: &mut [Member]) -> u64 {
    let missing = ["ack_timeout", "datapath_rx_unforwarded", "rcvd_rnr_err"];
    for name in missing.into_iter().chain(["drop_uc_out_of_sequence", "drop_bad_icrc"]) {
        let counts: Vec<u64> =
            members.iter_mut().map(|member| member.number(&format!("counter {name}"))).collect();
        assert_eq!(counts.iter().sum::<u64>(), 0, "{name}: {counts:?}");
    }
    members.iter_mut().map(|member| member.number("counter datapath_rx_forwarded")).sum()
}

#[test]
fn sixty_four_processes_share_an_address_and_outlive_each_other() {
    let address = address(1);
    let mut all = members(64, address);
    pair(&mut all, address);
    tell_exchange(&mut all, "exchange");
    await_exchange(&mut all, 2);
    nothing_was_lost(&mut all);

    // The first pairs die while all are talking: in the kernel, others take their places. Packets may
    // overtake each other then, which RC repairs and UC does not.
    tell_exchange(&mut all, "exchange-rc");
    let mut rest = all.split_off(8);
    all.iter_mut().for_each(Member::kill);
    await_exchange(&mut rest, 1);
    tell_exchange(&mut rest, "exchange-rc");
    await_exchange(&mut rest, 1);
    nothing_was_lost(&mut rest);

    // New ones take the slots of the dead.
    rest.extend(members(8, address));
    let old = rest.len() - 8;
    pair(&mut rest[old..], address);
    for _ in 0..2 {
        tell_exchange(&mut rest, "exchange-rc");
        await_exchange(&mut rest, 1);
    }
    nothing_was_lost(&mut rest);
}

/// Nothing repeats what an unreliable connection has lost, and on a machine that is busy enough one now and then does:
/// hence some tries.
#[test]
fn what_goes_astray_is_handed_over() {
    let tries = 3;
    let passed = (1..=tries).any(|attempt| {
        let outcome = std::panic::catch_unwind(|| stray_and_exchange(address(2)));
        println!("attempt {attempt} of {tries}: {}", if outcome.is_ok() { "ok" } else { "failed" });
        outcome.is_ok()
    });
    assert!(passed, "something was lost in each of {tries} attempts");
}

fn stray_and_exchange(address: IpAddr) {
    let mut all = members(6, address);
    let names: Vec<_> = all.iter_mut().map(|member| member.ask("names")).collect();
    // Slots are taken in the order in which processes start to share: find those of slots 1 and 2.
    let slot = |name: &Vec<String>| name[0].parse::<u32>().expect("a QPN") >> 16;
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|&index| slot(&names[index]));
    assert_eq!(
        order.iter().map(|&index| slot(&names[index])).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
    let mut sorted: Vec<Option<Member>> = all.into_iter().map(Some).collect();
    let mut all: Vec<Member> = order.iter().filter_map(|&index| sorted[index].take()).collect();
    // The last one comes to the place of slot 1, where nobody looks for it.
    all.remove(0).kill();
    all.remove(0).kill();
    pair(&mut all, address);
    for _ in 0..3 {
        tell_exchange(&mut all, "exchange");
        await_exchange(&mut all, 2);
    }
    assert!(nothing_was_lost(&mut all) > 0, "some did go astray");
}

#[test]
fn calls_find_the_process_that_listens() {
    let address = address(3);
    let mut all = members(8, address);
    let (listeners, callers) = all.split_at_mut(4);
    for (index, listener) in listeners.iter_mut().enumerate() {
        assert_eq!(listener.ask(&format!("listen {}", 7001 + index)), ["listens"]);
    }
    assert_eq!(callers[0].ask("listen 7001")[0], "refused:");
    for (index, listener) in listeners.iter_mut().enumerate() {
        for caller in callers.iter_mut() {
            caller.tell(&format!("call {}", 7001 + index));
            let pid = listener.ask("answer");
            assert_eq!(caller.answer(), pid, "connected to the process that listens");
            caller.tell("hang-up");
            assert_eq!(listener.ask("hang-up"), ["ended"]);
            assert_eq!(caller.answer(), ["ended"]);
        }
    }
    // The port of a dead listener is free at once.
    listeners[0].kill();
    assert_eq!(callers[0].ask("listen 7001"), ["listens"]);
    callers[1].tell("call 7001");
    let pid = callers[0].ask("answer");
    assert_eq!(callers[1].answer(), pid);
    assert!(callers[2].ask("call 7999")[0].starts_with("Rejected"));
}

#[test]
fn a_group_is_heard_in_every_process_that_joined() {
    let address = address(4);
    let group = "239.91.15.4";
    let mut all = members(6, address);
    for member in &mut all[..5] {
        assert_eq!(member.ask(&format!("join {group}")), ["joined"]);
    }
    assert_eq!(all[5].ask(&format!("shout {group}")), ["shouted"]);
    for member in &mut all[..5] {
        assert_eq!(member.ask("greeting"), ["heard"]);
    }
    assert_eq!(all[5].number("counter datapath_rx_packets"), 0);
}
