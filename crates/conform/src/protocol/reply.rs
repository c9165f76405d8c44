//! What the agent answers.

use std::net::IpAddr;

use serde::Serialize;

use super::fields::{read_struct, read_variants};
use super::{CmEvent, State, VERSION};
use crate::Hex;

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The session is open.
    Welcome {
        /// What is under test.
        card: Card,
    },
    /// It was done.
    Done,
    /// It was not done.
    Refused {
        /// What failed, and how.
        why: String,
    },
    /// Memory was registered.
    Region {
        /// Its number.
        region: u32,
        /// Its address.
        va: u64,
        /// Its local key.
        lkey: u32,
        /// Its remote key.
        rkey: u32,
    },
    /// A queue pair was made.
    QueuePair {
        /// Its number in this session.
        qp: u32,
        /// Its queue pair number.
        qpn: u32,
    },
    /// A shared receive queue was made.
    Shared {
        /// Its number.
        shared: u32,
    },
    /// A memory window was made, or its binding posted.
    Window {
        /// Its number.
        window: u32,
        /// Its key, as it is now.
        rkey: u32,
    },
    /// An XRC shared receive queue was made.
    XrcQueue {
        /// Its number as a shared receive queue of this session.
        shared: u32,
        /// Its number for peers that send to it.
        number: u32,
    },
    /// The CPU has stopped adding.
    Added {
        /// How often it added 1.
        count: u64,
    },
    /// The state of a queue pair.
    State {
        /// RESET to ERR.
        state: State,
    },
    /// Bytes of a region.
    Memory {
        /// As they stand in memory.
        bytes: Hex,
    },
    /// Completions, in their order.
    Completions {
        /// Oldest first.
        completions: Vec<Completion>,
    },
    /// A listener or a connection was made.
    CmId {
        /// Its number.
        id: u32,
        /// Its port.
        port: u16,
    },
    /// Events of connection management, in their order.
    CmEvents {
        /// Oldest first.
        events: Vec<CmEvent>,
    },
    /// Events, in their order.
    Events {
        /// Oldest first.
        events: Vec<Event>,
    },
    /// What was counted for the port.
    Counters {
        /// By name; empty if sysfs has none.
        counters: Vec<Counter>,
        /// Why there are none.
        missing: Option<String>,
    },
}

read_variants!(Reply by "is" {
    "welcome" => Welcome { card },
    "done" => Done,
    "refused" => Refused { why },
    "region" => Region { region, va, lkey, rkey },
    "queue_pair" => QueuePair { qp, qpn },
    "shared" => Shared { shared },
    "window" => Window { window, rkey },
    "xrc_queue" => XrcQueue { shared, number },
    "added" => Added { count },
    "state" => State { state },
    "memory" => Memory { bytes },
    "completions" => Completions { completions },
    "cm_id" => CmId { id, port },
    "cm_events" => CmEvents { events },
    "events" => Events { events },
    "counters" => Counters { counters, missing },
});

/// What is under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// [`VERSION`](crate::VERSION) of the agent.
    pub version: u32,
    /// Name of the RDMA device.
    pub device: String,
    /// Its firmware.
    pub firmware: String,
    /// Its vendor and part.
    pub vendor: (u32, u32),
    /// The system it runs on.
    pub system: String,
    /// The address of the GID that queue pairs use.
    pub address: IpAddr,
    /// The largest path MTU: code 1 to 5.
    pub mtu: u8,
    /// READs and atomics that a queue pair answers at a time, at most.
    pub max_dest_rd_atomic: u8,
    /// READs and atomics that a queue pair may have open, at most.
    pub max_rd_atomic: u8,
    /// It does atomics.
    pub atomics: bool,
    /// It has shared receive queues.
    pub shared_queues: bool,
    /// Why the agent can do no connection management, if it cannot.
    pub no_cm: Option<String>,
    /// Local CA ACK delay: code of `4.096 us * 2^code`.
    pub ack_delay: u8,
    /// What not every device has.
    pub extensions: Extensions,
}

read_struct!(Card {
    version,
    device,
    firmware,
    vendor,
    system,
    address,
    mtu,
    max_dest_rd_atomic,
    max_rd_atomic,
    atomics,
    shared_queues,
    no_cm,
    ack_delay,
    extensions
});

impl Card {
    /// A device of which its name and its address are known. It is taken to have what every device has, and no extensions.
    pub fn new(device: impl Into<String>, address: IpAddr) -> Card {
        let unknown = || "not known".to_owned();
        Card {
            version: VERSION,
            device: device.into(),
            firmware: unknown(),
            vendor: (0, 0),
            system: unknown(),
            address,
            mtu: 5,
            max_dest_rd_atomic: 16,
            max_rd_atomic: 16,
            atomics: true,
            shared_queues: true,
            no_cm: None,
            ack_delay: 0,
            extensions: Extensions::default(),
        }
    }
}

/// What not every device, driver and libibverbs has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Extensions {
    /// Atomics exclude those of the CPU as well.
    pub atomics_with_cpu: bool,
    /// Memory windows of type 2.
    pub windows: bool,
    /// SENDs that invalidate a key, and local invalidation.
    pub invalidate: bool,
    /// Extended reliable connections.
    pub xrc: bool,
    /// FLUSH to global visibility.
    pub flush: bool,
    /// FLUSH to persistence.
    pub persist: bool,
    /// ATOMIC WRITE.
    pub atomic_write: bool,
}

read_struct!(Extensions {
    atomics_with_cpu,
    windows,
    invalidate,
    xrc,
    flush,
    persist,
    atomic_write
});

/// A completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// That of the work request.
    pub wr_id: u64,
    /// `ibv_wc_status`.
    pub status: u32,
    /// `ibv_wc_opcode`; means nothing with an error.
    pub opcode: u32,
    /// Bytes received.
    pub byte_len: u32,
    /// Immediate data, if there are any.
    pub imm: Option<u32>,
    /// The key that the message invalidated, if it did.
    pub invalidated: Option<u32>,
    /// Queue pair number of a datagram's sender.
    pub src_qp: u32,
    /// `ibv_wc_flags`.
    pub flags: u32,
}

read_struct!(Completion { wr_id, status, opcode, byte_len, imm, invalidated, src_qp, flags });

/// A counter of a port in sysfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// Its folder and its file below that of the port: `hw_counters/rcvd_pkts`.
    pub name: String,
    /// Its value.
    pub value: u64,
}

read_struct!(Counter { name, value });

/// An asynchronous event, or one of a completion queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// `ibv_event_type`.
    pub kind: u32,
    /// Number of the queue pair, if it is about one of this session.
    pub qp: Option<u32>,
}

read_struct!(Event { kind, qp });
