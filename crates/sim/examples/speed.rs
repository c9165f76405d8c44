//! How many packets a second simulations get through: `speed FROM TO` runs these seeds as they are drawn, and again with
//! reliable connections whose messages are full packets of 1 KiB. The time is that of the processor, in user mode.

use uroce_device::transport::QpType;
use uroce_sim::{Scenario, run};
use uroce_wire::Mtu;

/// Clock ticks of /proc in a second.
const TICKS: u64 = 100;

/// Time of this process in user mode, in ticks.
fn user_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("a process has one");
    // The name, between brackets, may hold spaces.
    let fields = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    fields.into_iter().nth(11).and_then(|field| field.parse().ok()).expect("a number")
}

fn measure(what: &str, seeds: std::ops::Range<u64>, change: impl Fn(&mut Scenario)) {
    let (begin, count, mut packets) = (user_ticks(), seeds.end - seeds.start, 0);
    for seed in seeds {
        let mut scenario = Scenario::new(seed);
        change(&mut scenario);
        packets += run(&scenario).expect("every invariant holds").packets;
    }
    let ticks = (user_ticks() - begin).max(1);
    let (rate, seeds_per_hour) = (packets * TICKS / ticks, count * TICKS * 3600 / ticks);
    println!("{what}: {packets} packets, {rate} a second, {seeds_per_hour} seeds an hour");
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a seed"));
    let from = numbers.next().unwrap_or(0);
    let to = numbers.next().unwrap_or(from + 200);
    measure("as drawn", from..to, |_| ());
    measure("full packets", from..to, |scenario| {
        for pair in &mut scenario.pairs {
            (pair.service, pair.mtu, pair.full_packets) = (QpType::Rc, Mtu::M1024, true);
            pair.cm = None;
        }
    });
}
