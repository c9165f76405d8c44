//! Networks, and pairs of connected queue pairs on them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::time::Duration;

use uroce_verbs::*;

pub const COMPLETION_TIMEOUT: Duration = Duration::from_secs(20);
pub const QKEY: u32 = 0x1122_3344;
/// Long enough for anything that is going to happen on a fabric.
pub const MOMENT: Duration = Duration::from_millis(50);

/// UDP ports of this process, so that its tests can run side by side.
static NEXT_PORT: AtomicU16 = AtomicU16::new(15_000);

pub fn all() -> Access {
    Access::LOCAL_WRITE
        | Access::REMOTE_WRITE
        | Access::REMOTE_READ
        | Access::REMOTE_ATOMIC
        | Access::MW_BIND
        | Access::FLUSH_GLOBAL
}

/// An in-process switch, or the loopback interface of the machine.
pub struct Net {
    fabric: Option<LoopbackFabric>,
    port: u16,
    next_host: AtomicU8,
}

impl Net {
    pub fn fabric() -> Net {
        Net { fabric: Some(LoopbackFabric::new()), port: ROCE_PORT, next_host: AtomicU8::new(1) }
    }

    pub fn udp() -> Net {
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        Net { fabric: None, port, next_host: AtomicU8::new(1) }
    }

    /// A builder with an address that no other device has: of this process, or of another one that
    /// runs tests.
    pub fn builder(&self) -> ContextBuilder {
        let host = self.next_host.fetch_add(1, Ordering::Relaxed);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let builder = Context::builder().port(self.port);
        match &self.fabric {
            Some(fabric) => builder.address([10, 0, 0, host]).loopback(fabric),
            None => builder.address([127, 64 | high & 63, low, host]),
        }
    }

    pub fn open(&self) -> Context {
        self.builder().open().expect("the device opens")
    }

    /// An address where nobody is.
    pub fn nobody(&self) -> IpAddr {
        match &self.fabric {
            Some(_) => IpAddr::from([10, 0, 0, 250]),
            None => IpAddr::from([127, 63, 0, 250]),
        }
    }
}

/// Makes tests `fabric::name` and `udp::name` of functions that take a [`Net`].
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod fabric { $(#[test] fn $name() { super::$name(&crate::common::Net::fabric()); })* }
        mod udp { $(#[test] fn $name() { super::$name(&crate::common::Net::udp()); })* }
    };
}
pub(crate) use on_both;

/// A device with one of everything.
pub struct Side {
    pub qp: QueuePair,
    pub mr: MemoryRegion,
    pub cq: CompletionQueue,
    pub pd: ProtectionDomain,
    pub context: Context,
}

pub const MR_LEN: usize = 1 << 20;

impl Side {
    pub fn new(net: &Net, qp_type: QpType) -> Side {
        Side::of(net.open(), qp_type)
    }

    pub fn of(context: Context, qp_type: QpType) -> Side {
        let pd = context.alloc_pd().expect("a PD");
        let cq = context.create_cq(256).expect("a CQ");
        let mr = pd.alloc_mr(MR_LEN, all()).expect("an MR");
        let qp = pd.qp_builder(qp_type, &cq, &cq).build().expect("a QP");
        qp.init().expect("INIT");
        Side { qp, mr, cq, pd, context }
    }

    pub fn recv(&self, wr_id: u64, range: std::ops::Range<usize>) {
        self.qp.post_recv(&[RecvWr::new(wr_id, &[self.mr.sge(range)])]).expect("posted");
    }

    pub fn send(&self, wr: SendWr<'_>) {
        self.qp.post_send(&[wr]).expect("posted");
    }

    /// The next completion, whatever it says.
    pub fn next(&self) -> WorkCompletion {
        self.cq.wait_one(COMPLETION_TIMEOUT).expect("a completion")
    }

    /// The next completion, which must be a success.
    pub fn done(&self) -> WorkCompletion {
        self.next().result().expect("success")
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.mr.read(offset, &mut out).expect("inside the region");
        out
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.context.counter(name).expect("a known counter")
    }
}

pub fn connect(a: &QueuePair, b: &QueuePair, options: &ConnectOptions) {
    a.connect(&b.endpoint(), options).expect("connected");
    b.connect(&a.endpoint(), options).expect("connected");
}

/// Two connected sides.
pub fn pair(net: &Net, qp_type: QpType) -> (Side, Side) {
    pair_with(net, qp_type, &ConnectOptions::default())
}

pub fn pair_with(net: &Net, qp_type: QpType, options: &ConnectOptions) -> (Side, Side) {
    let (a, b) = (Side::new(net, qp_type), Side::new(net, qp_type));
    connect(&a.qp, &b.qp, options);
    (a, b)
}

/// Two activated UD sides, and the way from the first to the second.
pub fn datagram_pair(net: &Net) -> (Side, Side, AddressHandle) {
    let (a, b) = (Side::new(net, QpType::Ud), Side::new(net, QpType::Ud));
    a.qp.activate(QKEY).expect("RTS");
    b.qp.activate(QKEY).expect("RTS");
    let ah = a.pd.create_ah(&b.qp.endpoint()).expect("an AH");
    (a, b, ah)
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed * 7) >> (i & 3)) as u8).collect()
}
