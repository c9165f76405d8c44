//! Two RC queue pairs send a message to and fro, and the round trips are timed.
//!
//! Over UDP between 127.0.0.1 and 127.0.0.2; where that is not possible, inside the process.

use std::error::Error;
use std::time::{Duration, Instant};

use uroce_verbs::*;

const ROUNDS: u32 = 1_000;
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

struct Side {
    mr: MemoryRegion,
    cq: CompletionQueue,
    qp: QueuePair,
}

fn side(builder: ContextBuilder, host: u8) -> Result<Side, Box<dyn Error>> {
    let context = builder.address([127, 0, 0, host]).open()?;
    let pd = context.alloc_pd()?;
    let mr = pd.alloc_mr(64, Access::LOCAL_WRITE)?;
    let cq = context.create_cq(16)?;
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
    qp.init()?;
    qp.post_recv(&[RecvWr::new(0, &[mr.sge(..)])])?; // before the peer can send
    Ok(Side { mr, cq, qp })
}

fn both(builder: &ContextBuilder) -> Result<(Side, Side), Box<dyn Error>> {
    Ok((side(builder.clone(), 1)?, side(builder.clone(), 2)?))
}

/// Waits for a message and answers it; the receive is posted again before that.
fn answer(side: &Side) -> Result<(), Box<dyn Error>> {
    while !side.cq.wait_one(PEER_TIMEOUT)?.result()?.opcode.is_recv() {}
    side.qp.post_recv(&[RecvWr::new(0, &[side.mr.sge(..)])])?;
    Ok(side.qp.post_send(&[SendWr::send(1, &[side.mr.sge(..)])])?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = LoopbackFabric::new();
    let inside = || both(&Context::builder().loopback(&fabric));
    let (client, server) = both(&Context::builder()).or_else(|_| inside())?;
    client.qp.connect(&server.qp.endpoint(), &ConnectOptions::default())?;
    server.qp.connect(&client.qp.endpoint(), &ConnectOptions::default())?;
    println!("client: {}\nserver: {}", client.qp.endpoint(), server.qp.endpoint());

    let start = Instant::now();
    client.qp.post_send(&[SendWr::send(1, &[client.mr.sge(..)])])?;
    for _ in 0..ROUNDS {
        answer(&server)?;
        answer(&client)?;
    }
    println!("{ROUNDS} round trips, {:?} each", start.elapsed() / ROUNDS);
    Ok(())
}
