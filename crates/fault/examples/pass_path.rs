//! What a packet costs on its way past rules that do nothing to it: nanoseconds per packet.
//!
//! `cargo run --release -p uroce-fault --example pass_path`

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use uroce_fault::{Direction, FaultInjector, PacketMeta, Plan};
use uroce_wire::{Bth, Flow, Header, Opcode, Psn, Qpn};

const PACKETS: u32 = 2_000_000;

fn main() {
    let ten = ["tx op=ack psn=7 -> drop"; 10].join("; ");
    for (what, rules) in [
        ("one rule about the other direction", "rx -> drop"),
        ("one rule by opcode", "tx op=ack -> drop"),
        ("one rule by address", "tx op=send src=10.0.0.0/8 -> drop"),
        ("one rule by chance, 0.01 %", "tx -> drop p=0.0001"),
        ("ten rules by opcode and PSN", &ten),
        ("one rule by relative PSN", "tx qp=0 psn=+900000000 -> drop"),
        ("one rule by iteration", "tx iter=2 -> drop"),
    ] {
        println!("{:6.1} ns  {what}: {rules:.40}", nanoseconds(rules));
    }
}

/// The best of five rounds.
fn nanoseconds(rules: &str) -> f64 {
    let plan: Plan = rules.parse().expect("good rules");
    let rounds = (0..5).map(|_| round(&plan).as_nanos() as f64 / f64::from(PACKETS));
    rounds.fold(f64::INFINITY, f64::min)
}

#[expect(clippy::disallowed_methods, reason = "the example measures itself")]
fn round(plan: &Plan) -> Duration {
    let mut injector = FaultInjector::new(plan, 1);
    let (src, dst) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    let flow = Flow { src, dst, src_port: 0xc000, dst_port: 4791 };
    let direction = Direction::Tx;
    let meta = PacketMeta { direction, flow, ip_id: 0, traffic_class: 0, tag: 0 };
    let mut packet = vec![0; 1040];
    let begin = Instant::now();
    for psn in 0..PACKETS {
        let bth = Bth::new(Opcode::RC_SEND_MIDDLE, Qpn::new(0x22), Psn::new(psn));
        bth.write(&mut packet).expect("fits");
        black_box(injector.handle_packet(Duration::ZERO, &meta, black_box(&packet)));
        while injector.poll_packet(Duration::ZERO).is_some() {}
    }
    begin.elapsed()
}
