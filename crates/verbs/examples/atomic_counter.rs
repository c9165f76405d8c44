//! Four clients count in one word of a server's memory, and no count is lost.

use std::error::Error;
use std::time::Duration;

use uroce_verbs::*;

const CLIENTS: u8 = 4;
const COUNTS: u64 = 1_000;
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

struct Client {
    old: MemoryRegion,
    cq: CompletionQueue,
    qp: QueuePair,
}

impl Client {
    fn new(fabric: &LoopbackFabric, host: u8) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let context = Context::builder().address([10, 0, 0, host]).loopback(fabric).open()?;
        let (pd, cq) = (context.alloc_pd()?, context.create_cq(16)?);
        let old = pd.alloc_mr(8, Access::LOCAL_WRITE)?;
        let qp = pd.qp_builder(QpType::Rc, &cq, &cq).signal_all(true).build()?;
        Ok(Client { old, cq, qp })
    }

    fn count(&self, counter: RemoteSlice) -> Result<(), Box<dyn Error + Send + Sync>> {
        for _ in 0..COUNTS {
            self.qp.post_send(&[SendWr::fetch_add(1, &[self.old.sge(..)], counter, 1)])?;
            self.cq.wait_one(PEER_TIMEOUT)?.result()?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let fabric = LoopbackFabric::new();
    let server = Client::new(&fabric, 100)?;
    let counter = server.qp.pd().alloc_mr(8, Access::LOCAL_WRITE | Access::REMOTE_ATOMIC)?;
    let mut clients = Vec::new(); // each with its peer in the server
    for host in 1..=CLIENTS {
        let client = Client::new(&fabric, host)?;
        let peer = server.qp.pd().qp_builder(QpType::Rc, &server.cq, &server.cq).build()?;
        peer.connect(&client.qp.endpoint(), &ConnectOptions::default())?;
        client.qp.connect(&peer.endpoint(), &ConnectOptions::default())?;
        clients.push((client, peer));
    }
    let remote = counter.remote();
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients.iter().map(|c| scope.spawn(|| c.0.count(remote))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let total = counter.load_u64(0)?;
    println!("{CLIENTS} clients counted {COUNTS} each: {total}");
    let first = &clients[0].0;
    first.qp.post_send(&[SendWr::compare_swap(2, &[first.old.sge(..)], remote, total, 0)])?;
    first.cq.wait_one(PEER_TIMEOUT)?.result()?;
    println!("it was {}, and is {} now", first.old.load_u64(0)?, counter.load_u64(0)?);
    Ok(())
}
