//! One combination to try, and its dimensions.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;
use uroce_rxe_guest::addresses;
use uroce_rxe_guest::faults::Fault;

/// The service that a ping-pong runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pingpong {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Reliable connection with a shared receive queue, 16 queue pairs.
    Srq,
}

/// What a performance program measures with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND.
    Send,
    /// FETCH AND ADD.
    FetchAdd,
    /// COMPARE AND SWAP.
    CompareSwap,
}

/// Which figure a performance program is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Figure {
    /// Bandwidth: many at once.
    Bw,
    /// Latency: one at a time.
    Lat,
}

/// The pair of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Program {
    /// `uroce pingpong` and `ibv_*_pingpong`.
    Pingpong(Pingpong),
    /// `uroce perf` and `ib_*_{bw,lat}`.
    Perf(Verb, Figure),
    /// `uroce rping` and `rping`: connected by address and port.
    Rping,
}

impl Program {
    /// Every program.
    pub const ALL: [Self; 15] = [
        Self::Pingpong(Pingpong::Rc),
        Self::Pingpong(Pingpong::Uc),
        Self::Pingpong(Pingpong::Ud),
        Self::Pingpong(Pingpong::Srq),
        Self::Perf(Verb::Write, Figure::Bw),
        Self::Perf(Verb::Write, Figure::Lat),
        Self::Perf(Verb::Read, Figure::Bw),
        Self::Perf(Verb::Read, Figure::Lat),
        Self::Perf(Verb::Send, Figure::Bw),
        Self::Perf(Verb::Send, Figure::Lat),
        Self::Perf(Verb::FetchAdd, Figure::Bw),
        Self::Perf(Verb::FetchAdd, Figure::Lat),
        Self::Perf(Verb::CompareSwap, Figure::Bw),
        Self::Perf(Verb::CompareSwap, Figure::Lat),
        Self::Rping,
    ];

    /// True for the two atomic operations.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::Perf(Verb::FetchAdd | Verb::CompareSwap, _))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Pingpong(Pingpong::Rc) => "pingpong-rc",
            Self::Pingpong(Pingpong::Uc) => "pingpong-uc",
            Self::Pingpong(Pingpong::Ud) => "pingpong-ud",
            Self::Pingpong(Pingpong::Srq) => "pingpong-srq",
            Self::Rping => "rping",
            Self::Perf(verb, figure) => return write!(f, "{}-{}", verb.name(), figure.name()),
        };
        f.write_str(name)
    }
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
            Self::FetchAdd => "faa",
            Self::CompareSwap => "cas",
        }
    }
}

impl Figure {
    /// As in the names of the programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bw => "bw",
            Self::Lat => "lat",
        }
    }
}

/// What our side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Ours connects to the stock server.
    Client,
    /// The stock client connects to ours.
    Server,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Client { "client" } else { "server" })
    }
}

/// The IP version of the RoCE packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Our address.
    pub fn near(self) -> IpAddr {
        match self {
            Self::V4 => addresses::HOST_V4.into(),
            Self::V6 => addresses::HOST_V6.into(),
        }
    }

    /// The guest's address.
    pub fn far(self) -> IpAddr {
        match self {
            Self::V4 => addresses::GUEST_V4.into(),
            Self::V6 => addresses::GUEST_V6.into(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V4 { "ipv4" } else { "ipv6" })
    }
}

/// Message sizes in bytes; atomics have their own.
pub const SIZES: [u32; 6] = [0, 1, 3, 4096, 65536, 1 << 20];

/// Bytes of an atomic operation.
pub const ATOMIC_SIZE: u32 = 8;

/// Path MTUs in bytes.
pub const MTUS: [u32; 3] = [256, 1024, 4096];

/// One combination of all dimensions. The order of fields is the order of the dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// The pair of programs.
    pub program: Program,
    /// What our side is.
    pub role: Role,
    /// Message size in bytes.
    pub size: u32,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// IP version.
    pub family: Family,
    /// What goes wrong on the wire.
    pub fault: Fault,
}

impl Cell {
    /// Every combination, the senseless ones included.
    pub fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for program in Program::ALL {
            let sizes: &[u32] = if program.is_atomic() { &[ATOMIC_SIZE] } else { &SIZES };
            for role in [Role::Client, Role::Server] {
                for &size in sizes {
                    for mtu in MTUS {
                        for family in [Family::V4, Family::V6] {
                            let cell = |fault| Self { program, role, size, mtu, family, fault };
                            cells.extend(Fault::ALL.map(cell));
                        }
                    }
                }
            }
        }
        cells
    }

    /// How many messages to send: enough to be sure, few enough for a translated guest.
    pub fn iterations(&self) -> u32 {
        match (self.size, self.program) {
            (65537.., _) => 5,
            (4097.., _) if self.fault != Fault::None => 5,
            (4097.., _) => 20,
            // A kernel of 6.1 that calls us repeats a lost packet after 2 s.
            (_, Program::Rping) if self.fault != Fault::None => 50,
            (_, Program::Pingpong(_)) => 100,
            _ => 200,
        }
    }

    /// How many packets carry the messages, in both directions together.
    pub fn packets(&self) -> u32 {
        let messages = match self.program {
            // Each of the 16 queue pairs has a message under way when the last one is counted.
            Program::Pingpong(Pingpong::Srq) => 2 * self.iterations() + 16,
            // Each ping is read and written back.
            Program::Rping
            | Program::Pingpong(_)
            | Program::Perf(Verb::Write | Verb::Send, Figure::Lat) => 2 * self.iterations(),
            Program::Perf(..) => self.iterations(),
        };
        messages * self.size.div_ceil(self.mtu).max(1)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, role, size, mtu, family, fault } = self;
        write!(f, "{program}/{role}/{size}/mtu{mtu}/{family}/{fault}")
    }
}

impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
