//! Integration tests of `uroce-datapath`, as one program: each is linked once.

mod burst;
mod capture;
mod conformance;
mod counters;
mod engines;
mod faults;
mod joint_waiter;
mod loopback;
mod middleware;
mod packet;
mod packet_queue;
mod pcapng_bytes;
mod probe;
mod replay;
mod stream;
