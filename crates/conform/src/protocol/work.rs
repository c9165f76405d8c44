//! What the tester has posted.

use serde::Serialize;

use super::fields::{read_names, read_struct};

/// A piece of memory in a scatter list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Number of the region.
    pub region: u32,
    /// From this byte on.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
    /// Another key than that of the region.
    pub lkey: Option<u32>,
}

read_struct!(Piece { region, offset, length, lkey });

/// A receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes.
    pub pieces: Vec<Piece>,
}

read_struct!(Receive { wr_id, pieces });

/// A work request of the send queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub operation: Operation,
    /// The local memory.
    pub pieces: Vec<Piece>,
    /// Remote address.
    pub va: u64,
    /// Remote key; of an invalidation the key that is to die.
    pub rkey: u32,
    /// Number of the receiver's XRC shared receive queue, if the queue pair is of XRC.
    pub srqn: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// What an atomic compares with, or adds.
    pub compare_add: u64,
    /// What an atomic swaps in.
    pub swap: u64,
    /// Waits for READs and atomics before it.
    pub fence: bool,
    /// Asks for an event at the receiver.
    pub solicited: bool,
    /// Completes also when it succeeds.
    pub signaled: bool,
}

read_struct!(Work {
    wr_id,
    operation,
    pieces,
    va,
    rkey,
    srqn,
    imm,
    compare_add,
    swap,
    fence,
    solicited,
    signaled
});

/// Operations of the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// SEND, with immediate data if there are any.
    Send,
    /// RDMA WRITE, with immediate data if there are any.
    Write,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// SEND that invalidates a remote key.
    SendInvalidate,
    /// Invalidates a key of the own side.
    LocalInvalidate,
}

read_names!(Operation {
    "send" => Send,
    "write" => Write,
    "read" => Read,
    "compare_swap" => CompareSwap,
    "fetch_add" => FetchAdd,
    "send_invalidate" => SendInvalidate,
    "local_invalidate" => LocalInvalidate,
});
