//! The two NICs of the demonstration, each with memory, a completion queue and queue pairs.

use std::time::Duration;

use uroce_verbs::{
    Access, AddressHandle, CompletionQueue, ConnectOptions, Context, MemoryRegion,
    ProtectionDomain, QpType, QueuePair, RecvWr, SendWr, Sge, WorkCompletion,
};

use crate::failure::Failure;

/// Bytes of each NIC's memory.
pub const MEMORY: usize = 1 << 20;
/// How long a step waits.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// Q_Key of the datagrams.
pub const QKEY: u32 = 0x1111_1111;

/// One NIC.
#[derive(Debug)]
pub struct Node {
    /// The device.
    pub context: Context,
    /// Its protection domain.
    pub pd: ProtectionDomain,
    /// Its memory.
    pub mr: MemoryRegion,
    /// All completions.
    pub cq: CompletionQueue,
    /// Reliable connection.
    pub rc: QueuePair,
    /// Unreliable connection.
    pub uc: QueuePair,
    /// Datagrams.
    pub ud: QueuePair,
    /// How datagrams reach the other.
    pub other: Option<AddressHandle>,
}

/// The two NICs.
#[derive(Debug)]
pub struct Pair {
    /// The one that asks.
    pub a: Node,
    /// The one that is asked.
    pub b: Node,
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::environment(error)
}

impl Node {
    fn new(context: Context) -> Result<Node, Failure> {
        let pd = context.alloc_pd().map_err(refused)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND;
        let mr = pd.alloc_mr(MEMORY, access).map_err(refused)?;
        let cq = context.create_cq(512).map_err(refused)?;
        let make = |kind| pd.qp_builder(kind, &cq, &cq).build().map_err(refused);
        let (rc, uc, ud) = (make(QpType::Rc)?, make(QpType::Uc)?, make(QpType::Ud)?);
        let other = None;
        Ok(Node { context, pd, mr, cq, rc, uc, ud, other })
    }

    /// A piece of the memory.
    pub fn sge(&self, at: usize, length: usize) -> Sge {
        self.mr.sge(at..at + length)
    }

    /// Writes a pattern and returns it.
    pub fn fill(&self, at: usize, length: usize, seed: u8) -> Result<Vec<u8>, String> {
        let bytes: Vec<u8> =
            (0..length).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect();
        self.mr.write(at, &bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    /// Clears a piece of the memory.
    pub fn clear(&self, at: usize, length: usize) -> Result<(), String> {
        self.mr.fill(at, length, 0).map_err(|error| error.to_string())
    }

    /// Compares a piece of the memory.
    pub fn expect(&self, at: usize, wanted: &[u8]) -> Result<(), String> {
        let mut found = vec![0; wanted.len()];
        self.mr.read(at, &mut found).map_err(|error| error.to_string())?;
        match (0..found.len()).find(|&i| found[i] != wanted[i]) {
            None => Ok(()),
            Some(i) => Err(format!("byte {i} is {:#04x}, not {:#04x}", found[i], wanted[i])),
        }
    }

    /// Posts a receive.
    pub fn receive(&self, qp: &QueuePair, at: usize, length: usize) -> Result<(), String> {
        let sges = [self.sge(at, length)];
        qp.post_recv(&[RecvWr::new(1, &sges)]).map_err(|error| error.to_string())
    }

    /// Posts a work request and waits for its completion.
    pub fn run(&self, qp: &QueuePair, wr: SendWr<'_>) -> Result<WorkCompletion, String> {
        qp.post_send(&[wr.signaled()]).map_err(|error| error.to_string())?;
        self.completion()
    }

    /// Waits for a completion, which must be a success.
    pub fn completion(&self) -> Result<WorkCompletion, String> {
        let completion = self.any_completion()?;
        if completion.is_ok() { Ok(completion) } else { Err(completion.to_string()) }
    }

    /// Waits for a completion, success or not.
    pub fn any_completion(&self) -> Result<WorkCompletion, String> {
        self.cq.wait_one(STEP_TIMEOUT).map_err(|error| error.to_string())
    }
}

impl Pair {
    /// Makes all objects and connects them.
    ///
    /// # Errors
    /// Exit 3 for what a device refuses.
    pub fn open(a: Context, b: Context) -> Result<Pair, Failure> {
        let (mut a, mut b) = (Node::new(a)?, Node::new(b)?);
        connect(&a.rc, &b.rc)?;
        connect(&a.uc, &b.uc)?;
        a.ud.activate(QKEY).map_err(refused)?;
        b.ud.activate(QKEY).map_err(refused)?;
        a.other = Some(a.pd.create_ah(b.context.address()).map_err(refused)?);
        b.other = Some(b.pd.create_ah(a.context.address()).map_err(refused)?);
        Ok(Pair { a, b })
    }

    /// Packets that both sent so far.
    pub fn packets(&self) -> u64 {
        let sent = |node: &Node| node.context.counter("sent_pkts").unwrap_or(0);
        sent(&self.a) + sent(&self.b)
    }
}

/// Connects two queue pairs of two NICs.
///
/// # Errors
/// Exit 3 for what a device refuses.
pub fn connect(here: &QueuePair, there: &QueuePair) -> Result<(), Failure> {
    let options = ConnectOptions::default();
    here.connect(&there.endpoint(), &options).map_err(refused)?;
    there.connect(&here.endpoint(), &options).map_err(refused)
}
