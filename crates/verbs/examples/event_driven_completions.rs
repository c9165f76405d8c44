//! A receiver that sleeps until messages come: a completion channel instead of polling.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use uroce_verbs::*;

const MESSAGES: u64 = 5;
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

fn open(fabric: &LoopbackFabric, ip: &str) -> Result<QueuePair, Box<dyn Error>> {
    let context = Context::builder().address(ip.parse::<IpAddr>()?).loopback(fabric).open()?;
    let cq = context.create_comp_channel()?.create_cq(64, 0)?;
    let qp = context.alloc_pd()?.qp_builder(QpType::Rc, &cq, &cq).build()?;
    qp.init()?;
    Ok(qp)
}

/// Arm, poll until empty, sleep: in this order no completion is missed.
fn receive(cq: &CompletionQueue) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let channel = cq.channel().expect("the queue was made with a channel");
    let (mut received, mut wakeups) = (0, 0);
    loop {
        cq.req_notify(Notify::Next);
        while let Some(wc) = cq.poll_one() {
            let wc = wc.result()?;
            println!("message {} arrived, immediate data {:?}", wc.wr_id, wc.imm);
            received += 1;
        }
        if received == MESSAGES {
            return Ok(wakeups);
        }
        channel.next_event(Some(PEER_TIMEOUT))?.ok_or("nothing came")?;
        wakeups += 1;
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let fabric = LoopbackFabric::new();
    let sender = open(&fabric, "10.0.0.1").map_err(|error| error.to_string())?;
    let receiver = open(&fabric, "10.0.0.2").map_err(|error| error.to_string())?;
    for id in 0..MESSAGES {
        receiver.post_recv(&[RecvWr::new(id, &[])])?;
    }
    receiver.connect(&sender.endpoint(), &ConnectOptions::default())?;
    sender.connect(&receiver.endpoint(), &ConnectOptions::default())?;

    let sleeper = std::thread::spawn(move || receive(receiver.recv_cq()));
    for number in 0..MESSAGES {
        std::thread::sleep(Duration::from_millis(20));
        sender.post_send(&[SendWr::send(number, &[]).imm(number as u32)])?;
    }
    let wakeups = sleeper.join().expect("the receiver does not panic")?;
    println!("{MESSAGES} messages, the receiver slept and woke up {wakeups} times");
    Ok(())
}
