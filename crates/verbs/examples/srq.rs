//! Three connections share one pool of receives, and an event tells when the pool runs low.

use std::error::Error;
use std::time::Duration;

use uroce_verbs::*;

const CLIENTS: u8 = 3;
const RECEIVES: u64 = 8;
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

fn open(fabric: &LoopbackFabric, host: u8) -> Result<ProtectionDomain, Box<dyn Error>> {
    let context = Context::builder().address([10, 0, 0, host]).loopback(fabric).open()?;
    Ok(context.alloc_pd()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = LoopbackFabric::new();
    let server = open(&fabric, 100)?;
    let cq = server.context().create_cq(64)?;
    let srq = server.create_srq(64, 1)?;
    let buffers = server.alloc_mr(64 * RECEIVES as usize, Access::LOCAL_WRITE)?;
    for id in 0..RECEIVES {
        let at = id as usize * 64;
        srq.post_recv(&[RecvWr::new(id, &[buffers.sge(at..at + 64)])])?;
    }
    srq.set_limit(6)?; // one event when fewer than 6 wait

    let mut connections = Vec::new();
    for host in 1..=CLIENTS {
        let pd = open(&fabric, host)?;
        let client_cq = pd.context().create_cq(16)?;
        let client = pd.qp_builder(QpType::Rc, &client_cq, &client_cq).build()?;
        let peer = server.qp_builder(QpType::Rc, &cq, &cq).srq(&srq).build()?;
        client.connect(&peer.endpoint(), &ConnectOptions::default())?;
        peer.connect(&client.endpoint(), &ConnectOptions::default())?;
        connections.push((client, peer));
    }
    for (client, _) in &connections {
        let text = format!("hello from {}", client.context().address());
        client.post_send(&[SendWr::send(1, &[]).inline(text.as_bytes()).signaled()])?;
        client.send_cq().wait_one(PEER_TIMEOUT)?.result()?;
    }
    for _ in 0..CLIENTS {
        let wc = cq.wait_one(PEER_TIMEOUT)?.result()?;
        let mut text = vec![0; wc.byte_len as usize];
        buffers.read(wc.wr_id as usize * 64, &mut text)?;
        println!("QP {:#08x}, buffer {}: {}", wc.qpn, wc.wr_id, String::from_utf8_lossy(&text));
    }
    let event = server.context().next_async_event(Some(PEER_TIMEOUT))?;
    println!("{event:?}: time to post more receives");
    Ok(())
}
