//! A datagram: no connection, an address handle instead, and 40 bytes for the header on arrival.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use uroce_verbs::*;

const QKEY: u32 = 0x1111_1111;
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

fn open(fabric: &LoopbackFabric, ip: &str) -> Result<QueuePair, Box<dyn Error>> {
    let context = Context::builder().address(ip.parse::<IpAddr>()?).loopback(fabric).open()?;
    let (pd, cq) = (context.alloc_pd()?, context.create_cq(16)?);
    let qp = pd.qp_builder(QpType::Ud, &cq, &cq).build()?;
    qp.activate(QKEY)?;
    Ok(qp)
}

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = LoopbackFabric::new();
    let sender = open(&fabric, "10.0.0.1")?;
    let receiver = open(&fabric, "10.0.0.2")?;

    let buffer = receiver.pd().alloc_mr(GRH_AREA_LEN + 64, Access::LOCAL_WRITE)?;
    receiver.post_recv(&[RecvWr::new(1, &[buffer.sge(..)])])?;

    let ah = sender.pd().create_ah(&receiver.endpoint())?;
    let message = SendWr::send(2, &[]).inline(b"a datagram").imm(42).signaled();
    sender.post_send(&[message.to(&ah, receiver.qpn(), QKEY)])?;
    sender.send_cq().wait_one(PEER_TIMEOUT)?.result()?;

    let wc = receiver.recv_cq().wait_one(PEER_TIMEOUT)?.result()?;
    let mut text = vec![0; wc.byte_len as usize - GRH_AREA_LEN];
    buffer.read(GRH_AREA_LEN, &mut text)?;
    println!("{:?} from QP {:#x}", String::from_utf8_lossy(&text), wc.src_qpn);
    println!("immediate data {:?}, sender's address {:?}", wc.imm, wc.src_ip);

    // A wrong Q_Key: the receiver drops it silently and counts it.
    receiver.post_recv(&[RecvWr::new(3, &[buffer.sge(..)])])?;
    let message = SendWr::send(4, &[]).inline(b"lost").signaled();
    sender.post_send(&[message.to(&ah, receiver.qpn(), 0x2222)])?;
    sender.send_cq().wait_one(PEER_TIMEOUT)?.result()?;
    receiver.recv_cq().wait(&mut [WorkCompletion::default()], Duration::from_millis(20));
    for (reason, count) in receiver.context().drops().into_iter().filter(|drop| drop.1 > 0) {
        println!("dropped {count}: {} ({})", reason.name(), reason.explain());
    }
    Ok(())
}
