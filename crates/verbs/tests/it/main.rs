//! Integration tests of `uroce-verbs`, as one program: each is linked once.

mod address_handle;
mod agreement;
mod cm;
mod common;
mod comp_channel;
mod compile_fail;
mod completion_queue;
mod context;
mod drop_order;
mod engines;
mod examples;
mod memory_region;
mod memory_window;
mod queue_pair;
mod reliable;
mod shared_receive_queue;
mod threads;
mod unreliable;
mod work_completion;
mod work_request;
mod xrc;
