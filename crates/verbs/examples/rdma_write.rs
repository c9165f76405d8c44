//! One side writes into the memory of the other, which takes no part; then it writes with immediate
//! data, and the other side learns of it.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use uroce_verbs::*;

const PEER_TIMEOUT: Duration = Duration::from_secs(5);

fn open(
    fabric: &LoopbackFabric,
    ip: &str,
) -> Result<(ProtectionDomain, CompletionQueue), Box<dyn Error>> {
    let context = Context::builder().address(ip.parse::<IpAddr>()?).loopback(fabric).open()?;
    Ok((context.alloc_pd()?, context.create_cq(16)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = LoopbackFabric::new();
    let (pd, cq) = open(&fabric, "10.0.0.1")?;
    let (peer_pd, peer_cq) = open(&fabric, "10.0.0.2")?;

    let source = pd.alloc_mr(1 << 20, Access::empty())?;
    let target = peer_pd.alloc_mr(1 << 20, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
    let peer = peer_pd.qp_builder(QpType::Rc, &peer_cq, &peer_cq).build()?;
    qp.connect(&peer.endpoint(), &ConnectOptions::default())?;
    peer.connect(&qp.endpoint(), &ConnectOptions::default())?;

    // In real life the peer sends `remote` over some other channel.
    let remote = target.remote();
    println!("target: {remote}");

    source.fill(0, source.len(), 0xa5)?;
    qp.post_send(&[SendWr::write(1, &[source.sge(..)], remote).signaled()])?;
    cq.wait_one(PEER_TIMEOUT)?.result()?;
    let mut last = [0; 1];
    target.read(target.len() - 1, &mut last)?;
    println!("1 MiB written, the last byte is {:#x}", last[0]);

    // Immediate data uses up a receive of the peer, which so learns of the write.
    peer.post_recv(&[RecvWr::new(7, &[])])?;
    qp.post_send(&[SendWr::write(2, &[], remote).inline(b"short").imm(2026).signaled()])?;
    cq.wait_one(PEER_TIMEOUT)?.result()?;
    let heard = peer_cq.wait_one(PEER_TIMEOUT)?.result()?;
    println!("the peer heard of {} bytes, immediate data {:?}", heard.byte_len, heard.imm);

    // Beyond the end of the region: refused, and the completion says why.
    let beyond = remote.part(target.len()..target.len() + 8);
    qp.post_send(&[SendWr::write(3, &[source.sge(..8)], beyond)])?;
    if let Err(refused) = cq.wait_one(PEER_TIMEOUT)?.result() {
        println!("as expected: {refused}");
    }
    Ok(())
}
