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
mod completion_counter;
mod context;
mod counters;
mod cq;
mod event;
mod id;
pub mod limits;
mod qp;
mod qp_state;
mod recv_queue;
mod reorder_buffer;
mod retransmission;
mod srq;
mod time;
mod wc;
mod wc_status;
mod wr;

pub use attr::{AddressVector, CreateQpError, QpAttr, QpAttrMask, QpCaps, QpInit, QpType};
pub use cause::{Cause, FlushReason};
pub use completion_counter::{AttachCounterError, CompletionCounter, CountedOps, CounterUnit};
pub use context::{Arrival, Context, Path, Step, Train, TrainLimits, Transmit};
pub use counters::Counters;
pub use cq::{CompletionQueue, CqTable, Moderation, Notify, Overflow};
pub use event::{AsyncEvent, EventQueue};
pub use id::{CqId, SrqId, XrcdId};
pub use qp::{Admitted, ArrivedTrain, Features, ModifyQpError, QpTraffic, QueuePair, Run, Window};
pub use qp_state::QpState;
pub use reorder_buffer::ReorderBuffers;
pub use retransmission::Retransmission;
pub use srq::{SharedReceiveQueue, SrqAttr, SrqError, SrqTable, XrcSrq};
pub use time::Instant;
pub use wc::{Wc, WcFlags, WcOpcode, WorkError, into_slots};
pub use wc_status::WcStatus;
pub use wr::{PostError, RecvWr, SendData, SendFlags, SendOp, SendWr, UdDestination};
