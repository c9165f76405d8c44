//! Tests that need more than one crate: golden captures, the table of rules, and the benchmark that
//! counts instructions, in `tests/` and `benches/` beside it. The library is the traffic that tests and measurements of
//! captures share.
#![forbid(unsafe_code)]

pub mod traffic;
