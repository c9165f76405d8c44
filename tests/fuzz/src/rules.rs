//! Rules of faults.

use std::time::Duration;

use uroce_fault::{Direction, FaultInjector, Limits, PacketMeta, Plan, Verdict};
use uroce_wire::Flow;

use crate::input::Input;

/// Packets that an injector may keep here.
const LIMITS: Limits = Limits { packets: 16, bytes: 8 << 10, flows: 4, muted: 4, events: 16 };
/// Packets that are taken out behind one that goes in, at most: the copies of all that wait.
const MOST_RELEASED: usize = 100_000;

/// Reads the first line of the input as rules, or all of it as a file of rules, and gives the rest to what they say, as packets.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(plan) = Plan::from_toml(&text) {
        reads_again(&plan);
    }
    let (line, packets) = match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    if let Ok(plan) = String::from_utf8_lossy(line).parse::<Plan>() {
        reads_again(&plan);
        inject(&plan, packets);
    }
}

/// A plan is written as a line that means the same.
fn reads_again(plan: &Plan) {
    let text = plan.to_string();
    let again = text.parse::<Plan>().unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(&again, plan, "{text}");
    assert_eq!(plan.sentences().count(), plan.len());
}

fn inject(plan: &Plan, packets: &[u8]) {
    let mut input = Input::new(packets);
    let mut injector = FaultInjector::with_limits(plan, 1, LIMITS);
    let mut now = Duration::ZERO;
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        now += Duration::from_micros(input.u16().into());
        let direction = if input.bool() { Direction::Rx } else { Direction::Tx };
        let host = |last| [10, 0, 0, last].into();
        let flow = Flow { src: host(1), dst: host(2), src_port: 50_000, dst_port: 4791 };
        let meta = PacketMeta { direction, flow, ip_id: 0, traffic_class: 2, tag: 7 };
        let packet = input.piece();
        let verdict = injector.handle_packet(now, &meta, packet);
        assert!(verdict != Verdict::Pass || !packet.is_empty() || plan.len() < 1000);
        let released = std::iter::from_fn(|| injector.poll_packet(now).map(drop));
        assert!(released.take(MOST_RELEASED).count() < MOST_RELEASED);
        let (packets, bytes) = injector.waiting();
        assert!(packets <= LIMITS.packets && bytes <= LIMITS.bytes);
        while injector.poll_event().is_some() {}
    }
}
