//! The RDMA transport engine: queue pairs RC, UC, UD and XRC, completion queues and shared receive
//! queues, without a clock, a socket or a thread.
//!
//! Time, packets and registered memory are arguments. Methods are of four kinds: getters,
//! commands (`modify`, `post_send`), `handle_*` for what comes in, and `poll_*` for what must go
//! out. The contract in one sentence: after any command or `handle_*`, drain
//! [`QueuePair::poll_transmit`], then read [`QueuePair::poll_timeout`].
//!
//! Rule numbers (R53) are those of `docs/conformance.md`, which names the tests of each; numbers with a dash (C9-88) are
//! compliance statements of the InfiniBand specification, volume 1.
#![forbid(unsafe_code)]

mod attr;
mod cause;
mod context;
mod counters;
mod cq;
mod event;
pub mod limits;
mod mutation;
mod qp;
mod recv_queue;
mod reorder_buffer;
mod retransmission;
mod srq;
mod time;
mod wc;
mod wr;

pub use attr::{AddressVector, CreateQpError, QpAttr, QpAttrMask, QpCaps, QpInit, QpState, QpType};
pub use cause::{Cause, FlushReason};
pub use context::{Arrival, Context, Path, Step, Transmit};
pub use counters::Counters;
pub use cq::{CompletionQueue, CqId, CqTable, Moderation, Notify, Overflow};
pub use event::{AsyncEvent, EventQueue};
pub use qp::{Admitted, ModifyQpError, QpTraffic, QueuePair, Run};
pub use reorder_buffer::ReorderBuffers;
pub use retransmission::Retransmission;
pub use srq::{SharedReceiveQueue, SrqAttr, SrqError, SrqId, SrqTable, XrcSrq, XrcdId};
pub use time::Instant;
pub use wc::{Wc, WcFlags, WcOpcode, WcStatus, WorkError, into_slots};
pub use wr::{PostError, RecvWr, SendData, SendFlags, SendOp, SendWr, UdDestination};
