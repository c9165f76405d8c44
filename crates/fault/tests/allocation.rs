//! A packet on its way through an injector allocates nothing once it has been set up.

#[allow(dead_code, reason = "this program needs a part of what the others use")]
#[path = "it/packets/mod.rs"]
mod packets;

use packets::{ms, send, send_back};
use uroce_fault::{FaultInjector, Plan};
use uroce_testkit::allocations::{CountingAllocator, allocations};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Allocations of the second thousand of packets.
fn allocations_of(rules: &str) -> usize {
    let plan: Plan = rules.parse().expect("good rules");
    let mut injector = FaultInjector::new(&plan, 1);
    let packets = [send(1), send_back(1)];
    let mut round = || {
        for packet in packets.iter().cycle().take(2000) {
            injector.handle_packet(ms(0), &packet.meta, &packet.bytes);
            while injector.poll_packet(ms(10)).is_some() {}
            while injector.poll_event().is_some() {}
        }
    };
    round();
    let before = allocations();
    round();
    allocations() - before
}

#[test]
fn packets_that_pass_or_suffer_allocate_nothing() {
    for rules in [
        "tx op=write -> drop",
        "tx psn=+5 iter=2 msg=3 -> drop; rx -> answer:ack",
        "any -> drop p=0.5",
        "any -> delay=1ms, dup=2, corrupt",
        "any -> set:psn=5, ce",
        "any -> hold=2/5ms",
    ] {
        assert_eq!(allocations_of(rules), 0, "{rules}");
    }
}
