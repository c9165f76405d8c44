//! What the tester asks of the agent.

use std::net::IpAddr;

use serde::Serialize;

use super::fields::{read_names, read_struct, read_variants};
use super::{Access, CmRequest, Receive, Work};
use crate::Hex;

/// One thing to do. Objects have numbers that the agent gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The first request of a session; answered by [`Reply::Welcome`](crate::Reply::Welcome).
    Hello {
        /// [`VERSION`](crate::VERSION) of the tester.
        version: u32,
        /// What the agent printed when it started.
        token: String,
    },
    /// Destroys every object of the session.
    Clear,
    /// Registers memory, filled with [`pattern`](crate::pattern); answered by `Region`.
    Region {
        /// Protection domain, from 0 on; it is made when it is first named.
        domain: u8,
        /// Bytes.
        length: u32,
        /// Rights.
        access: Access,
    },
    /// Deregisters a region; its memory stays until `Clear`.
    Deregister {
        /// Number of the region.
        region: u32,
    },
    /// Writes memory of a region, as the application would.
    Fill {
        /// Number of the region.
        region: u32,
        /// From this byte on.
        offset: u32,
        /// What to write.
        bytes: Hex,
    },
    /// Reads memory of a region; answered by `Memory`.
    Look {
        /// Number of the region.
        region: u32,
        /// From this byte on.
        offset: u32,
        /// Bytes.
        length: u32,
    },
    /// Makes a queue pair in RESET with a completion queue of its own; answered by `QueuePair`.
    QueuePair {
        /// Service.
        kind: Kind,
        /// Protection domain.
        domain: u8,
        /// Work requests that can be posted.
        send_wr: u32,
        /// Receives that can be posted.
        recv_wr: u32,
        /// Number of a shared receive queue.
        shared: Option<u32>,
        /// `Flush` and `AtomicWrite` can be posted.
        extended: bool,
    },
    /// Moves a queue pair through INIT and RTR to RTS, or to an earlier state.
    Connect {
        /// Number of the queue pair.
        qp: u32,
        /// Its attributes.
        link: Link,
        /// Where to stop.
        until: State,
    },
    /// Moves a queue pair to RESET, ERR or SQD.
    Modify {
        /// Number of the queue pair.
        qp: u32,
        /// The new state.
        state: State,
    },
    /// Asks for the state of a queue pair; answered by `State`.
    Query {
        /// Number of the queue pair.
        qp: u32,
    },
    /// Posts receives, in order.
    Receive {
        /// Number of the queue pair.
        qp: u32,
        /// What to post.
        receives: Vec<Receive>,
    },
    /// Makes a shared receive queue; answered by `Shared`.
    SharedQueue {
        /// Protection domain.
        domain: u8,
        /// Receives that can be posted.
        recv_wr: u32,
    },
    /// Posts receives to a shared receive queue, in order.
    ReceiveShared {
        /// Number of the shared receive queue.
        shared: u32,
        /// What to post.
        receives: Vec<Receive>,
    },
    /// Posts one work request to the send queue.
    Send {
        /// Number of the queue pair.
        qp: u32,
        /// What to post.
        work: Work,
    },
    /// Posts a FLUSH to a queue pair that was made as extended.
    Flush {
        /// Number of the queue pair.
        qp: u32,
        /// Comes back in the completion.
        wr_id: u64,
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Bytes.
        length: u32,
        /// 1: global visibility; 2: persistence.
        placement: u8,
        /// 0: the range; 1: the whole region.
        selectivity: u8,
    },
    /// Posts an ATOMIC WRITE to a queue pair that was made as extended.
    AtomicWrite {
        /// Number of the queue pair.
        qp: u32,
        /// Comes back in the completion.
        wr_id: u64,
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// What to write, in host order.
        value: u64,
    },
    /// Makes a memory window of type 2; answered by `Window`.
    Window {
        /// Protection domain.
        domain: u8,
    },
    /// Posts the binding of a memory window, which completes as work request; answered by `Window` with its new key.
    Bind {
        /// Number of the queue pair.
        qp: u32,
        /// Comes back in the completion.
        wr_id: u64,
        /// Number of the window.
        window: u32,
        /// Number of the region, which must allow it.
        region: u32,
        /// From this byte of the region on.
        offset: u32,
        /// Bytes.
        length: u32,
        /// The new low byte of its key.
        key: u8,
        /// What the tester may do through it.
        access: Access,
    },
    /// Makes an XRC shared receive queue in the session's XRC domain; answered by `XrcQueue`.
    XrcQueue {
        /// Number of the queue pair in whose completion queue its completions come.
        qp: u32,
        /// Protection domain.
        domain: u8,
        /// Receives that can be posted.
        recv_wr: u32,
    },
    /// Adds 1 to the word at `offset` again and again, by the CPU and atomically, until `StopAdding`.
    StartAdding {
        /// Number of the region.
        region: u32,
        /// Byte at which the word of 8 bytes starts, a multiple of 8.
        offset: u32,
    },
    /// Ends `StartAdding`; answered by `Added`.
    StopAdding,
    /// Takes completions of a queue pair; answered by `Completions`.
    Poll {
        /// Number of the queue pair.
        qp: u32,
        /// Wait until there are so many.
        count: u32,
        /// But not longer than so many milliseconds.
        wait_ms: u32,
    },
    /// Arms the completion queue of a queue pair and says whether an event comes; answered by `Events`.
    Notify {
        /// Number of the queue pair.
        qp: u32,
        /// Solicited events only.
        solicited: bool,
    },
    /// Waits for an event of the completion queue after `Notify`; answered by `Events` with one entry or none.
    Woken {
        /// Number of the queue pair.
        qp: u32,
        /// Not longer than so many milliseconds.
        wait_ms: u32,
    },
    /// Takes asynchronous events; answered by `Events`.
    Events {
        /// Wait so many milliseconds for the first.
        wait_ms: u32,
    },
    /// Reads what sysfs has counted for the port of the device; answered by `Counters`.
    Counters,
    /// Something with connections.
    Cm {
        /// What.
        what: CmRequest,
    },
}

read_variants!(Request by "do" {
    "hello" => Hello { version, token },
    "clear" => Clear,
    "region" => Region { domain, length, access },
    "deregister" => Deregister { region },
    "fill" => Fill { region, offset, bytes },
    "look" => Look { region, offset, length },
    "queue_pair" => QueuePair { kind, domain, send_wr, recv_wr, shared, extended },
    "connect" => Connect { qp, link, until },
    "modify" => Modify { qp, state },
    "query" => Query { qp },
    "receive" => Receive { qp, receives },
    "shared_queue" => SharedQueue { domain, recv_wr },
    "receive_shared" => ReceiveShared { shared, receives },
    "send" => Send { qp, work },
    "flush" => Flush { qp, wr_id, va, rkey, length, placement, selectivity },
    "atomic_write" => AtomicWrite { qp, wr_id, va, rkey, value },
    "window" => Window { domain },
    "bind" => Bind { qp, wr_id, window, region, offset, length, key, access },
    "xrc_queue" => XrcQueue { qp, domain, recv_wr },
    "start_adding" => StartAdding { region, offset },
    "stop_adding" => StopAdding,
    "poll" => Poll { qp, count, wait_ms },
    "notify" => Notify { qp, solicited },
    "woken" => Woken { qp, wait_ms },
    "events" => Events { wait_ms },
    "counters" => Counters,
    "cm" => Cm { what },
});

/// The service of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// The end of an XRC connection that sends.
    XrcSend,
    /// The end of an XRC connection that answers, in the session's XRC domain.
    XrcReceive,
}

read_names!(Kind {
    "rc" => Rc,
    "uc" => Uc,
    "ud" => Ud,
    "xrc_send" => XrcSend,
    "xrc_receive" => XrcReceive,
});

/// The states of a queue pair that cases ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Just made, or reset.
    Reset,
    /// Takes receives.
    Init,
    /// Answers requests.
    Rtr,
    /// Sends requests.
    Rts,
    /// Starts no new requests.
    Sqd,
    /// A datagram that could not be sent stopped the send queue.
    Sqe,
    /// Failed.
    Err,
}

read_names!(State {
    "reset" => Reset,
    "init" => Init,
    "rtr" => Rtr,
    "rts" => Rts,
    "sqd" => Sqd,
    "sqe" => Sqe,
    "err" => Err,
});

/// Attributes of a connection, as seen by the queue pair under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Address of the tester.
    pub address: IpAddr,
    /// Queue pair number of the tester.
    pub qpn: u32,
    /// Path MTU: code 1 to 5.
    pub mtu: u8,
    /// First PSN that it expects.
    pub rq_psn: u32,
    /// First PSN that it sends.
    pub sq_psn: u32,
    /// What the tester may do.
    pub access: Access,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// ACK timeout code; 0 is never.
    pub timeout: u8,
    /// Repetitions after a timeout or a sequence NAK.
    pub retry_cnt: u8,
    /// Repetitions after an RNR NAK; 7 is for ever.
    pub rnr_retry: u8,
    /// READs and atomics that it may have open.
    pub max_rd_atomic: u8,
    /// READs and atomics that it answers at a time.
    pub max_dest_rd_atomic: u8,
    /// Queue key of a datagram queue pair.
    pub qkey: u32,
}

read_struct!(Link {
    address,
    qpn,
    mtu,
    rq_psn,
    sq_psn,
    access,
    min_rnr_timer,
    timeout,
    retry_cnt,
    rnr_retry,
    max_rd_atomic,
    max_dest_rd_atomic,
    qkey
});
