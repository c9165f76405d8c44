//! One side reads the memory of the other, which takes no part; several reads are in flight at once.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use uroce_verbs::*;

const PEER_TIMEOUT: Duration = Duration::from_secs(5);
const PIECE: usize = 4096;
const PIECES: usize = 8;

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

    let into = pd.alloc_mr(PIECE * PIECES, Access::LOCAL_WRITE)?;
    let from = peer_pd.alloc_mr(PIECE * PIECES, Access::REMOTE_READ)?;
    for piece in 0..PIECES {
        from.fill(piece * PIECE, PIECE, b'a' + piece as u8)?;
    }
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build()?;
    let peer = peer_pd.qp_builder(QpType::Rc, &peer_cq, &peer_cq).build()?;
    let read_only = ConnectOptions { access: Access::REMOTE_READ, ..ConnectOptions::default() };
    qp.connect(&peer.endpoint(), &ConnectOptions::default())?;
    peer.connect(&qp.endpoint(), &read_only)?;

    // Backwards, to show that the pieces are independent.
    for piece in (0..PIECES).rev() {
        let range = piece * PIECE..(piece + 1) * PIECE;
        let sges = [into.sge(range.clone())];
        qp.post_send(&[SendWr::read(piece as u64, &sges, from.remote().part(range)).signaled()])?;
    }
    for _ in 0..PIECES {
        let done = cq.wait_one(PEER_TIMEOUT)?.result()?;
        let (mut first, at) = ([0; 1], done.wr_id as usize * PIECE);
        into.read(at, &mut first)?;
        println!("piece {}: {} bytes of {:?}", done.wr_id, done.byte_len, first[0] as char);
    }

    // The region grants reading only.
    qp.post_send(&[SendWr::write(99, &[into.sge(..8)], from.remote())])?;
    if let Err(refused) = cq.wait_one(PEER_TIMEOUT)?.result() {
        println!("as expected: {refused}");
    }
    Ok(())
}
