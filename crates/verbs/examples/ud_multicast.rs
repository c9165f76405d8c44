//! One datagram to a multicast group reaches all queue pairs that are attached to it.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use uroce_verbs::*;

const QKEY: u32 = 0x1111_1111;
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

struct Member {
    qp: QueuePair,
    buffer: MemoryRegion,
}

fn member(fabric: &LoopbackFabric, host: u8) -> Result<Member, Box<dyn Error>> {
    let context = Context::builder().address([10, 0, 0, host]).loopback(fabric).open()?;
    let (pd, cq) = (context.alloc_pd()?, context.create_cq(16)?);
    let qp = pd.qp_builder(QpType::Ud, &cq, &cq).build()?;
    qp.activate(QKEY)?;
    let buffer = pd.alloc_mr(GRH_AREA_LEN + 64, Access::LOCAL_WRITE)?;
    qp.post_recv(&[RecvWr::new(1, &[buffer.sge(..)])])?;
    Ok(Member { qp, buffer })
}

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = LoopbackFabric::new();
    let sender = member(&fabric, 1)?;
    let members = (2..=4).map(|host| member(&fabric, host)).collect::<Result<Vec<_>, _>>()?;
    for member in &members {
        member.qp.attach_mcast(GROUP)?;
    }

    let group = sender.qp.pd().create_ah(GROUP)?;
    let message = SendWr::send(1, &[]).inline(b"to all of you").signaled();
    sender.qp.post_send(&[message.to(&group, Qpn::MULTICAST, QKEY)])?;
    sender.qp.send_cq().wait_one(PEER_TIMEOUT)?.result()?;

    for member in &members {
        let wc = member.qp.recv_cq().wait_one(PEER_TIMEOUT)?.result()?;
        let mut text = vec![0; wc.byte_len as usize - GRH_AREA_LEN];
        member.buffer.read(GRH_AREA_LEN, &mut text)?;
        let address = member.qp.context().address();
        println!("{address} got {:?}", String::from_utf8_lossy(&text));
        member.qp.detach_mcast(GROUP)?;
    }
    Ok(())
}
